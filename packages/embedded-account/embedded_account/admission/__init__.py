"""Who may call the account: the keys of a run, signatures, and the middleware that checks them."""
