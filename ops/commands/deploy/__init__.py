"""Commands around a deployment: check before, review, compare, destroy."""
