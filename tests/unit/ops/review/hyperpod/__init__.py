"""Tests of the review of a HyperPod cluster: its groups, its guard, its lifecycle scripts."""
