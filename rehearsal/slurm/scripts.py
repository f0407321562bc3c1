"""Run this project's lifecycle scripts on a folder that stands for a node, and check what they asked of it."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rehearsal.paths import REPOSITORY
from rehearsal.slurm import stand_ins

ENTRY_POINT: Final = "on_create.sh"
PARAMETERS: Final = "provisioning_parameters.json"
_OURS: Final = REPOSITORY / "lifecycle_scripts" / "slurm"
_CODE: Final = (".sh", ".py")
_PATIENCE_SECONDS: Final = 600.0
_IMAGE_USERS: Final = "root:x:0:0::/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n"
_UNASKED: Final = ("getent", "hostname", "journalctl", "mountpoint", "sleep", "sync")
"""Stand-ins that change nothing."""
_PYTHON: Final = r"python3 -m pip install --quiet --no-deps --require-hashes --target /opt/uv --requirement \S+/uv\.txt"
_MOUNTPOINT: Final = r"https://s3\.amazonaws\.com/mountpoint-s3-release/\S+"
_ALWAYS: Final = (
    r"apt-get -o DPkg::Lock::Timeout=300 install -y (docker\.io|\S+\.deb( \S+\.deb)*)",
    rf"curl --fail --silent --show-error --retry 3 --max-time 120 --output \S+ {_MOUNTPOINT}",
    r"gpg --batch --quiet --homedir (\S+) --import \1/KEYS",
    r"gpg --batch --homedir (\S+) --status-fd 1 --verify \1/mount-s3\.deb\.asc \1/mount-s3\.deb",
    r"mount-s3 --version",
    r"munge -n",
    r"unmunge ",
    r"scontrol ping",
    r"systemctl daemon-reload",
    r"systemctl is-active --quiet (munge|slurmctld|slurmd)",
    r"systemctl (enable|start|restart) mount-s3",
    r"systemctl (enable --now|restart) docker",
    _PYTHON,
    r"uv venv --quiet --python /usr/bin/python3 \S+/python/[0-9a-f]{12}",
    r"uv pip install --quiet --require-hashes --python \S+/bin/python --requirement \S+/requirements\.txt",
)
"""What the scripts may ask on every node, as regular expressions."""


@dataclass(frozen=True)
class Inputs:
    """What HyperPod and the account give a node."""

    group: str
    address: str
    files: Mapping[str, bytes]
    """The lifecycle scripts, by path."""
    resource_config: Mapping[str, Any]
    mounted: Mapping[str, str] = field(default_factory=dict)
    """What HyperPod mounts before the scripts run: mount point → DNS@tcp:/NAME."""

    @property
    def ours(self) -> bool:
        """Return whether the programs are this project's; only tables, options and packages may differ."""
        own = {path.name: path.read_bytes() for path in _OURS.iterdir() if path.suffix in _CODE}
        own.pop("__init__.py", None)
        given = {name: text for name, text in self.files.items() if name.endswith(_CODE) and name != "__init__.py"}
        return given == own

    @property
    def daemon(self) -> str:
        """Return what the scripts must start after munge: slurmctld, slurmd, or "" where HyperPod does it."""
        if PARAMETERS not in self.files:
            return ""
        controller = json.loads(self.files[PARAMETERS])["controller_group"]
        return "slurmctld" if controller == self.group else "slurmd"


