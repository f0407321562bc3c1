"""Facts that AWS and other projects publish, as data, and tests that hold our code and the simulator against them."""
