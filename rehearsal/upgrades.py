"""Carry out upgrades while a training runs on real Ray, and write the page of what each costs the training.

Real are the control plane, KubeRay's operators, `ops upgrade` with `cdk deploy`, the job supervisor, Ray and PyTorch.
Simulated are nodes, images and their build, GPUs, and the file system: /fsx is a folder.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

import kubernetes
from rich.console import Console
from rich.markup import escape

import config
from config import naming
from config.facts import versions
from config.facts.versions import SETS, SetName
from embedded_account.kubernetes.building import binaries
from embedded_account.machine.processes import Child
from ops.policy.role import PersonRole
from rehearsal.drills.cluster.subject import wait
from rehearsal.job.machine import require_machine
from rehearsal.job.rehearsal import starts
from rehearsal.job.scripts import PACE, PACED, STEPS, TrainingStep, steps_of
from rehearsal.paths import REPOSITORY, ray_environment, run_directory
from rehearsal.run import jobs, owner
from rehearsal.run.cdk import CommandError, run
from rehearsal.run.cluster import TimedOutError
from rehearsal.run.project import Document
from rehearsal.run.steps import Rehearsal, RehearsalError

PAGE: Final = REPOSITORY / "docs" / "reference" / "upgrade-edges.md"
ENVIRONMENT: Final = "small"
_JOB: Final = "paced_ddp"
# Each training worker needs a pod of its own. The training ends soon after PACE is removed.
_WORDS: Final = ("--workers", "2", "--cpus", "2", "--samples", "512", "--epochs", "25", "--every", "5")
_PATIENCE_SECONDS: Final = 900.0
LOSS_ROUNDING: Final = 1e-4
"""How much the loss may differ, as a part of it, where PyTorch differs: its sums are rounded otherwise."""
EQUAL: Final = "equal"
NEAR: Final = "loss differs by"
NOT_RUN: Final = "| not run"
COLUMNS: Final = ("edge", "run on", "result", "attempts", "lost steps", "downtime", "`ops upgrade`")


class Chosen(NamedTuple):
    """The versions that an environment's file chooses; without `kuberay`, the set's."""

    kubernetes: str
    versions: SetName
    kuberay: str | None = None

    @property
    def operator(self) -> str:
        """Return KubeRay's version."""
        return self.kuberay or SETS[self.versions].kuberay


class Edge(NamedTuple):
    """An upgrade: what the file chooses before and after."""

    before: Chosen
    after: Chosen

    @property
    def title(self) -> str:
        """Return the edge in words: the set's names, then the versions that change."""
        before, after = self
        sets = (before.versions, after.versions)
        changes = [
            f"{name} {old} → {new}"
            for name, old, new in (
                ("Kubernetes", before.kubernetes, after.kubernetes),
                ("KubeRay", before.operator, after.operator),
                *((title, getattr(SETS[sets[0]], key), getattr(SETS[sets[1]], key)) for title, key in _OF_A_SET),
            )
            if old != new
        ]
        return f"{'`{}` → `{}`: '.format(*sets) if sets[0] != sets[1] else ''}{', '.join(changes)}"


_OF_A_SET: Final = (("Ray", "ray"), ("CPython", "python"))
_MINORS: Final = binaries.KUBERNETES_MINORS
EDGES: Final = tuple(
    Edge(*pair)
    for pair in pairwise(
        (
            *(Chosen(minor, versions.SET_DEFAULT) for minor in _MINORS),
            *(Chosen(_MINORS[-1], name) for name in ("fixed", "current", "fixed", versions.SET_DEFAULT)),
            Chosen(_MINORS[-1], versions.SET_DEFAULT, SETS["current"].kuberay),
            Chosen(_MINORS[-1], versions.SET_DEFAULT),
        )
    )
)
"""Each begins where the one before ended."""


class RefusedUpgrade(NamedTuple):
    """An upgrade that must be refused while the training runs, before anything changes."""

    what: str
    chosen: Chosen
    because: str
    """What the message says."""
    words: tuple[str, ...] = ("--checkpoint",)
    cron_job: bool = False
    """Whether there is a RayCronJob meanwhile."""


def _edge(**after: str) -> Edge:
    """Return the first edge to what the file then chooses."""
    return next(edge for edge in EDGES if all(getattr(edge.after, key) == value for key, value in after.items()))


