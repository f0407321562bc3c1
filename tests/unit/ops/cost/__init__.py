"""Tests of `ops.cost`."""
