"""Training jobs that survive failures, with the library ray_resume. They run in Ray pods (Python 3.10).

The files import each other by their plain names, because they are all in a job's working directory.
"""
