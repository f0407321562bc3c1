"""Controllers that run in the cluster, in a plain Python image with nothing but the standard library."""
