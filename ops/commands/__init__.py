"""The commands' options, messages and exit codes. The modules of `ops` that they call do the work.

Each folder is a panel of `ops --help` (PANELS in ops/cli.py).
"""

from ops.cli import PANELS, app
from ops.commands.change import image, pause, running
from ops.commands.deploy import delivery, destroy, mirror, policy, preflight, review
from ops.commands.environments import files
from ops.commands.operate import access, data, isolation, job, logs, node, slurm, smoke, status, support

__all__ = [
    "access",
    "app",
    "data",
    "delivery",
    "destroy",
    "files",
    "image",
    "isolation",
    "job",
    "logs",
    "mirror",
    "node",
    "pause",
    "policy",
    "preflight",
    "review",
    "running",
    "slurm",
    "smoke",
    "status",
    "support",
]


def _panel(module: str) -> str:
    return PANELS[module.removeprefix(f"{__name__}.").split(".")[0]]


for _command in app.registered_commands:
    if _command.callback:
        _command.rich_help_panel = _panel(_command.callback.__module__)
for _group in app.registered_groups:
    if _group.typer_instance and (_first := _group.typer_instance.registered_commands[0].callback):
        _group.rich_help_panel = _panel(_first.__module__)
