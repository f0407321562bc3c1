"""Commands that look at a running environment and its nodes, and run jobs."""
