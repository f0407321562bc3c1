"""Everything that exists in the account, and which stack owns it."""
