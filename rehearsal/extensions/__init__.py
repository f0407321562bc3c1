"""What this project adds to the embedded account: its mark for stand-in charts, and the stand-in of the image build."""

from typing import Final

EXTENSIONS: Final = ("rehearsal.extensions.stand_in_marker", "rehearsal.extensions.image_builder")
"""Modules with `install(account)`, as the account's `--extension` takes them."""
