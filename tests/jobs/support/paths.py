"""Folders of the repository that the jobs' tests use."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
RAY_JOBS = REPOSITORY / "ray_jobs"
