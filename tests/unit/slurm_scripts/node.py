"""A node of a Slurm cluster in a temporary directory: the scripts run for real, and stand-ins record what they call."""

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rehearsal.slurm import stand_ins
from tests.support.lifecycle_scripts import put_program, run_script

SCRIPTS: Final = Path(__file__).resolve().parents[3] / "lifecycle_scripts" / "slurm"
CONTROLLER, COMPUTE, LOGIN = "10.1.0.10", "10.1.0.20", "10.1.0.30"
GROUPS: Final = {"controller-machine": CONTROLLER, "compute-nodes": COMPUTE, "login-nodes": LOGIN}
PARAMETERS: Final[dict[str, Any]] = {
    "version": "1.0.0",
    "workload_manager": "slurm",
    "controller_group": "controller-machine",
    "login_group": "login-nodes",
    "worker_groups": [{"instance_group_name": "compute-nodes", "partition_name": "dev"}],
    "fsx_dns_name": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
    "fsx_mountname": "abcdefgh",
}

STAND_INS: Final = {
    **stand_ins.COMMON,
    **stand_ins.NODE,
    "mount": 'echo mounted >"$ROOT/mounted"',
    "mountpoint": '[[ -f $ROOT/mounted || $2 != "$ROOT/fsx" ]]',
    "systemctl": '[[ $1 != is-active ]] || exit "${UNITS_INACTIVE:-3}"',
    "uname": "echo x86_64",
}
"""What stands for the programs that change or ask a real node; each records its arguments."""


@dataclass
class Node:
    """A new node: the scripts of the folder, HyperPod's resource_config.json, an account `ubuntu`."""

    root: Path
    scripts: Path
    programs: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, script: str = "on_create.sh") -> "subprocess.CompletedProcess[str]":
        """Run a script as HyperPod does; both outputs are in `stdout`."""
        waits = {"SECONDS_FOR_DNS": "0", "SECONDS_FOR_LOGS": "0", "SECONDS_FOR_MOUNT": "10", "SECONDS_FOR_SLURM": "5"}
        return run_script(
            self.scripts / script,
            programs=self.programs,
            variables={"ROOT": str(self.root), "ADDRESS": COMPUTE, **waits, **self.environment},
        )

    def succeed(self, script: str = "on_create.sh") -> str:
        """Run a script that must succeed; return its output."""
        result = self.run(script)
        assert result.returncode == 0, result.stdout
        return result.stdout

    def refuse(self, script: str = "on_create.sh") -> str:
        """Run a script that must fail; return its output."""
        result = self.run(script)
        assert result.returncode == 1, result.stdout
        return result.stdout

    def program(self, name: str, body: str) -> None:
        """Put a stand-in for a program that records its arguments."""
        put_program(self.programs, name, body)

    def write(self, path: str, text: str) -> Path:
        """Write a file of the node."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def read(self, path: str) -> str:
        """Return the text of a file of the node."""
        return (self.root / path).read_text()

    def option(self, key: str, value: str) -> None:
        """Set an option."""
        path = self.scripts / "options"
        kept = [line for line in path.read_text().splitlines() if not line.startswith(f"{key}=")]
        path.write_text("\n".join([*kept, f"{key}={value}", ""]))

    def parameters(self, **changes: Any) -> None:
        """Put provisioning_parameters.json beside the scripts."""
        (self.scripts / "provisioning_parameters.json").write_text(json.dumps({**PARAMETERS, **changes}))

    def users(self, *lines: str) -> None:
        """Write the table of users."""
        (self.scripts / "users.txt").write_text("".join(f"{line}\n" for line in lines))

    def mount(self) -> None:
        """Mount the file system, as HyperPod does."""
        self.write("mounted", "")
        (self.root / "fsx").mkdir(exist_ok=True)

    @property
    def asked(self) -> list[str]:
        """What the stand-ins were called with, without those that only tell something."""
        told = ("getent", "hostname", "mountpoint", "uname", "sleep")
        path = self.root / "asked"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.replace(str(self.root), "") for line in lines if not line.startswith(told)]

    def state(self) -> dict[str, str]:
        """Return every file of the node with its content, without the logs."""
        files = [path for path in self.root.rglob("*") if path.is_file() and path.name not in {"asked"}]
        return {str(path.relative_to(self.root)): path.read_text() for path in files if "log" not in path.parts}


def make_node(where: Path) -> Node:
    """Return a compute node whose file system HyperPod has mounted (the API's way)."""
    shutil.copytree(SCRIPTS, where / "scripts")
    # S3 stores no file modes.
    for script in (where / "scripts").iterdir():
        script.chmod(0o644)
    stand_ins.write(where / "programs", STAND_INS)
    node = Node(root=where / "root", scripts=where / "scripts", programs=where / "programs")
    node.write("etc/passwd", "root:x:0:0::/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n")
    node.write("etc/group", "root:x:0:\nubuntu:x:1000:\n")
    node.write("etc/skel/.profile", "skeleton")
    node.write("opt/slurm/etc/slurm.conf", f"SlurmctldHost=ip-{CONTROLLER.replace('.', '-')}({CONTROLLER})\n")
    groups = [
        {"Name": name, "InstanceType": "ml.c5.xlarge", "Instances": [{"CustomerIpAddress": address}]}
        for name, address in GROUPS.items()
    ]
    node.write("opt/ml/config/resource_config.json", json.dumps({"InstanceGroups": groups}))
    node.mount()
    return node
