"""`ops upgrade`: bring a deployed environment to other versions, step by step, in an order that keeps jobs running."""
