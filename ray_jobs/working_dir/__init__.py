"""The program that fetches a large working directory for a job."""
