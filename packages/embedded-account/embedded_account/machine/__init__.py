"""Use this machine: child processes, their environment, cached folders."""
