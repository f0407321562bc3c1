"""Let a person inspect a kept rehearsal: write a file for a shell, and list first commands."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from config import Environment
from config.facts import charts_lock
from config.load import DIRECTORY_VARIABLE
from embedded_account.running import EmbeddedAccount
from rehearsal.paths import SHELL_FILE

ACCOUNT: Final = "account.json"
_NAMED: Final = ("KUBECONFIG", "NODE_OPTIONS", "NO_PROXY", charts_lock.STAND_IN_VARIABLE, DIRECTORY_VARIABLE)
# Profiles, endpoints of single services and the like would override what the file exports.
_FORGET: Final = "unset $(env | sed -n 's/^\\(AWS_[A-Z0-9_]*\\)=.*/\\1/p')"


def write(directory: Path, variables: Mapping[str, str], programs: Path) -> Path:
    """Write a file that makes a shell's `ops`, `kubectl` and `aws` use the rehearsal; return the file.

    It exports the `variables` of AWS, Kubernetes, proxies, stand-in charts and environments, and unsets the shell's own
    AWS variables.
    """
    exported = {name: value for name, value in variables.items() if name.startswith("AWS_") or name in _NAMED}
    exported["no_proxy"] = variables["NO_PROXY"]
    path = os.pathsep.join([str(Path(sys.prefix, "bin")), str(programs)])
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(exported.items())]
    file = directory / SHELL_FILE
    file.touch(mode=0o600)
    file.write_text("\n".join([_FORGET, *lines, f'export PATH={shlex.quote(path)}:"$PATH"', ""]))
    return file


def write_account(directory: Path, account: EmbeddedAccount) -> None:
    """Write how `make lose` reaches the account; only the same user can read it."""
    file = directory / ACCOUNT
    file.touch(mode=0o600)
    reached = {"endpoint": account.endpoint, "directory": str(account.directory), **account.keys.in_environment}
    file.write_text(json.dumps(reached))


def commands(environment: Environment, file: Path) -> list[str]:
    """Return the commands to paste into a shell, in any folder."""
    return [
        f"source {shlex.quote(str(file))}",
        f"ops status --env {environment.name}",
        "kubectl get pods --all-namespaces",
        f"aws sagemaker describe-cluster --cluster-name {environment.hyperpod.cluster_name}",
    ]
