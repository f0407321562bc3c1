"""Rehearse a job that loses a node."""

import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import config
from config.facts import tokens
from config.facts.versions import SETS, SetName
from config.labels import NODE_HEALTH_LABEL, NODE_SCHEDULABLE
from config.model import Autoscaling
from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.machine.processes import Child, ProcessSupervisor
from rehearsal import programs
from rehearsal.drills.cluster.cluster import DETECTION_SECONDS, DrillCluster
from rehearsal.drills.cluster.kubectl import rendered
from rehearsal.drills.cluster.objects import ray_objects
from rehearsal.drills.cluster.report import lines
from rehearsal.drills.cluster.subject import names, wait
from rehearsal.drills.node_replaced import REPLACE
from rehearsal.job.account import JobAccount
from rehearsal.job.machine import require_machine
from rehearsal.job.scripts import OWN, PACE, PACED
from rehearsal.paths import JOB, ray_environment
from rehearsal.run import jobs
from rehearsal.run.cdk import CommandError
from rehearsal.run.cluster import TimedOutError
from rehearsal.run.project import Document, Project
from rehearsal.run.steps import RehearsalError

RUN: Final = "rehearsed"
_ENVIRONMENT: Final = "small"
_SUBMITTER: Final = "arn:aws:iam::{account}:role/Researcher"
_NODES: Final = 3
_JOB: Final = "paced_ddp"
# Each training worker needs its own pod (the trainer itself takes a CPU beside one of them), so that each loss has an
# effect. 240 steps: four minutes for all that happens to the run before a node is lost.
_POD_CPUS: Final = 3
_JOB_WORDS: Final = ("--workers", "2", "--cpus", "2", "--samples", "512", "--epochs", "15", "--every", "5")
_VERDICT: Final = """[bold green]The job survived an upgrade of the controllers, a move and the loss of a node.[/]
real: control plane, KubeRay {kuberay}, reaper, job supervisor, a RayJob; `ops job submit`, `ops smoke` as a submitter
real: Ray {ray}, its autoscaler and PyTorch, with CPython {python}, in sandboxed pods
slowed down: the training, to a step per second until the node is lost
simulated: nodes and their loss (processes killed, heartbeats stopped), images, the file system (a folder)"""


def rehearse_job(console: Console, versions: SetName) -> int:
    """Run the rehearsal with a set of versions; return the exit code (0: the job succeeded although it lost a node)."""
    rehearsal = JobRehearsal(console, versions)
    try:
        with rehearsal.watch.interrupting():
            rehearsal.set_up()
            rehearsal.submit()
            rehearsal.ask_to_save()
            rehearsal.upgrade_the_controllers()
            rehearsal.move_off_a_node()
            rehearsal.lose_a_node()
            rehearsal.see_it_saved()
            rehearsal.see_it_end()
            rehearsal.submit_own_script()
            rehearsal.smoke()
            rehearsal.submit_ray_job()
        rehearsal.show(rehearsal.verdict)
    except (RehearsalError, CommandError, TimedOutError) as failure:
        rehearsal.show("")
        console.print(f"[bold red]The job's rehearsal failed:[/] {escape(str(failure))}", soft_wrap=True)
        return 1
    finally:
        rehearsal.end()
    return 0


