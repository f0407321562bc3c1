"""Commands on environment files: check, write, render."""
