"""This project's extensions of the embedded account: the marker for stand-in charts, image builds, Slurm's nodes."""

from typing import Final

EXTENSIONS: Final = (
    "rehearsal.extensions.stand_in_marker",
    "rehearsal.extensions.image_builder",
    "rehearsal.extensions.slurm_nodes",
)
"""Modules with `install(account)`, for the account's option `--extension`."""
