"""The commands of `ops` on a cluster that Slurm orchestrates."""
