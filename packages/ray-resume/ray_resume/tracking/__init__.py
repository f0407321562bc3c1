"""Loggers for `callbacks` of `ray_resume.main`: one record of a run over all its attempts, each step once."""
