"""List everything that exists in the account, with the stack that owns it."""
