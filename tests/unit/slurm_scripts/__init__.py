"""The lifecycle scripts of Slurm clusters, run with bash on a fake root."""
