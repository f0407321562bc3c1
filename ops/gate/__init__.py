"""The gate: which changes of a review need an approval, which have one, and what stops."""
