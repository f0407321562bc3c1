"""The output of a run's jobs, kept in the run's folder: nodes, pods and heads lose theirs."""
