"""Reviews changes of the HyperPod cluster, its guard and its lifecycle scripts by the table of consequences."""
