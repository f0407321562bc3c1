"""Rehearse failures: in drills, and in a kept rehearsal."""
