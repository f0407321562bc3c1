"""Pairs of cloud assemblies with the verdict that a review must give on them, written without sight of its code."""
