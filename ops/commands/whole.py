"""The application with all commands, in their panels."""

from importlib import import_module

from ops.cli import PANELS, app
from ops.commands import WORDS

__all__ = ["app"]


def _panel(module: str) -> str:
    return PANELS[module.removeprefix(f"{__package__}.").split(".")[0]]


for _module in WORDS:
    import_module(f"{__package__}.{_module}")
for _command in app.registered_commands:
    if _command.callback:
        _command.rich_help_panel = _panel(_command.callback.__module__)
for _group in app.registered_groups:
    if _group.typer_instance and (_first := _group.typer_instance.registered_commands[0].callback):
        _group.rich_help_panel = _panel(_first.__module__)
