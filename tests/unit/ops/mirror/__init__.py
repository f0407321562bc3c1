"""Tests of `ops mirror` that need no registry."""
