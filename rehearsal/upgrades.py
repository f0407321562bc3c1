"""Carry out upgrades while a training runs on real Ray, and write the page of what each costs the training.

Real are the control plane, KubeRay's operators, `ops upgrade` with `cdk deploy`, the job supervisor, Ray and PyTorch.
Simulated are nodes, images and their build, GPUs, and the file system: /fsx is a folder.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Final, NamedTuple

from rich.console import Console
from rich.markup import escape

import config
from config import naming
from config.facts import versions
from embedded_account.kubernetes.building import binaries
from embedded_account.machine.processes import Child
from ops.policy.role import PersonRole
from rehearsal import stand_ins
from rehearsal.drills.cluster.subject import wait
from rehearsal.job.machine import require_machine
from rehearsal.job.rehearsal import starts
from rehearsal.job.scripts import PACE, PACED
from rehearsal.paths import BINARIES, REPOSITORY, run_directory
from rehearsal.run import jobs, owner
from rehearsal.run.cdk import CommandError, run
from rehearsal.run.cluster import TimedOutError
from rehearsal.run.project import Document
from rehearsal.run.steps import STAND_INS, Rehearsal, RehearsalError

PAGE: Final = REPOSITORY / "docs" / "reference" / "upgrade-edges.md"
ENVIRONMENT: Final = "small"
NEWEST: Final = tuple(versions.KUBERAY_VERSIONS)[-1]
_JOB: Final = "paced_ddp"
# Each training worker needs a pod of its own. The training ends soon after PACE is removed.
_WORDS: Final = ("--workers", "2", "--cpus", "2", "--samples", "512", "--epochs", "25", "--every", "5")
_PATIENCE_SECONDS: Final = 900.0
_EVERY_SECONDS: Final = 0.2
COLUMNS: Final = ("edge", "run on", "result", "attempts", "lost steps", "longest pause", "`ops upgrade`")


class Edge(NamedTuple):
    """An upgrade: what the file says before and after."""

    kuberay: tuple[str, str]

    @property
    def title(self) -> str:
        """Return the edge in words."""
        return "KubeRay {} → {}".format(*self.kuberay)


class Outcome(NamedTuple):
    """What an edge did to the training: a row of the page."""

    result: str
    attempts: int
    lost_steps: int
    pause: float
    """Seconds of the longest pause between two checkpoints, of which one is due every five."""
    seconds: float


EDGES: Final = (Edge((versions.KUBERAY, NEWEST)), Edge((NEWEST, versions.KUBERAY)))
"""Each begins where the one before ended."""


class Progress:
    """Watches a run's complete checkpoints, which are removed later."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[int, float] = {}
        self._ended = Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch until the block ends."""
        thread = Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    @property
    def last(self) -> int:
        """Return the newest step that is saved; 0 without a checkpoint."""
        return max(self._seen, default=0)

    def reached(self, before: float) -> int:
        """Return the newest step that was saved before a time; 0 without a checkpoint."""
        return max((step for step, at in self._seen.items() if at < before), default=0)

    def pause(self, since: float) -> float:
        """Return the longest time between two checkpoints, from the last one before `since`, in seconds."""
        times = sorted(self._seen.values())
        before = [at for at in times if at < since][-1:]
        later = [*before, *(at for at in times if at >= since)]
        return max((second - first for first, second in pairwise(later)), default=0.0)

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            for manifest in self._folder.glob("checkpoints/*/manifest.json"):
                step = int(manifest.parent.name.partition("@")[0])
                if step not in self._seen:
                    self._seen[step] = time.time()


class UpgradeRehearsal(Rehearsal):
    """A small environment with real Ray, in which versions of KubeRay change."""

    def run_edges(self, edges: Sequence[Edge]) -> dict[Edge, Outcome]:
        """Deploy the environment, run an undisturbed training, then one for each edge; return the outcomes."""
        self.make_project()
        self.run_jobs()
        for version in sorted({version for edge in edges for version in edge.kuberay} - {versions.KUBERAY}):
            other = binaries.add_operator(self.built, version, BINARIES, self.console.print)
            if self._stand_ins:
                stand_ins.add_kuberay(self.directory / STAND_INS, other, version)
        self.begin_synthesis()
        self.start_account(clock_scale=1200.0)
        self.bootstrap()
        self.first_deployment()
        self.nodes_join()
        self.ops_wait()
        self.ray_is_ready()
        owner.attach(self.account.client("iam"), self.environment, PersonRole.ADMIN, to=PersonRole.OPERATOR)
        plane = self.account.admin_kubeconfig(naming.eks_cluster(self.environment)).parent
        self._fsx = jobs.directory(self.environment, plane)
        (self.project.directory / "ray_jobs" / f"{_JOB}.py").write_text(PACED, encoding="utf-8")
        with self.progress.step("an undisturbed training") as step:
            self._submit("undisturbed").wait()
            self._undisturbed = self._done("undisturbed")
            step.see(f"ends with {self._undisturbed}")
        return {edge: self._upgrade(number, edge) for number, edge in enumerate(edges, start=1)}

    def _upgrade(self, number: int, edge: Edge) -> Outcome:
        """Upgrade while a training runs, and let it end."""
        name = f"edge-{number}"
        (self._fsx / PACE).touch()
        progress = Progress(self._fsx / "runs" / name)
        with progress.watching():
            with self.progress.step(f"a training begins ({edge.title})"):
                submitting = self._submit(name)
                self._wait_for(lambda: progress.last > 0, submitting, "the first checkpoint")
            with self.progress.step(f"ops upgrade: {edge.title}") as step:
                self.project.edit(self.environment.name, _with(edge.kuberay[1]))
                began = time.time()
                printed = self._ops("upgrade", "--env", self.environment.name, "--yes", "--checkpoint")
                seconds = time.time() - began
                step.see(re.sub(r"\s+", " ", printed.splitlines()[0]))
            with self.progress.step("the training continues and ends") as step:
                saved = progress.last
                self._wait_for(lambda: progress.last > saved, submitting, "a checkpoint after the upgrade")
                pause = progress.pause(began)
                (self._fsx / PACE).unlink()
                wait("the end of the training", lambda: submitting.returncode is not None, timeout=_PATIENCE_SECONDS)
                begun = starts(self._fsx / "runs" / name)
                done = self._done(name)
                right = "right" if submitting.returncode == 0 and done == self._undisturbed else f"wrong: {done}"
                step.see(f"attempts begin at steps {[start for _, start in begun]}; ends with {done}")
        lost = sum(max(0, progress.reached(at) - start) for at, start in begun[1:])
        return Outcome(right, len(begun), lost, pause, seconds)

    def _submit(self, name: str) -> Child:
        words = ["job", "submit", _JOB, "--env", self.environment.name, "--name", name, "--", *_WORDS]
        argv = [sys.executable, "-m", "ops", *words]
        environment = self.environment_of(PersonRole.OPERATOR)
        return self.supervisor.start(f"ops-{name}", argv, environment, ends_by_itself=True, cwd=self.project.directory)

    def _ops(self, *words: str) -> str:
        argv = [sys.executable, "-m", "ops", *words]
        log = self.supervisor.logs / f"ops-{words[0]}-{time.time():.0f}.log"
        environment = self.environment_of(PersonRole.OPERATOR)
        return run(argv, cwd=self.project.directory, env=environment, log=log, echo=self.progress.echo)

    def _done(self, name: str) -> Mapping[str, object]:
        """Return the metrics with which a run ended; empty if it did not end well."""
        file = self._fsx / "runs" / name / "DONE.json"
        found: Mapping[str, object] = json.loads(file.read_text()) if file.is_file() else {}
        return {key: value for key, value in found.items() if key in ("metrics", "step", "checkpoint")}

    def _wait_for(self, reached: Callable[[], bool], submitting: Child, what: str) -> None:
        def polled() -> bool:
            if submitting.returncode is not None and not reached():
                raise RehearsalError(f"{what}: the run ended before that\n{submitting.tail(30)}")
            return reached()

        wait(what, polled, timeout=_PATIENCE_SECONDS)


def prove(console: Console) -> int:
    """Carry out every edge, and write the page; return the exit code (0: every training ended with its result)."""
    require_machine()
    rehearsal = UpgradeRehearsal(config.load(ENVIRONMENT), console, run_directory("upgrades"))
    try:
        with rehearsal.watch.interrupting():
            outcomes = rehearsal.run_edges(EDGES)
    except (RehearsalError, CommandError, TimedOutError) as failure:
        console.print(f"[bold red]An upgrade failed:[/] {escape(str(failure))}", soft_wrap=True)
        return 1
    finally:
        rehearsal.supervisor.stop_all(grace=20)
    PAGE.write_text(page(outcomes))
    return int(any(outcome.result != "right" for outcome in outcomes.values()))


def page(outcomes: Mapping[Edge, Outcome]) -> str:
    """Return the page of the outcomes."""
    day = datetime.now(UTC).date().isoformat()
    lines = [
        "# Upgrades with a training running",
        "",
        "`make test-upgrades` writes this page. For each edge, `ops upgrade --checkpoint` runs in a deployed rehearsal",
        "while `pytorch_ddp` trains on real Ray, one step a second. The result is right if the run ends with the",
        "metrics of an undisturbed run. Lost steps were saved, and computed again. The longest pause is between two",
        "checkpoints, of which one is due every five steps. The last column is the command's own time.",
        "",
        "Not here yet: another Ray image under a training, which ends it and lets it resume.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
        *(
            f"| {edge.title} | {day} | {each.result} | {each.attempts} | {each.lost_steps} | {each.pause:.0f} s | "
            f"{each.seconds:.0f} s |"
            for edge, each in outcomes.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _with(kuberay: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document.setdefault("kuberay", {})["version"] = kuberay

    return change
