"""The commands' options, messages and exit codes. The modules of `ops` that they call do the work.

`whole.py` has the application with all commands. PANELS in ops/cli.py says which panel of the help shows each.
"""

from collections.abc import Mapping
from typing import Final

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "environments.files": (
        *("charts", "check", "explain", "images", "import", "manifests", "migrate", "new", "schema", "scripts"),
    ),
    "deploy.delivery": ("drift", "plan"),
    "deploy.destroy": ("destroy", "sweep"),
    "deploy.mirror": ("mirror",),
    "deploy.policy": ("policy",),
    "deploy.preflight": ("preflight",),
    "deploy.review": ("gate", "review"),
    "operate.access": ("kubeconfig",),
    "operate.data": ("data",),
    "operate.isolation": ("isolation-check",),
    "operate.job": ("job",),
    "operate.logs": ("events", "logs"),
    "operate.node": ("node",),
    "operate.slurm": ("ssh-config",),
    "operate.smoke": ("smoke",),
    "operate.status": ("cost", "dashboard", "status"),
    "operate.support": ("support-bundle",),
    "change.image": ("image",),
    "change.pause": ("pause", "resume"),
    "change.sleep": ("sleep", "wake"),
    "change.running": ("kuberay", "rollout", "scale", "update-software", "wait"),
    "change.upgrade": ("upgrade",),
}
"""The modules of this package, and the words after `ops` that each defines: the name of a command or of a group."""
