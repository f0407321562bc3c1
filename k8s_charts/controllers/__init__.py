"""The programs of our own in the cluster: the node reaper and the job supervisor, with their code."""
