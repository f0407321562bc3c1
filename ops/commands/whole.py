"""The application with all commands."""

from importlib import import_module

from ops.cli import app
from ops.commands import WORDS

__all__ = ["app"]


for _module in WORDS:
    import_module(f"{__package__}.{_module}")
