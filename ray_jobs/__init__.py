"""Training jobs that survive failures, and the small library they share. Shipped to the Ray pods (Python 3.10).

The files import each other by their plain names, as a job's working directory has them.
"""
