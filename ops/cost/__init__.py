"""What an environment costs: the estimate of its file beside what exists."""
