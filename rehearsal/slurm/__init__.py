"""Run real Slurm on this machine: controller, login and compute nodes, each in namespaces of the kernel, without root.

Not shown: several users (every process is the rehearsal's own user), cgroups, accounting in a database, Slurm versions
other than Debian's, and GPUs.
"""