class NodeFolder:
    """A folder that the scripts take for a node's root: `directory`/root."""

    def __init__(
        self, directory: Path, inputs: Inputs, file_systems: Path, bodies: Mapping[str, str] | None = None
    ) -> None:
        """Choose the folder, and nothing is written yet.

        Args:
            directory: of this node; removed first.
            inputs: what the node is given.
            file_systems: has a folder for each file system of the account, named by `folder_of`.
            bodies: stand-ins beside the common ones.
        """
        self.directory = directory
        self.root = directory / "root"
        self.scripts = directory / "scripts"
        self._inputs = inputs
        self._file_systems = file_systems
        self._bodies = {**stand_ins.COMMON, **stand_ins.MOUNTS, **(stand_ins.NODE if bodies is None else bodies)}

    def write(self) -> None:
        """Make a new node: the image's accounts, the scripts, HyperPod's file and mounts."""
        shutil.rmtree(self.directory, ignore_errors=True)
        for folder in ("etc/skel", "opt/ml/config", "run/units"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "etc/passwd").write_text(_IMAGE_USERS)
        (self.root / "etc/group").write_text("root:x:0:\nubuntu:x:1000:\n")
        (self.root / "opt/ml/config/resource_config.json").write_text(json.dumps(self._inputs.resource_config))
        for name, content in self._inputs.files.items():
            path = self.scripts / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if self._inputs.daemon == "slurmctld":
            conf = self.root / "opt/slurm/etc/slurm.conf"
            conf.parent.mkdir(parents=True)
            conf.write_text(f"SlurmctldHost={self._inputs.group}({self._inputs.address})\n")
        stand_ins.write(self.directory / "programs", self._bodies)
        (self.root / "mounted").touch()
        for point, source in self._inputs.mounted.items():
            if (file_system := folder_of(self._file_systems, source)).is_dir():
                place = self.root / point.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(file_system)
                (self.root / "mounted").write_text(f"{point}\n")

    @property
    def argv(self) -> list[str]:
        """Return the words that run the entry point, as HyperPod does."""
        return ["/bin/bash", str(self.scripts / ENTRY_POINT)]

    def environment(self, path: str) -> dict[str, str]:
        """Return the variables for the run, with the programs of `path` behind the stand-ins."""
        return {
            "PATH": f"{self.directory / 'programs'}:{path}",
            "ROOT": str(self.root),
            "ADDRESS": self._inputs.address,
            "FILE_SYSTEMS": str(self._file_systems),
            "SECONDS_FOR_DNS": "0",
            "SECONDS_FOR_LOGS": "0",
            "SECONDS_FOR_MOUNT": "5",
        }

    def run(self, path: str) -> tuple[int, str]:
        """Run the scripts; return the exit code and both outputs, checked."""
        done = subprocess.run(
            self.argv,
            env=self.environment(path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        return self.outcome(done.returncode, done.stdout)

    def outcome(self, exit_code: int, output: str) -> tuple[int, str]:
        """Return the outcome, which is a failure if the scripts asked the node for anything else than they may."""
        if exit_code:
            return exit_code, output
        wrong = [f"rehearsal: unexpected on this node: {line}" for line in self._unexpected()]
        wrong += [f"rehearsal: missing on this node: {line}" for line in self._missing()]
        return (1 if wrong else 0), "\n".join([output.rstrip(), *wrong])

    @property
    def asked(self) -> list[str]:
        """Return what the stand-ins were called with, without those that change nothing."""
        lines = (self.root / "asked").read_text().splitlines()
        return [line.replace(str(self.root), "") for line in lines if not line.startswith(_UNASKED)]

    def _unexpected(self) -> list[str]:
        allowed = [re.compile(pattern) for pattern in (*_ALWAYS, *self._of_inputs())]
        return [line for line in self.asked if not any(pattern.fullmatch(line) for pattern in allowed)]

    def _of_inputs(self) -> Iterator[str]:
        """Yield what this node's inputs allow: its accounts, its file system, its daemon."""
        point = re.escape(_option(self._inputs.files, "MOUNT_POINT"))
        for name, uid in _users(self._inputs.files):
            home = f"{point}/home/{re.escape(name)}"
            yield rf"groupadd --gid {uid} {name}"
            yield rf"useradd --uid {uid} --gid {uid} --home-dir {home} --no-create-home --shell /bin/bash {name}"
            yield rf"usermod --home {home} {name}"
            yield rf"chown -R {uid}:{uid} {home}(\.new-\S+|/\.ssh)"
        yield from map(re.escape, self._wanted())

    def _wanted(self) -> list[str]:
        """Return what the scripts must ask on this node, in any order."""
        wanted = ["systemctl enable --now munge"]
        if daemon := self._inputs.daemon:
            wanted += ["modprobe lnet", "modprobe lustre", "lctl network up"]
            wanted += [f"systemctl enable --now {daemon}", f"mount {_option(self._inputs.files, 'MOUNT_POINT')}"]
        return wanted

    def _missing(self) -> list[str]:
        return [line for line in self._wanted() if line not in self.asked]


def folder_of(file_systems: Path, source: str) -> Path:
    """Return the folder of a file system, which fstab calls DNS@tcp:/NAME."""
    return file_systems / source.replace("/", "_")


def _lines(files: Mapping[str, bytes], name: str) -> list[str]:
    lines = (line.strip() for line in files.get(name, b"").decode().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _users(files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Return name and id of each account, as words of a pattern."""
    fields = [[re.escape(part.strip()) for part in line.split(",")] for line in _lines(files, "users.txt")]
    return [(name, uid) for name, uid, *_ in fields]


def _option(files: Mapping[str, bytes], key: str) -> str:
    return next(line.partition("=")[2] for line in _lines(files, "options") if line.startswith(f"{key}="))
