"""Rules about clusters that Slurm orchestrates: V87 to V92, V96."""
