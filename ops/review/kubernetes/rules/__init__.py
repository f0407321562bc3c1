"""What a change of each kind of object does, and what it endangers."""
