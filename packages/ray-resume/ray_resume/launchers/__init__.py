"""What starts the workers of a training: Ray Train, or torchrun without Ray."""
