"""Start a Slurm cluster from a list of groups, lose and replace its nodes, grow its groups."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from embedded_account.machine.processes import ProcessError
from rehearsal.slurm import scripted
from rehearsal.slurm.configuration import ConfiguredGroup, ConfiguredNode, Folders, nodes, slurm_conf
from rehearsal.slurm.namespaces import Machine, NodeNamespaces
from rehearsal.slurm.programs import Programs
from rehearsal.slurm.scripts import NodeFolder

PATIENCE_SECONDS: Final = 300.0
"""Seconds until a cluster that does nothing is given up."""
_POLL_SECONDS: Final = 0.2
_MUNGE_SOCKET: Final = "/run/munge/munge.socket.2"
_LOG_LINES: Final = 12

Found = TypeVar("Found")


class SlurmCluster:
    """A running cluster; a context manager that ends all its processes. Its files are below `directory`."""

    def __init__(
        self,
        directory: Path,
        groups: Sequence[ConfiguredGroup],
        programs: Programs,
        *,
        state: Path | None = None,
        scripts: scripted.DeployedScripts | None = None,
    ) -> None:
        """Prepare a cluster of these groups.

        Args:
            directory: removed and created when the cluster starts; all nodes see it, as a shared file system.
            groups: the environment's, with few nodes each.
            programs: Slurm's and munge's.
            state: where the controller keeps its state, by default on the shared file system; below /run it is the
                node's own, and lost with it.
            scripts: the deployed lifecycle scripts, which then prepare each node; without them munge and Slurm start.
        """
        self.directory = directory
        self.groups = list(groups)
        self._programs = programs
        self._folders = Folders(programs.plugins, state or directory / "state")
        self._scripts = scripts
        self._prepared: dict[str, tuple[NodeFolder, Mapping[str, str]]] = {}
        self._logs = directory / "nodes"
        self._environment = {
            **programs.environment,
            "HOME": str(directory / "home"),
            "USER": "ubuntu",
            "LANG": "C.UTF-8",
            "SLURM_CONF": str(directory / "slurm.conf"),
        }
        self._running: dict[str, NodeNamespaces] = {}
        self._daemons: dict[tuple[str, str], subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "SlurmCluster":
        shutil.rmtree(self.directory, ignore_errors=True)
        (self.directory / "state").mkdir(parents=True)
        self._write_configuration()
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        with ExitStack() as stack:
            stack.callback(self._wait_for_daemons)
            self._machine = stack.enter_context(Machine(self.directory))
            self._name_hosts()
            for node in self.nodes:
                self.start(node.name)
            self.wait_until_idle()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def nodes(self) -> list[ConfiguredNode]:
        """Return all nodes of the configuration, running or lost."""
        return nodes(self.groups)

    @property
    def controller(self) -> str:
        """Return the name of the controller's node."""
        return next(node.name for node in self.nodes if node.group.node == "controller")

    @property
    def compute(self) -> list[str]:
        """Return the names of the compute nodes."""
        return [node.name for node in self.nodes if node.group.node == "compute"]

    @property
    def finished_jobs(self) -> Path:
        """Return Slurm's file with a line for each finished job, which outlives the controller."""
        return self._folders.state / "finished-jobs.txt"

    def run(self, *argv: str, on: str | None = None) -> str:
        """Run a command on a node, the controller's by default; return what it prints. Raises ProcessError."""
        done = self.attempt(*argv, on=on)
        if done.returncode:
            raise ProcessError(
                f"{' '.join(argv)} failed with code {done.returncode}. Fix: read the logs below {self._logs}: "
                f"{done.stderr.strip()}"
            )
        return done.stdout

    def attempt(self, *argv: str, on: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command on a node, and return its outcome, whatever it is."""
        return self._attempt(argv, on or self.controller, self._environment)

    def _attempt(
        self, argv: Sequence[str], node: str, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._running[node].command(argv, self.directory),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def submit(self, *words: str) -> int:
        """Submit a batch job with `sbatch`; return its number."""
        return int(self.run("sbatch", "--parsable", *words))

    def state_of(self, job: int) -> str:
        """Return a job's state, such as RUNNING; empty if the controller has forgotten it."""
        return self.attempt("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").stdout.strip()

    def wait_for(self, job: int, *states: str) -> str:
        """Wait until a job has one of these states, and return it. Raises ProcessError after the patience."""
        return self._wait(lambda: state if (state := self.state_of(job)) in states else "", f"job {job}: {states}")

    def wait_until_idle(self) -> None:
        """Wait until all compute nodes are free for jobs."""
        self._wait(lambda: set(self.states().values()) == {"idle"}, "all nodes idle")

    def wait_for_node(self, name: str, *states: str) -> str:
        """Wait until a compute node has one of these states, and return it."""
        return self._wait(lambda: state if (state := self.states().get(name, "")) in states else "", f"{name} {states}")

    def states(self) -> dict[str, str]:
        """Return the state of each compute node, such as `idle` or `down*`; empty without a controller."""
        lines = self.attempt("sinfo", "--Node", "--noheader", "--format=%N %t").stdout.splitlines()
        return dict(line.split() for line in lines)

    def start(self, name: str) -> None:
        """Start a node and its daemons: a new one, or the replacement of a lost one under the same name."""
        node = next(node for node in self.nodes if node.name == name)
        (self._logs / name).mkdir(parents=True, exist_ok=True)
        libraries = self._programs.libraries if self._scripts and self._scripts.start_slurm else None
        self._running[name] = self._machine.start_node(name, node.address, libraries)
        if self._scripts:
            self._run_scripts(node, self._scripts)
        else:
            self._start_munge(name)
        if not (self._scripts and self._scripts.start_slurm):
            self._start_slurm(node)

    def kill(self, name: str) -> None:
        """Lose a node: everything on it ends at once."""
        self._running.pop(name).kill()
        self._wait_for_daemons(name)

    def grow(self, group: str, *, by: int) -> list[str]:
        """Add nodes to a group, restart Slurm's daemons with the new configuration; return the new nodes' names.

        Slurm 22.05 learns of new nodes by a restart only; running jobs are not interrupted by it.
        """
        before = {node.name for node in self.nodes}
        self.groups = [replace(each, count=each.count + by) if each.name == group else each for each in self.groups]
        self._write_configuration()
        self._name_hosts()
        added = [node.name for node in self.nodes if node.name not in before]
        for node in self.nodes:
            if node.name in self._running:
                self._restart_slurm(node)
        for name in added:
            self.start(name)
        self._wait_until_heard()
        return added

    def _wait_until_heard(self) -> None:
        """Wait until the controller has heard of all running compute nodes since it started.

        A step that begins earlier waits for minutes.
        """

        def heard() -> bool:
            answering = {name for name, state in self.states().items() if not state.endswith("*")}
            return self._running.keys() & set(self.compute) <= answering

        self._wait(heard, "all nodes respond to the controller")

    def _run_scripts(self, node: ConfiguredNode, scripts: scripted.DeployedScripts) -> None:
        """Run the deployed scripts on a new node. Raises ProcessError with what the failed step said."""
        made = scripted.folder(scripts, self.directory, node, self.nodes, self._munge_words())
        environment: dict[str, str] = {
            **self._environment,
            **scripted.variables(made, self._programs, self._logs / node.name),
        }
        if scripts.start_slurm and node.group.node != "controller":
            # slurmd fetches slurm.conf from the controller, and leaves it in /run for the other programs.
            del environment["SLURM_CONF"]
        self._prepared[node.name] = (made, environment)
        done = self._attempt(made.argv, node.name, environment)
        code, output = made.outcome(done.returncode, done.stdout + done.stderr)
        if code:
            last = "\n".join(output.splitlines()[-_LOG_LINES:])
            raise ProcessError(
                f"lifecycle scripts failed on {node.name}. Fix: correct what their last lines name:\n{last}"
            )

    def _write_configuration(self) -> None:
        login = bool(self._scripts and self._scripts.start_slurm)
        (self.directory / "slurm.conf").write_text(slurm_conf(self.groups, self._folders, login_nodes=login))

    def _name_hosts(self) -> None:
        self._machine.name_hosts({node.name: node.address for node in self.nodes})

    def _munge_words(self) -> list[str]:
        folder = Path(_MUNGE_SOCKET).parent
        files = {"socket": _MUNGE_SOCKET, "pid-file": folder / "munged.pid", "seed-file": folder / "munged.seed"}
        words = [f"--{option}={file}" for option, file in files.items()]
        words += [f"--key-file={self.directory / 'munge.key'}", f"--log-file={folder / 'munged.log'}"]
        # --force: the key's folder may be writable for its group.
        return ["--force", *words]

    def _start_munge(self, name: str) -> None:
        self._start_daemon(name, "munged", "--foreground", *self._munge_words())
        self._wait(lambda: self.attempt("munge", "--no-input", on=name).returncode == 0, f"munge of {name}")

    def _start_slurm(self, node: ConfiguredNode) -> None:
        if node.group.node == "controller":
            self._start_daemon(node.name, "slurmctld", "-D")
        elif node.group.node == "compute":
            self._start_daemon(node.name, "slurmd", "-D", "-N", node.name, "-d", str(self._programs["slurmstepd"]))

    def _restart_slurm(self, node: ConfiguredNode) -> None:
        by_scripts = self._scripts is not None and self._scripts.start_slurm
        daemons = {"controller": "slurmctld", "compute": "slurmd", "login": "slurmd" if by_scripts else ""}
        if not (daemon := daemons[node.group.node]):
            return
        program = str(self._programs[daemon])
        self.attempt("pkill", "-TERM", "-f", program, on=node.name)
        if by_scripts:
            self._wait(lambda: self.attempt("pgrep", "-f", program, on=node.name).returncode, f"end of {daemon}")
            made, environment = self._prepared[node.name]
            self._attempt([str(made.directory / "units" / daemon)], node.name, environment)
        else:
            self._daemons.pop((node.name, daemon)).wait()
            self._start_slurm(node)

    def _start_daemon(self, node: str, program: str, *arguments: str) -> None:
        argv = self._running[node].command([str(self._programs[program]), *arguments], self.directory)
        with (self._logs / node / f"{program}.log").open("ab") as log:
            self._daemons[node, program] = subprocess.Popen(
                argv,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait_for_daemons(self, node: str | None = None) -> None:
        """Wait for the daemons of a node, or of all nodes, whose processes have been killed."""
        for key in [key for key in self._daemons if node in (None, key[0])]:
            self._daemons.pop(key).wait()

    def _wait(self, found: Callable[[], Found], what: str) -> Found:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (result := found()):
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"Slurm: {what}: not within {PATIENCE_SECONDS:.0f} s. Fix: read the logs below {self._logs}:\n"
                    f"{self._last_words()}"
                )
            time.sleep(_POLL_SECONDS)
        return result

    def _last_words(self) -> str:
        """Return what sinfo and squeue say, and the last lines of the daemons' logs."""
        parts = [self.attempt("sh", "-c", "sinfo --Node; squeue").stdout]
        for log in sorted(self._logs.glob("*/*.log")):
            lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
            parts.append("\n".join([f"{log}:", *lines]))
        return "\n".join(parts)