class JobRehearsal:
    """One account, one cluster, one run."""

    def __init__(self, console: Console, versions: SetName) -> None:
        """Prepare the rehearsal.

        Raises ProcessError if this machine lacks something, ConfigError for an invalid environment file.
        """
        self.console = console
        require_machine(ray_environment(versions))
        directory = JOB
        shutil.rmtree(directory, ignore_errors=True)
        self._project = Project(directory / "project")
        self._project.edit(_ENVIRONMENT, _on_processors)
        self._project.edit(_ENVIRONMENT, lambda document: _with_versions(document, versions))
        self._environment = config.load(_ENVIRONMENT, self._project.directory / "environments")
        built = programs.built(self._environment, console.print)
        self._account = JobAccount(self._environment, directory / "account", built.directory)
        plane = ControlPlane(
            directory / "cluster",
            built,
            name=self._account.cluster,
            authenticator_url=self._account.authenticator_url,
            node_monitor_grace_period=DETECTION_SECONDS,
            real_rays=[jobs.real_ray(self._environment)],
            kubernetes=self._environment.kubernetes_version,
        )
        self._supervisor = ProcessSupervisor(directory)
        self._cluster = DrillCluster(self._environment, plane.directory, console, plane)
        self.watch = self._cluster.watch
        self._progress = self._cluster.progress
        self._runs = jobs.directory(self._environment, plane.directory) / "runs"
        self._pace = self._runs.parent / PACE
        self._marks: list[tuple[float, str]] = []

    # -- the steps

    def set_up(self) -> None:
        """Start everything except the job."""
        with self._progress.step("embedded account"):
            self._account.start()
        self._cluster.start(workers=_NODES)
        # On a real file system a Job with root rights creates this folder; a rehearsal has no root rights.
        self._runs.parent.mkdir(parents=True)
        with self._progress.step("EKS cluster and the submitter's access entry"):
            self._account.adopt(self._cluster.plane)
        with self._progress.step("RayCluster of real Ray processes") as step:
            self._ray = self._cluster.own_subject()
            began = time.time()
            self._cluster.kubectl.apply([self._cluster.manifest])
            wait("the complete RayCluster", self._ray.is_whole)
            step.see(f"{self._ray.state()}; head and workers ready after {time.time() - began:.0f} s")

    @property
    def verdict(self) -> str:
        """Return what a rehearsal without a failure has shown, and with which versions."""
        chosen = self._environment.version_set
        return _VERDICT.format(ray=chosen.ray, python=chosen.python, kuberay=self._environment.kuberay_version)

    def submit(self) -> None:
        """Submit the run with `ops job submit`, and wait for its first checkpoint."""
        (self._project.directory / "ray_jobs" / f"{_JOB}.py").write_text(PACED, encoding="utf-8")
        self._pace.touch()
        words = ["job", "submit", _JOB, "--env", _ENVIRONMENT, "--name", RUN, "--", *_JOB_WORDS]
        with self._progress.step(f"ops {' '.join(words)}") as step:
            self._began = time.time()
            self._mark("`ops job submit`")
            self._submitting = self._ops(RUN, words)
            self._wait_for("the first checkpoint", lambda: bool(self._checkpoints()))
            self._mark(f"checkpoint of step {max(self._checkpoints())}")
            step.see(f"{len(self._attempts())} attempt, checkpoints of steps {_listed(self._checkpoints())}")

    def ask_to_save(self) -> None:
        """Ask the run to save with `ops job checkpoint`, without waiting for the answer."""
        self._asking = self._ops("checkpoint", ["job", "checkpoint", RUN, "--env", _ENVIRONMENT])
        self._mark("`ops job checkpoint`")

    def see_it_saved(self) -> None:
        """Wait for the answer. Raises RehearsalError unless the run has saved."""
        with self._progress.step(f"ops job checkpoint {RUN} --env {_ENVIRONMENT}") as step:
            wait("the end of ops job checkpoint", lambda: self._asking.returncode is not None)
            printed = self._asking.tail(5).strip()
            self._mark(f"`ops job checkpoint` ends with {self._asking.returncode}")
            if self._asking.returncode or not re.search(rf"^run {RUN} saved step [0-9]+ ", printed, re.MULTILINE):
                raise RehearsalError(f"the run must save when it is asked:\n{printed}")
            step.see(printed.splitlines()[-1])

    def upgrade_the_controllers(self) -> None:
        """Deploy a newer version of the controllers while the run trains.

        Raises RehearsalError if the upgrade ends a pod of the run or an attempt of its training.
        """
        with self._progress.step("the controllers are upgraded while the run trains") as step:
            before, saved = self._pods_of_run(), max(self._checkpoints())
            self._mark("the controllers are upgraded")
            self._cluster.upgrade_controllers()
            self._wait_for("a checkpoint after the upgrade", lambda: max(self._checkpoints()) > saved)
            if lost := before - self._pods_of_run():
                raise RehearsalError(f"the upgrade must end no pod of the run; gone: {', '.join(sorted(lost))}")
            if self._attempts() != [0]:
                raise RehearsalError(f"the upgrade must end no attempt; they began at {_listed(self._attempts())}")
            step.see(f"the run kept its {len(before)} pods, and went from step {saved} to {max(self._checkpoints())}")

    def move_off_a_node(self) -> None:
        """Label a worker's node, which is still alive, for replacement.

        Raises RehearsalError unless the run saved before its pod was moved, and resumed at that very step.
        """
        before = len(self._attempts())
        moved = self._ray.a("worker")
        node = moved["spec"]["nodeName"]
        with self._progress.step(f"node {node} is labelled {REPLACE} while the run trains") as step:
            self._mark(f"node {node} is labelled {REPLACE}")
            self._cluster.nodes.set_label(node, NODE_HEALTH_LABEL, REPLACE)
            self._wait_for("the complete RayCluster, after the move", lambda: self._ray.is_whole(names([moved])))
            self._wait_for("the training after the move", lambda: len(self._attempts()) > before)
            resumed = self._attempts()[before]
            held = re.findall(r"waits 120 s at step ([0-9]+), as asked", self._submitting.tail(1000))
            if held != [str(resumed)]:
                raise RehearsalError(
                    f"the run must save, wait, and resume at that step; it waited at {held}, and resumed "
                    f"from step {resumed}:\n{self._submitting.tail(30)}"
                )
            # The replacement has the same name here.
            self._cluster.nodes.set_label(node, NODE_HEALTH_LABEL, NODE_SCHEDULABLE)
            step.see(f"the run saved step {resumed}, waited, and resumed from it: no step was lost")

    def lose_a_node(self) -> None:
        """Lose the node of a worker: kill its processes and stop its heartbeats."""
        before = names(self._ray.pods())
        lost = self._ray.a("worker")
        node = lost["spec"]["nodeName"]
        with self._progress.step(f"node {node} and its pod {lost['metadata']['name']} are lost") as step:
            self._saved = max(self._checkpoints())
            self._begun = len(self._attempts())
            self._mark(f"node {node} is lost")
            self._cluster.nodes.stop_heartbeat(node)
            self._wait_for("the complete RayCluster, after the loss", lambda: self._ray.is_whole(names([lost])))
            self._pace.unlink()
            [new] = [pod for pod in self._ray.good("worker") if pod["metadata"]["name"] not in before]
            step.see(f"{new['metadata']['name']} replaced it, on {new['spec']['nodeName']}")

    def see_it_end(self) -> None:
        """Wait for the end of `ops job submit`. Raises RehearsalError unless every promise was kept."""
        with self._progress.step("the run resumes and succeeds") as step:
            wait("the end of the run", lambda: self._submitting.returncode is not None)
            self._mark(f"`ops job submit` ends with {self._submitting.returncode}")
            if self._submitting.returncode:
                raise RehearsalError(f"the run must succeed:\n{self._submitting.tail(30)}")
            if not (self._run / "DONE.json").is_file():
                raise RehearsalError("the run must be marked as done (DONE.json)")
            later = self._attempts()[self._begun :]
            if not later or min(later) < self._saved:
                raise RehearsalError(
                    f"after the loss, workers must begin at {self._saved} or later; they began at {_listed(later)}"
                )
            step.see(f"resumed from step {_listed(later)}; done, exit code 0")

    def submit_own_script(self) -> None:
        """Submit a user's own script in three ways: under the supervisor, and in the walkthrough's two ways.

        Raises RehearsalError unless each of them runs it.
        """
        folder = self._project.directory / "mine"
        folder.mkdir()
        (folder / "squares.py").write_text(OWN, encoding="utf-8")
        for way in ([], ["--direct"], ["--in-head"]):
            self._submit_script("mine/squares.py", way)

    def smoke(self) -> None:
        """Run `ops smoke`. Raises RehearsalError unless every worker took part in the all-reduce."""
        words = ["smoke", "--env", _ENVIRONMENT, "-o", "json"]
        with self._progress.step(f"ops {' '.join(words)}") as step:
            smoking = self._ended("smoke", words)
            self._mark(f"`ops smoke` ends with {smoking.returncode}")
            workers = {pod["metadata"]["name"] for pod in self._ray.good("worker")}
            if smoking.returncode or not all(f'"pod": "{name}"' in smoking.tail(100) for name in workers):
                raise RehearsalError(f"all workers must take part in the all-reduce:\n{smoking.tail(100)}")
            step.see(f"{len(workers)} workers took part in an all-reduce")

    def submit_ray_job(self) -> None:
        """Submit the script as a RayJob: a copy of the RayCluster, whose autoscaler starts the workers.

        Raises RehearsalError unless they run it.
        """
        with self._progress.step("the RayCluster gets an autoscaler, and is suspended: a RayJob copies it"):
            manifest = self._with_autoscaler()
            manifest["spec"]["suspend"] = True
            self._cluster.kubectl.apply([manifest])
            wait("the end of all its pods", lambda: not self._ray.pods())
        self._submit_script("mine/squares.py", ["--as", "rayjob"])

    def _with_autoscaler(self) -> Object:
        ray = self._environment.ray
        [workers] = ray.clusters[0].workers
        workers = workers.model_copy(update={"replicas": 0, "min_replicas": 0, "max_replicas": _NODES})
        cluster = ray.clusters[0].model_copy(update={"autoscaling": Autoscaling(), "workers": (workers,)})
        changed = self._environment.model_copy(update={"ray": ray.model_copy(update={"clusters": (cluster,)})})
        [manifest] = rendered(*ray_objects(changed).clusters.values())
        return manifest

    def _submit_script(self, script: str, way: list[str]) -> None:
        name = "-".join(["squares", *(word.strip("-") for word in way)])
        words = ["job", "submit", *way, script, "--env", _ENVIRONMENT, "--name", name]
        with self._progress.step(f"ops {' '.join(words)}") as step:
            submitting = self._ended(name, words)
            self._mark(f"`ops job submit {' '.join([*way, script])}` ends with {submitting.returncode}")
            shown = submitting
            if way == ["--in-head"] and not submitting.returncode:
                # `ray job submit` of Ray 2.42.1 may end without what the job printed last: controllers/job_output.py.
                shown = self._ended(f"{name}-logs", ["job", "logs", "--direct", name, "--env", _ENVIRONMENT])
            if submitting.returncode or f"{name} got 14" not in shown.tail(30):
                raise RehearsalError(f"{name} must succeed and show its result:\n{shown.tail(30)}")
            step.see(f"{name} got 14, exit code 0")

    def _ended(self, name: str, words: list[str]) -> Child:
        started = self._ops(name, words)
        wait(f"the end of {name}", lambda: started.returncode is not None)
        return started

    def end(self) -> None:
        """End all processes."""
        self._supervisor.stop_all()
        self._cluster.stop()
        self._account.stop()

    # -- what it is made of

    def _ops(self, name: str, words: list[str]) -> Child:
        argv = [sys.executable, "-m", "ops", *words]
        env = self._account.submitters_environment()
        return self._supervisor.start(f"ops-{name}", argv, env, cwd=self._project.directory)

    def _wait_for(self, what: str, reached: Callable[[], bool]) -> None:
        """Wait until `reached`, but at most until the run ends. Raises RehearsalError or TimedOutError."""

        def polled() -> bool:
            if self._submitting.returncode is not None and not reached():
                raise RehearsalError(f"{what}: the run ended before that\n{self._submitting.tail(30)}")
            return reached()

        wait(what, polled)

    def _mark(self, what: str) -> None:
        self._marks.append((time.time(), what))

    def _pods_of_run(self) -> set[str]:
        """Return the pods of the RayCluster and of the run's supervisor that are alive, by name and restarts."""
        pods = self._cluster.world.pods(self._cluster.manifest["metadata"]["namespace"])
        alive = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        return {f"{pod['metadata']['name']} ({pod['metadata']['uid']}, {_restarts(pod)} restarts)" for pod in alive}

    @property
    def _run(self) -> Path:
        return self._runs / RUN

    def _checkpoints(self) -> list[int]:
        """Return the steps of the complete checkpoints, sorted."""
        whole = self._run.glob("checkpoints/*/manifest.json")
        return sorted({_step(manifest.parent.name) for manifest in whole})

    def _attempts(self) -> list[int]:
        """Return the step from which each start of the training resumed, in order."""
        return [step for _, step in starts(self._run)]

    def show(self, verdict: str) -> None:
        """Print the timeline of the rehearsal so far, and a verdict."""
        if not self._marks:
            return
        happened = lines(list(self._cluster.world.since(self._began)), [self._ray], self._cluster.auditor.deleters())
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Timeline", title_justify="left")
        drawn.add_column("s", justify="right", no_wrap=True)
        drawn.add_column("what happened", overflow="fold")
        entries = [(line.at, line.text, "") for line in happened] + [(at, what, "bold") for at, what in self._marks]
        entries += [(at, f"training begins at step {step}", "bold") for at, step in starts(self._run)]
        for at, what, style in sorted(entries):
            drawn.add_row(f"{at - self._began:.1f}", escape(what), style=style)
        self.console.print(drawn)
        self.console.print(verdict, highlight=False)


