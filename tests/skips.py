"""Every skip that a run of the tests allows, with the reason; any other skip fails the run.

`TEST_STRICT=1`, as in CI, also refuses what a person's machine may lack.
"""

import os
import platform
from typing import Final

from embedded_account.testing.runs.skips import PermittedSkips

STRICT: Final = "TEST_STRICT"
OWNERS: Final = "tests/charts/storage/test_volume_owner.py::test_script_needs_no_right_of_root_but_to_change_owners"
FULL_DISK: Final = "tests/jobs/test_failures.py::test_full_file_system_is_named_and_leaves_the_last_checkpoint_whole"


def allowed() -> tuple[PermittedSkips, ...]:
    """Return the permissions that hold for this machine, this user and this run."""
    debian_12 = _distribution() == "debian 12" and platform.machine() == "x86_64"
    root = os.geteuid() == 0
    lenient = not os.environ.get(STRICT)
    nightly = "the job `debian` of nightly.yml runs them, in Debian 12 and as root"
    ci = "CI runs them: its machines have what this one lacks"
    return (
        PermittedSkips("tests/rehearsal/slurm/*", "*Slurm*", nightly, here=not debian_12),
        PermittedSkips("tests/jobs/test_slurm_jobs.py*", "*Slurm*", nightly, here=not debian_12),
        PermittedSkips(f"{OWNERS}*", "only root *", nightly, here=not root),
        PermittedSkips(f"{FULL_DISK}*", "only root *", nightly, here=not root),
        PermittedSkips("tests/*", "*namespace*", ci, here=lenient),
        PermittedSkips("tests/*", "Debian's package * cannot be had: *", ci, here=lenient),
        PermittedSkips("tests/charts/*", "KubeRay's CRDs come with the control plane's programs*", ci, here=lenient),
        PermittedSkips("tests/rehearsal/pytorchjob/*", "*`make setup-jobs`*", ci, here=lenient),
        PermittedSkips("tests/unit/test_ray_image.py*", "the package index cannot be reached", ci, here=lenient),
        PermittedSkips("tests/unit/slurm_scripts/*", "no CPython *", "the same cases run with this run's own Python"),
    )


def _distribution() -> str:
    """Return the distribution and its version, such as `debian 12`."""
    try:
        found = platform.freedesktop_os_release()
    except OSError:
        return ""
    return f"{found['ID']} {found.get('VERSION_ID', '')}"
