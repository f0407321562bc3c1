"""Admit callers of the account: the keys of a run, signatures, and the middleware that verifies them."""
