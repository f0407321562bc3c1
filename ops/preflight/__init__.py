"""Check before the first deployment that the account has what an environment needs (`ops preflight`)."""
