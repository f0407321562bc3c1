"""Commands that change a running environment: size, pods, software, images."""
