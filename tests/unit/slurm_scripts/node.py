"""A node of a Slurm cluster in a temporary directory: the scripts run for real, and stand-ins record what they call."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.waiting import PATIENCE

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
    "apt-get": "exit 0",
    "chown": "exit 0",
    "curl": 'while [[ $# -gt 0 ]]; do [[ $1 != --output ]] || echo fetched >"$2"; shift; done',
    "getent": 'grep -E "^(${2}:|[^:]*:[^:]*:${2}:)" "$ROOT/etc/$1"',
    "gpg": 'echo "[GNUPG:] VALIDSIG AB12 2026-01-01 673FE4061506BB469A0EF857BE397A52B086DA5A"',
    "groupadd": 'echo "$3:x:$2:" >>"$ROOT/etc/group"',
    "hostname": 'if [[ ${1:-} == -I ]]; then echo "$ADDRESS 172.17.0.1"; else echo "ip-${ADDRESS//./-}"; fi',
    "journalctl": "echo why the unit failed",
    "mount": 'echo mounted >"$ROOT/mounted"',
    "mount-s3": "exit 127",
    "mountpoint": '[[ -f $ROOT/mounted || $2 != "$ROOT/fsx" ]]',
    "munge": "echo MUNGE:credential",
    "scontrol": "exit 0",
    "sleep": "exit 0",
    "sync": "exit 0",
    "systemctl": '[[ $1 != is-active ]] || exit "${UNITS_INACTIVE:-3}"',
    "uname": "echo x86_64",
    "unmunge": "cat >/dev/null",
    "useradd": 'echo "${@: -1}:x:$2:$4::$6:/bin/bash" >>"$ROOT/etc/passwd"',
    "usermod": 'sed -i "s#^\\($3:.*:\\)[^:]*:/bin/bash#\\1$2:/bin/bash#" "$ROOT/etc/passwd"',
}
"""What stands for the programs that change or ask a real node; each records its arguments."""

PYTHON: Final = f"""#!/bin/bash
if [[ $1 == -m ]]; then
  echo "python3 $*" >>"$ROOT/asked"
  mkdir -p "$ROOT/opt/uv/bin"
  cp "$ROOT/../programs/uv" "$ROOT/opt/uv/bin/uv"
  exit "${{PIP_FAILS:-0}}"
fi
exec {sys.executable} -S -E "$@"
"""
UV: Final = """#!/bin/bash
echo "uv $*" >>"$ROOT/asked"
[[ $1 != venv ]] || mkdir -p "${@: -1}/bin"
exit "${UV_FAILS:-0}"
"""


@dataclass
class Node:
    """A new node: the scripts of the folder, HyperPod's resource_config.json, an account `ubuntu`."""

    root: Path
    scripts: Path
    programs: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, script: str = "on_create.sh") -> "subprocess.CompletedProcess[str]":
        """Run a script as HyperPod does; both outputs are in `stdout`."""
        return subprocess.run(
            ["/bin/bash", self.scripts / script],
            env={
                "PATH": f"{self.programs}:{os.environ['PATH']}",
                "ROOT": str(self.root),
                "ADDRESS": COMPUTE,
                "SECONDS_FOR_LOGS": "0",
                "SECONDS_FOR_MOUNT": "5",
                "SECONDS_FOR_SLURM": "5",
                **self.environment,
            },
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
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
        path = self.programs / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>"$ROOT/asked"\n{body}\n')
        path.chmod(0o755)

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
    (where / "programs").mkdir()
    node = Node(root=where / "root", scripts=where / "scripts", programs=where / "programs")
    for name, body in STAND_INS.items():
        node.program(name, body)
    for name, text in (("python3", PYTHON), ("uv", UV)):
        (node.programs / name).write_text(text)
        (node.programs / name).chmod(0o755)
    node.write("etc/passwd", "root:x:0:0::/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n")
    node.write("etc/group", "root:x:0:\nubuntu:x:1000:\n")
    node.write("etc/skel/.profile", "skeleton")
    groups = [
        {"Name": name, "InstanceType": "ml.c5.xlarge", "Instances": [{"CustomerIpAddress": address}]}
        for name, address in GROUPS.items()
    ]
    node.write("opt/ml/config/resource_config.json", json.dumps({"InstanceGroups": groups}))
    node.mount()
    return node
