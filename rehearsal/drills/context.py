"""The context of drills in the embedded account: an environment with the real CDK CLI and `ops`."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape

import config
from config import EksEnvironment, naming
from embedded_account.kubernetes.api import KubernetesClient
from embedded_account.kubernetes.audit import POD_DELETIONS
from ops import stacks
from ops.policy.role import PersonRole
from rehearsal.drills.cluster.auditor import SETTLED_SECONDS, Auditor
from rehearsal.drills.cluster.world import ClusterHistory
from rehearsal.drills.timeline import DrillTimeline
from rehearsal.paths import DRILLS_IN_AN_ACCOUNT
from rehearsal.report.progress import Step
from rehearsal.run import owner
from rehearsal.run.cdk import run
from rehearsal.run.project import Document
from rehearsal.run.steps import Rehearsal, RehearsalError


class DrillContext:
    """One account for all drills of a call. The timeline of a drill shows everything that is done here."""

    REAL = "CDK CLI, CloudFormation's protocol, handlers, Kubernetes, ops"
    SIMULATED = "HyperPod and its timing (a minute takes 0.2 s), kubelets, the image build"

    def __init__(self, environment: EksEnvironment, console: Console) -> None:
        self.environment = environment
        self.console = console
        self.timeline = DrillTimeline()
        # Not the environment's own folder: a kept rehearsal of the environment stays.
        self.rehearsal = Rehearsal(environment, console, directory=DRILLS_IN_AN_ACCOUNT)
        self.watch = self.rehearsal.watch
        self._runs = 0

    def set_up(self) -> None:
        """Start and bootstrap the account."""
        self.rehearsal.prepare()
        self.rehearsal.bootstrap()

    def take_down(self) -> None:
        """End all processes."""
        self.rehearsal.supervisor.stop_all(grace=20)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show one step, as a rehearsal does; add it to the timeline when it ends without an error."""
        with self.rehearsal.progress.step(title) as step:
            yield step
        self.timeline.mark(title)

    # -- acting

    def deploy(self, *parts: str) -> None:
        """Deploy these stacks, or all, with the CDK CLI. Deployed stacks take little time."""
        title = f"cdk deploy {' '.join(self.stack(part) for part in parts) or '--all'}"
        with self.step(title):
            self.rehearsal.deploy_stacks(*parts)

    def without(self, part: str) -> None:
        """Destroy a stack that an earlier drill left, and those that need it. The CLI removes rolled-back ones."""
        found = stacks.find(self.rehearsal.account.client("cloudformation"), self.environment, part)
        if found and found.status != "ROLLBACK_COMPLETE":
            with self.step(f"cdk destroy {found.name}, left by an earlier drill"):
                self.rehearsal.cdk("destroy", found.name, "--force")

    def grow_workers(self, by: int) -> None:
        """Change the environment file's last instance group and its Ray workers, without a deployment."""
        self.rehearsal.project.grow_workers(self.environment.name, by=by)
        self.environment = config.load(self.environment.name, self.rehearsal.project.directory / "environments")
        self.rehearsal.environment = self.environment

    def edit(self, what: str, change: Callable[[Document], None]) -> None:
        """Change the environment's file without a deployment; `what` describes the change to people."""
        self.rehearsal.project.edit(self.environment.name, change)
        self.environment = config.load(self.environment.name, self.rehearsal.project.directory / "environments")
        self.rehearsal.environment = self.environment
        self.console.print(f"[yellow]![/] environments/{self.environment.name}.yaml: {what}")
        self.timeline.mark(what)

    def failing_deploy(self, part: str) -> str:
        """Deploy one stack, which must fail; show and return the CDK CLI's output."""
        with self.step(f"cdk deploy {self.stack(part)}, which must fail"):
            options = ("--exclusively", "--require-approval", "never", "--progress", "events")
            printed = self.rehearsal.cdk("deploy", self.stack(part), *options, expect=(1,))
        events, cross, last_words = printed.partition("❌")
        telling = [line for line in events.splitlines() if "_FAILED" in line or "ROLLBACK" in line]
        self.quote("what the CDK CLI printed about the failure", [*telling, *(cross + last_words).splitlines()])
        return printed

    def ops(self, *arguments: str, expect: Sequence[int] = (0,)) -> str:
        """Run `ops …` as its operator; show and return its output."""
        self._runs += 1
        argv = [sys.executable, "-m", "ops", *arguments, "--env", self.environment.name]
        log = self.rehearsal.supervisor.logs / f"ops-{self._runs:02}-{arguments[0]}.log"
        env = self.rehearsal.environment_of(PersonRole.OPERATOR)
        title = f"ops {' '.join(arguments)}"
        with self.step(title):
            printed = run(
                argv,
                cwd=self.rehearsal.project.directory,
                env=env | {"COLUMNS": "200"},
                log=log,
                echo=self.rehearsal.progress.echo,
                expect=expect,
            )
        self.quote("what it printed", printed.splitlines())
        return printed

    def helm(self, *arguments: str) -> None:
        """Run Helm, as a person with an administrator's rights would."""
        kubeconfig = self.rehearsal.account.admin_kubeconfig(naming.eks_cluster(self.environment))
        with self.step(f"helm {' '.join(arguments)}"):
            run(
                [str(self.rehearsal.built["helm"]), *arguments, "--kubeconfig", str(kubeconfig)],
                cwd=self.rehearsal.directory,
                env=self.rehearsal.child_environment(),
                log=self.rehearsal.supervisor.logs / "helm.log",
                echo=self.rehearsal.progress.echo,
            )

    def faults(self, what: str, **faults: Any) -> None:
        """Inject faults into HyperPod (hyperpod/fault_requests.py of the account); `what` describes them to people."""
        self.rehearsal.account.set_hyperpod_faults(faults)
        self.console.print(f"[yellow]![/] {what}")
        self.timeline.mark(what)

    @contextmanager
    def audited(self) -> Iterator[Auditor]:
        """Watch with an auditor. Raises RehearsalError if someone deleted a pod on a healthy node without a permit."""
        plane = self.rehearsal.account.admin_kubeconfig(naming.eks_cluster(self.environment))
        world = ClusterHistory(KubernetesClient.from_kubeconfig(plane))
        world.start()
        auditor = Auditor(world, plane.parent / "logs" / POD_DELETIONS)
        auditor.begin(time.time())
        try:
            yield auditor
            time.sleep(SETTLED_SECONDS)
            if offences := auditor.offences():
                raise RehearsalError("a pod on a healthy node was deleted: " + "; ".join(offences))
        finally:
            world.stop()

    # -- looking

    def stack(self, part: str) -> str:
        """Return the name of a stack of the environment."""
        return naming.stack(self.environment, part)

    def stack_status(self, part: str) -> str:
        """Return the status of a stack from CloudFormation."""
        return stacks.status(self.rehearsal.account.client("cloudformation"), self.stack(part))

    def stack_events(self, part: str, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Add the `wanted` events of a stack during this drill to its timeline."""
        answer = self.rehearsal.account.client("cloudformation").describe_stack_events(StackName=self.stack(part))
        for event in answer["StackEvents"]:
            if wanted(event):
                kind = event["ResourceType"].rpartition("::")[2]
                what = f"CloudFormation: {kind} {event['LogicalResourceId']} {event['ResourceStatus']}"
                self.timeline.mark(what, at=event["Timestamp"].timestamp())

    def inventory(self) -> list[dict[str, Any]]:
        """Return what exists in the account, without what its owner made for people."""
        people = owner.made(self.environment)
        return [item for item in self.rehearsal.account.inventory() if item["id"] not in people]

    def calls(self, api: str) -> int:
        """Return how often an API call was answered, without refusals."""
        return self.rehearsal.calls(api)

    def quote(self, title: str, lines: Sequence[str]) -> None:
        """Show a program's own output."""
        self.console.print(f"    [dim]{title}:[/]")
        for line in lines:
            self.console.print(f"    [dim]│[/] {escape(line)}", soft_wrap=True, highlight=False)

    # -- a drill

    def begin(self, drill: str) -> None:
        """Start a timeline."""
        self.timeline = DrillTimeline()
        self.timeline.mark(f"the drill begins: {drill}", at=time.time())

    def end(self) -> None:
        """Do nothing: each drill here checks its own promise."""

    def show(self) -> None:
        """Print the timeline."""
        for line in self.timeline.lines():
            self.console.print(f"  {escape(line)}", soft_wrap=True, highlight=False)

    def finish(self) -> None:
        """Do nothing: no work is left after a drill."""
