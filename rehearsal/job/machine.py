"""Check that this machine has what the job's rehearsal needs."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from embedded_account.machine.processes import ProcessError
from rehearsal.paths import RAY_ENVIRONMENT

_PROGRAMS: Final = ("ip", "nsenter", "unshare", "wget")


def require_machine(environment: Path = RAY_ENVIRONMENT) -> None:
    """Raise ProcessError if this machine lacks a program, the Python environment with Ray, or namespaces."""
    if missing := [program for program in _PROGRAMS if not shutil.which(program)]:
        raise ProcessError(
            f"the job's rehearsal needs {', '.join(missing)}. Fix: install iproute2, util-linux and wget"
        )
    if not (environment / "bin" / "ray").is_file():
        row = environment.name.removeprefix(f"{RAY_ENVIRONMENT.name}-")
        chosen = f" ROW={row}" if row != environment.name else ""
        raise ProcessError(f"there is no Ray in {environment}. Fix: `make setup-jobs{chosen}`")
    probe = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "true"]
    refused = subprocess.run(probe, capture_output=True, text=True, check=False)
    if refused.returncode:
        raise ProcessError(
            f"the job's rehearsal needs user namespaces, which this machine refuses ({refused.stderr.strip()}). "
            "Fix: on Ubuntu `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` allows them"
        )
