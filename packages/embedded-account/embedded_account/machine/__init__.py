"""What the account uses of this machine: child processes, their environment, folders of its cache."""