REFUSALS: Final = {
    EDGES[0]: RefusedUpgrade(
        "Kubernetes two minors ahead",
        EDGES[0].before._replace(kubernetes=_MINORS[-1]),
        "EKS upgrades by one minor version at a time",
    ),
    EDGES[1]: RefusedUpgrade("an older Kubernetes", EDGES[0].before, "this command does not go back"),
    _edge(versions="fixed"): RefusedUpgrade(
        "another Ray below a running training, without `--checkpoint`",
        _edge(versions="fixed").after,
        "let it save first with `--checkpoint`",
        words=(),
    ),
    Edge(_edge(versions="current").after, _edge(versions="fixed").after): RefusedUpgrade(
        "a KubeRay without RayCronJobs, of which there is one",
        _edge(versions="fixed").after,
        "lacks the kind of RayCronJob ray/nightly",
        cron_job=True,
    ),
}


class Outcome(NamedTuple):
    """What an edge did to the training: a row of the page."""

    result: str
    attempts: int
    lost_steps: int
    downtime: float
    """Seconds of the longest time without a step, of which one is due every second."""
    seconds: float


class UpgradeRehearsal(Rehearsal):
    """A small environment with real Ray, whose versions change."""

    def run_edges(self, edges: Sequence[Edge]) -> Iterator[tuple[Edge, Outcome]]:
        """Deploy the environment, run an undisturbed training, then one for each edge; yield the outcomes."""
        self.make_project()
        # A training would end while `ops upgrade` waits for a compiler, which no cluster of AWS does.
        for minor in {edge.after.kubernetes: None for edge in edges}:
            binaries.kubernetes_programs(self.built, minor, self.console.print)
        self.project.edit(self.environment.name, _chooses(edges[0].before))
        self.project.edit(self.environment.name, _admit_people)
        self.run_jobs()
        self.begin_synthesis()
        self.start_account(clock_scale=1200.0)
        self.bootstrap()
        self.first_deployment()
        self.nodes_join()
        self.ops_wait()
        self.ray_is_ready()
        plane = self.account.admin_kubeconfig(naming.eks_cluster(self.environment)).parent
        self._fsx = jobs.directory(self.environment, plane)
        (self.project.directory / "ray_jobs" / f"{_JOB}.py").write_text(PACED, encoding="utf-8")
        with self.progress.step("an undisturbed training") as step:
            self._submit("undisturbed").wait()
            self._undisturbed = self._done("undisturbed")
            step.see(f"ends with {self._undisturbed}")
        for number, edge in enumerate(edges, start=1):
            yield edge, self._upgrade(number, edge)

    def _upgrade(self, number: int, edge: Edge) -> Outcome:
        """Upgrade while a training runs, and let it end."""
        name = f"edge-{number}"
        (self._fsx / PACE).touch()
        with self.progress.step(f"a training begins ({edge.title})"):
            submitting = self._submit(name)
            self._wait_for(lambda: self._has_saved(name), submitting, "the first checkpoint")
        if refusal := REFUSALS.get(edge):
            self._is_refused(edge.before, refusal)
        with self.progress.step(f"ops upgrade: {edge.title}") as step:
            words = self._choose(edge)
            began = time.time()
            printed = self._ops("upgrade", "--env", self.environment.name, *words, "--yes", "--checkpoint")
            ended = time.time()
            step.see(re.sub(r"\s+", " ", printed.splitlines()[0]))
        with self.progress.step("the training continues and ends") as step:
            self._wait_for(lambda: self._steps(name)[-1].at > ended, submitting, "a step after the upgrade")
            downtime = longest_gap(self._steps(name), since=began)
            (self._fsx / PACE).unlink()
            wait("the end of the training", lambda: submitting.returncode is not None, timeout=_PATIENCE_SECONDS)
            taken, begun = self._steps(name), starts(self._fsx / "runs" / name)
            step.see(f"attempts begin at steps {[start for _, start in begun]}; ends with {self._done(name)}")
        lost = sum(max(0, reached(taken, before=at) - start) for at, start in begun[1:])
        result = self._result(name, edge) if submitting.returncode == 0 else f"failed: {submitting.returncode}"
        return Outcome(result, len(begun), lost, downtime, ended - began)

    def _is_refused(self, before: Chosen, refusal: RefusedUpgrade) -> None:
        """Type an upgrade that must be refused. Raises RehearsalError if it changes anything."""
        with self.progress.step(f"refused: {refusal.what}") as step:
            words = self._choose(Edge(before, refusal.chosen))
            file = self.project.directory / "environments" / f"{self.environment.name}.yaml"
            text, changes = file.read_text(), self.calls("CreateChangeSet")
            with self._cron_job() if refusal.cron_job else nullcontext():
                argv = ("upgrade", "--env", self.environment.name, *words, "--yes", *refusal.words)
                printed = re.sub(r"\s+", " ", self._ops(*argv, expect=1))
            if refusal.because not in printed:
                raise RehearsalError(f"it must be refused because {refusal.because}:\n{printed}")
            if file.read_text() != text or self.calls("CreateChangeSet") != changes:
                raise RehearsalError(f"what is refused must change nothing:\n{printed}")
            self.project.edit(self.environment.name, _chooses(before))
            step.see(printed.partition("error: ")[2])

    @contextmanager
    def _cron_job(self) -> Iterator[None]:
        """Let there be a RayCronJob, which never starts."""
        kubeconfig = self.account.admin_kubeconfig(naming.eks_cluster(self.environment))
        api = kubernetes.client.CustomObjectsApi(kubernetes.config.new_client_from_config(str(kubeconfig)))
        place = ("ray.io", "v1", self.environment.ray.namespace, "raycronjobs")
        spec = {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"entrypoint": "true"}}
        named = {"apiVersion": "ray.io/v1", "kind": "RayCronJob", "metadata": {"name": "nightly"}}
        api.create_namespaced_custom_object(*place, {**named, "spec": spec})
        yield
        api.delete_namespaced_custom_object(*place, "nightly")

    def _choose(self, edge: Edge) -> tuple[str, ...]:
        """Return the words that choose what is after the edge; what is no set is written into the file."""
        if edge.before.versions != edge.after.versions:
            return ("--to", edge.after.versions)
        self.project.edit(self.environment.name, _chooses(edge.after))
        return ()

    def _result(self, name: str, edge: Edge) -> str:
        """Compare a run that ended with the undisturbed one."""
        taken, done, right = self._steps(name), self._done(name), self._undisturbed
        rays, wanted = [taken[0].ray, taken[-1].ray], [SETS[each.versions].ray for each in edge]
        if rays != wanted:
            return f"wrong: began and ended on Ray {rays}, not {wanted}"
        if done == right:
            return EQUAL
        if {each.torch for each in taken} == {self._steps("undisturbed")[0].torch}:
            return f"wrong: {done}, not {right}"
        loss, other = done.pop("loss"), right["loss"]
        differs = abs(loss - other) / abs(other)
        same = done == {key: value for key, value in right.items() if key != "loss"}
        return f"{NEAR} {differs:.0e}" if same and differs < LOSS_ROUNDING else f"wrong: {done}, {loss} not {right}"

    def _submit(self, name: str) -> Child:
        words = ["job", "submit", _JOB, "--env", self.environment.name, "--name", name, "--", *_WORDS]
        argv = [sys.executable, "-m", "ops", *words]
        environment = self.environment_of(PersonRole.SCIENTIST)
        return self.supervisor.start(f"ops-{name}", argv, environment, ends_by_itself=True, cwd=self.project.directory)

    def _ops(self, *words: str, expect: int = 0) -> str:
        """Run `ops` as the deployer; return its output."""
        argv = [sys.executable, "-m", "ops", *words]
        log = self.supervisor.logs / f"ops-{words[0]}-{time.time():.0f}.log"
        environment = self.environment_of(PersonRole.DEPLOYER)
        echo = self.progress.echo
        return run(argv, cwd=self.project.directory, env=environment, log=log, echo=echo, expect=(expect,))

    def _steps(self, name: str) -> list[TrainingStep]:
        return steps_of(self._fsx / f"{name}{STEPS}")

    def _has_saved(self, name: str) -> bool:
        return any((self._fsx / "runs" / name).glob("checkpoints/*/manifest.json"))

    def _done(self, name: str) -> dict[str, float]:
        """Return the step and the metrics with which a run ended; empty if it did not end well."""
        file = self._fsx / "runs" / name / "DONE.json"
        if not file.is_file():
            return {}
        found = json.loads(file.read_text())
        return {"step": int(found["checkpoint"].partition("@")[0]), **found["metrics"]}

    def _wait_for(self, reached: Callable[[], bool], submitting: Child, what: str) -> None:
        def polled() -> bool:
            if submitting.returncode is not None and not reached():
                raise RehearsalError(f"{what}: the run ended before that\n{submitting.tail(30)}")
            return reached()

        wait(what, polled, timeout=_PATIENCE_SECONDS)


