"""Drills on the whole deployment in the embedded account."""