def _on_processors(document: Document) -> None:
    """Change the environment: workers without GPUs, a spare node for them, and a submitter."""
    document["hyperpod"]["instance_groups"][-1].update(instance_type="ml.m5.2xlarge", count=_NODES)
    document["ray"]["clusters"][0]["workers"][0].update(cpu=_POD_CPUS)
    document["access"]["submitters"] = [_SUBMITTER.format(account=document["account"])]


def _with_versions(document: Document, versions: SetName) -> None:
    """Choose a set of versions, and guard the heads with a token where its KubeRay makes one."""
    document["versions"] = versions
    if tokens.made_by(SETS[versions].kuberay):
        document["ray"]["clusters"][0]["env"] = {tokens.AUTH_MODE: "token"}


def starts(run: Path) -> list[tuple[float, int]]:
    """Return when each group of training workers began (seconds since the epoch), and at which step, in order."""
    records = [json.loads(file.read_text()) for file in sorted(run.glob("attempts/*.json"))]
    return [(datetime.fromisoformat(each["began"]).timestamp(), _step(each["resumed_from"] or "0")) for each in records]


def _restarts(pod: Object) -> int:
    return sum(int(status["restartCount"]) for status in pod["status"].get("containerStatuses") or [])


def _step(checkpoint: str) -> int:
    """Return the step of a checkpoint: 120 for `120@0001.01`."""
    return int(checkpoint.partition("@")[0])


def _listed(steps: list[int]) -> str:
    return ", ".join(map(str, steps))