def longest_gap(taken: Sequence[TrainingStep], *, since: float) -> float:
    """Return the longest time without a step, from the last one before `since`, in seconds."""
    before = [each.at for each in taken if each.at < since][-1:]
    times = [*before, *(each.at for each in taken if each.at >= since)]
    return max((second - first for first, second in pairwise(times)), default=0.0)


def reached(taken: Iterable[TrainingStep], *, before: float) -> int:
    """Return the highest step that was taken before a time; 0 without one."""
    return max((each.step for each in taken if each.at < before), default=0)


def prove(console: Console) -> int:
    """Carry out every edge, and write the page; return the exit code (0: every training ended with its result).

    What follows a failure keeps its row of an earlier day.
    """
    for name in SETS:
        require_machine(ray_environment(name))
    rows, right = read(PAGE.read_text()), True
    rehearsal = UpgradeRehearsal(config.load(ENVIRONMENT), console, run_directory("upgrades"))
    try:
        with rehearsal.watch.interrupting():
            for edge, outcome in rehearsal.run_edges(EDGES):
                rows[edge.title] = row(edge, outcome)
                PAGE.write_text(page(rows))
                right = right and is_right(outcome)
    except (RehearsalError, CommandError, TimedOutError) as failure:
        console.print(f"[bold red]An upgrade failed:[/] {escape(str(failure))}", soft_wrap=True)
        return 1
    finally:
        rehearsal.supervisor.stop_all(grace=20)
    return int(not right)


