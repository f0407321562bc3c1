"""Tests of `ops support-bundle`."""
