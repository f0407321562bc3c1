"""How pytest runs the tests: which worker takes what, and what may be skipped."""
