"""Training jobs that survive failures, and the small library that they share. They run in Ray pods (Python 3.10).

The files import each other by their plain names, because they are all in a job's working directory.
"""