def is_right(outcome: Outcome) -> bool:
    """Return whether the training ended with its result."""
    return outcome.result == EQUAL or outcome.result.startswith(NEAR)


def row(edge: Edge, outcome: Outcome) -> str:
    """Return the row of an edge that was carried out today."""
    day, each = datetime.now(UTC).date().isoformat(), outcome
    figures = f"{each.attempts} | {each.lost_steps} | {each.downtime:.0f} s | {each.seconds:.0f} s"
    return f"| {edge.title} | {day} | {each.result} | {figures} |"


def read(text: str) -> dict[str, str]:
    """Return the rows of the page's edges that were carried out, by their title."""
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if NOT_RUN not in line}
    return {edge.title: rows[edge.title] for edge in EDGES if edge.title in rows}


def page(rows: Mapping[str, str]) -> str:
    """Return the page of the edges' rows."""
    lines = [
        "# Upgrades with a training running",
        "",
        "`make test-upgrades` writes this page. For each edge, `ops upgrade --checkpoint` runs in a deployed",
        "rehearsal while `pytorch_ddp` trains on real Ray, one step a second. Its pods run Ray, CPython and PyTorch",
        "of their image's set. `ops upgrade` has the deployer's policy, the training the scientist's.",
        "",
        "- **result**: the last step and its metrics, compared with an undisturbed run before the first edge. With",
        "  another PyTorch, which rounds sums otherwise, the loss may differ by a ten-thousandth.",
        "- **lost steps**: computed again after the upgrade.",
        "- **downtime**: the longest time without a step, of which one is due every second. On AWS, add the time in",
        "  which nodes pull the new image.",
        "- **`ops upgrade`**: the command's own time.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
        *(rows.get(edge.title, f"| {edge.title} {NOT_RUN} | | | | | |") for edge in EDGES),
    ]
    if refused := [f"- {refusal.what}" for edge, refusal in REFUSALS.items() if edge.title in rows]:
        lines += ["", "While these trainings ran, `ops upgrade` refused, and changed nothing:", "", *refused]
    return "\n".join(lines) + "\n"


def _chooses(chosen: Chosen) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document["eks"]["version"] = chosen.kubernetes
        document["versions"] = chosen.versions
        document.pop("kuberay", None)
        if chosen.kuberay:
            document["kuberay"] = {"version": chosen.kuberay}

    return change


def _admit_people(document: Document) -> None:
    """Let a deployer and a scientist use the Kubernetes API, as the page of people says."""
    access, role = document["access"], f"arn:aws:iam::{document['account']}:role"
    access["admins"].append(f"{role}/{owner.DEPLOYER}")
    access["submitters"] = [f"{role}/Researcher"]
