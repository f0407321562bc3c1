"""The constructs that the stacks are made of, one file each."""
