"""The project's own programs in the cluster: the reaper and the job supervisor, with their code."""
