"""Both checkouts of a review: which environments differ, their syntheses, and the progress."""
