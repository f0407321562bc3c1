"""The project's own programs in the cluster: the reaper, the job supervisor and the sleeper, with their code."""
