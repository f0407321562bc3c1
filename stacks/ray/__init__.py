"""The RayClusters, their roles, and the guard that keeps the file system until its users are gone."""
