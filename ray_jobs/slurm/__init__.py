"""Training jobs for a cluster with Slurm: batch scripts, and trainings that resume without Ray.

All files of this folder are copied to a directory that every node sees, beside the folder of the library `ray_resume`.
"""
