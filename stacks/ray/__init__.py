"""The RayClusters, their roles, and the guard that waits until dynamic file systems are deleted."""
