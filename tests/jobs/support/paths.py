"""Folders of the repository that the jobs' tests use."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
RAY_JOBS = REPOSITORY / "ray_jobs"
LIBRARY = REPOSITORY / "packages" / "ray-resume"
MODULES = f"{LIBRARY}:{RAY_JOBS}"
"""Where the jobs find the library and each other."""
