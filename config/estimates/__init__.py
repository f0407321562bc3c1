"""What an environment costs, and how many addresses it takes."""
