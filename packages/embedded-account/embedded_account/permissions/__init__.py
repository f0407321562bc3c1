"""Check the permissions of people: the actions and resources that a request needs, and the caller's policies."""
