"""Look after the nodes of a cluster that Slurm orchestrates: list, sessions, SSH, replacement and reboot."""
