"""This project's extensions of the embedded account: the marker for stand-in charts and the stand-in image build."""

from typing import Final

EXTENSIONS: Final = ("rehearsal.extensions.stand_in_marker", "rehearsal.extensions.image_builder")
"""Modules with `install(account)`, for the account's option `--extension`."""
