"""The steps of a rehearsal: each does one thing to the environment and checks that it came out as it should."""

import operator
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

import config
from config import Environment, naming
from config.facts import charts_lock
from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE
from embedded_account.kubernetes.building import binaries
from embedded_account.machine import isolation
from embedded_account.machine.isolation import child_environment
from embedded_account.machine.processes import LOG_LINES, Supervisor
from rehearsal.paths import BINARIES, run_directory
from rehearsal.report import breakdown, timeline, verdict
from rehearsal.report import figures as report
from rehearsal.report.progress import Progress
from rehearsal.run import access, existing, file_system, image_sources, owner
from rehearsal.run.account import EmbeddedAccount
from rehearsal.run.cdk import Cdk, Synthesis, changed_stacks, require_node, run
from rehearsal.run.cluster import ClusterView, has, is_whole, wait_for
from rehearsal.run.project import Project
from rehearsal.stand_ins import build as build_stand_ins
from rehearsal.watch import Watch

# In the order in which `cdk destroy` takes an environment apart.
UNPROTECTED: Final = ("ray", "platform", "hyperpod", "eks")
PROTECTED: Final = ("storage", "network")
# Those with nodes or Ray workers: all that more of these may change.
GROWING: Final = ("hyperpod", "ray")
# Stacks that do not wait for each other, as in the README's commands.
AT_ONCE: Final = ("--concurrency", "3")
# What the CDK CLI prints when no stack differs.
NO_CHANGES: Final = re.compile(r"Number of stacks with differences: 0")


class RehearsalError(Exception):
    """The rehearsal did not go as it should; the message says what was expected and what was seen."""


class Rehearsal:
    """Everything that the steps share."""

    def __init__(self, environment: Environment, console: Console, directory: Path | None = None) -> None:
        self.environment = environment
        self.directory = directory or run_directory(environment.name)
        shutil.rmtree(self.directory, ignore_errors=True)
        self.supervisor = Supervisor(self.directory)
        self.watch = Watch()
        # The account's last lines are the account of a program of its own.
        self.supervisor.watch(self.watch.failed, lines=2 * LOG_LINES)
        self.progress = Progress(console)
        self.spans = breakdown.Spans()
        self.console = console
        self.built: binaries.Binaries
        self.account: EmbeddedAccount
        self.project: Project
        self.cdk: Cdk
        self._synthesis: Synthesis
        self.charts = ""
        self.existed: existing.Description = {}

    # -- preparation

    def prepare(self) -> None:
        """Build what has to be built, copy the project, start the account."""
        self.make_project()
        self.start_account()

    def make_project(self) -> None:
        """Build what has to be built, copy the project, and choose its charts."""
        require_node()
        with self.progress.step("Kubernetes and KubeRay from source (built once, then cached)") as step:
            shown = self.progress.echo if self.console.is_terminal else None
            self.built = binaries.ensure(BINARIES, self.console.print, running=shown)
            step.see(f"binaries in {self.built.directory}")
        self.spans.builds.append(step.span)
        with self.progress.step("project and charts") as step:
            environment = self.environment
            self.account = EmbeddedAccount(
                self.directory / "account",
                self.built.directory,
                account_id=environment.account,
                region=environment.region,
            )
            isolation.enter(self.child_environment())
            self.project = Project(self.directory / "project")
            context = self._charts(step.see)
            self.cdk = Cdk(
                self.project.directory,
                self.supervisor.logs,
                self.child_environment(),
                context={"environment": environment.name, **context},
                echo=self.progress.echo,
                spans=self.spans,
            )

    def begin_synthesis(self) -> None:
        """Begin the synthesis that the first deployment needs: it does not need the account."""
        self._synthesis = self.cdk.begin_synthesis(self.supervisor)

    def start_account(self, *, keep: bool = False) -> None:
        """Start the account, with the people's roles in it; with `keep` it outlives this process."""
        with self.progress.step("embedded AWS account") as step:
            self.account.start(self.supervisor, survives_parent=keep)
            owner.make_roles(self.account, self.environment)
            step.see(f"account {self.environment.account} at {self.account.endpoint}")

    def _charts(self, see: Callable[[str], None]) -> Mapping[str, str]:
        """The publishers' charts when they are cached, else stand-ins; returns the context that says so."""
        if charts_lock.all_cached():
            self.charts = "the publishers', from the cache of `ops charts fetch`"
            see(self.charts)
            return {}
        stand_ins = self.directory / "stand-in-charts"
        build_stand_ins(stand_ins, self.built)
        self.charts = "generated stand-ins (`ops charts fetch` brings the publishers' own)"
        see(self.charts)
        return {"charts": "stand-in", "stand-in-charts": str(stand_ins)}

    def child_environment(self) -> dict[str, str]:
        """The environment of the CDK CLI and of `ops`."""
        return child_environment(
            self.directory,
            endpoint=self.account.endpoint,
            region=self.environment.region,
            account_id=self.environment.account,
            extra={charts_lock.CACHE_VARIABLE: str(charts_lock.cache_directory()), **self.account.keys.aws},
        )

    # -- steps

    def what_exists(self) -> None:
        """Make what the environment says exists, as its owner would have; nothing when all is new."""
        if not (told := existing.names(self.environment)):
            return
        with self.progress.step("what exists already (made by the rehearsal)") as step:
            self.account.make_existing(self.environment)
            self.existed = existing.describe(self.account, self.environment)
            for name in told:
                step.see(name)

    def existing_is_untouched(self) -> None:
        """What existed is exactly as it was before the environment came."""
        if not self.existed:
            return
        with self.progress.step("what existed is as it was") as step:

            def changed() -> str:
                return existing.difference(self.existed, existing.describe(self.account, self.environment))[:6000]

            # A namespace is still there for a moment when its deletion has been accepted.
            wait_for("what existed before the environment, as it was,", changed, operator.not_)
            for name in existing.names(self.environment):
                step.see(name)

    def bootstrap(self) -> None:
        with self.progress.step("cdk bootstrap"):
            self.cdk.bootstrap(self.environment.account, self.environment.region)

    def first_deployment(self) -> None:
        """Deploy all that `begin_synthesis` synthesised."""
        with self.progress.step("cdk deploy --all"):
            self._synthesis.finish()
            self.deploy_stacks(again=True)

    def deploy_stacks(self, *stacks: str, again: bool = False) -> str:
        """Deploy some stacks (by their part) or all, `again` from the last synthesis; return what was printed."""
        targets = [naming.stack(self.environment, stack) for stack in stacks] or ["--all"]
        return self.cdk(
            "deploy", *targets, "--require-approval", "never", *AT_ONCE, "--progress", "events", again=again
        )

    def nodes_join(self) -> None:
        with self.progress.step("nodes join") as step:
            cluster = self.cluster()
            count = self.environment.eks.system_nodes.count
            selector = f"{SYSTEM_NODE_LABEL}={SYSTEM_NODE_ROLE}"
            wait_for("the system node group", partial(cluster.nodes, selector), has(count))
            step.see(f"system: {count} nodes")
            for group in self.environment.hyperpod.instance_groups:
                looks = partial(cluster.group_nodes, group.name)
                nodes = wait_for(f"instance group {group.name}", looks, has(group.count))
                step.see(f"{group.name}: {len(nodes)} x {group.instance_type} ({nodes[0]}, …)")

    def ops_wait(self) -> None:
        with self.progress.step("ops wait") as step:
            argv = [sys.executable, "-m", "ops", "wait", "--env", self.environment.name]
            argv += ["--timeout", "5", "--interval", "1"]
            log = self.supervisor.logs / "ops-wait.log"
            environment = self.child_environment() | dict(owner.admin_credentials(self.account, self.environment))
            printed = run(argv, cwd=self.project.directory, env=environment, log=log, echo=self.progress.echo)
            step.see(printed.splitlines()[-1])

    def ray_is_ready(self) -> None:
        """Every RayCluster of the environment, with each worker on a node of its own."""
        with self.progress.step("RayClusters ready") as step:
            cluster = self.cluster()
            for wanted in self.environment.ray.clusters:
                workers = sum(group.replicas for group in wanted.workers)
                looks = partial(cluster.ray_status, wanted.name)
                wait_for(f"RayCluster {wanted.name}", looks, is_whole(workers))
                pods = cluster.ray_pods(wanted.name)
                nodes = {node for group, names in pods.items() if group != "headgroup" for node in names}
                if len(nodes) != workers:
                    raise RehearsalError(
                        f"{workers} workers must be on {workers} nodes, they are on {len(nodes)}: {pods}"
                    )
                step.see(f"{wanted.name}: ready, 1 head + {workers} workers, one a node")
            found = file_system.file_system(self.account, self.environment, cluster)
            step.see(f"{self.environment.fsx.claim}: bound to {found}")

    def images_are_copies(self) -> None:
        """With a registry of its own, the environment pulls nothing from another, but from AWS's in the region."""
        if self.environment.image_registry is None:
            return
        with self.progress.step(f"images come from {self.environment.image_registry}") as step:
            if others := image_sources.from_elsewhere(self.environment, self.cluster().images()):
                raise RehearsalError(f"these images come from other registries: {others}")
            step.see("or from AWS's own registries in the region (add-ons, health monitoring agent: stand-ins here)")

    def diff_is_clean(self) -> None:
        """What was synthesised is what is deployed. That a synthesis repeats itself, `grow` and the snapshots show."""
        with self.progress.step("cdk diff") as step:
            printed = self.cdk("diff", again=True)
            if not NO_CHANGES.search(printed):
                raise RehearsalError(f"a fresh deployment must have no difference:\n{printed[-3000:]}")
            step.see("no difference in any stack")

    def grow(self) -> None:
        """The worker group grows by one node: one UpdateCluster, one node, one Ray worker."""
        with self.progress.step("the worker group grows") as step:
            group, before, after = self.project.grow_workers(self.environment.name, by=1)
            step.see(f"environments/{self.environment.name}.yaml: {group} count {before} → {after}")
            self.environment = config.load(self.environment.name, self.project.directory / "environments")
            calls_before = self.calls("UpdateCluster")
            printed = self.deploy_stacks()
            if others := changed_stacks(printed) - {naming.stack(self.environment, part) for part in GROWING}:
                raise RehearsalError(
                    f"the change must reach {' and '.join(GROWING)} alone, it changed {sorted(others)}"
                )
            calls = self.calls("UpdateCluster") - calls_before
            if calls != 1:
                raise RehearsalError(f"the change must send one UpdateCluster, it sent {calls}")
            step.see("one UpdateCluster was sent")

    def ray_stack_alone(self) -> None:
        stack = naming.stack(self.environment, "ray")
        with self.progress.step("the ray stack alone: destroyed, deployed again") as step:
            self.cdk("destroy", stack, "--force", again=True)
            cluster = self.cluster()
            for wanted in self.environment.ray.clusters:
                if cluster.ray_status(wanted.name) or cluster.ray_pods(wanted.name):
                    raise RehearsalError(f"RayCluster {wanted.name} is still there after {stack} was destroyed")
            step.see("no RayCluster, no Ray pod was left")
            self.cdk("deploy", stack, "--require-approval", "never", "--progress", "events", again=True)

    def destroy(self) -> None:
        """All that is not protected; a protected environment refuses the rest."""
        if not self.environment.protect:
            with self.progress.step("cdk destroy --all"):
                self.cdk("destroy", "--all", "--force", *AT_ONCE, again=True)
            return
        with self.progress.step("cdk destroy (the protected stacks stay)") as step:
            stacks = (naming.stack(self.environment, stack) for stack in UNPROTECTED)
            self.cdk("destroy", *stacks, "--force", *AT_ONCE, again=True)
            printed = self.cdk("destroy", "--all", "--force", expect=(1,), again=True)
            if "TerminationProtection is enabled" not in printed:
                raise RehearsalError(
                    f"`cdk destroy --all` must be refused by termination protection:\n{printed[-2000:]}"
                )
            step.see("`cdk destroy --all` is refused: storage and network are protected")

    def take_inventory(self, protected: bool) -> verdict.Leftovers:
        """Sort what is left; with `protected`, exactly the protected stacks must be."""
        with self.progress.step("inventory") as step:
            stacks = [naming.stack(self.environment, stack) for stack in PROTECTED] if protected else []
            people = owner.role_names(self.environment)
            items = [item for item in self.account.inventory() if item["id"] not in people]
            leftovers = verdict.sort_leftovers(items, stacks)
            kept = {item["owner"] for item in leftovers.protected}
            if kept != set(stacks):
                raise RehearsalError(f"exactly the protected stacks {stacks} must be left, there are {sorted(kept)}")
            step.see(f"{len(leftovers.protected)} resources in protected stacks, {len(leftovers.nobody)} of nobody")
            return leftovers

    def deployed_again(self) -> None:
        """A protected environment: a second deployment uses the data that stayed; then the reviewed way to the end."""
        before = self._file_system()
        with self.progress.step("cdk deploy --all, again"):
            self.deploy_stacks()
        with self.progress.step("the file system is the one that stayed") as step:
            if self._file_system() != before:
                raise RehearsalError(f"file system {before} was not used again, there is {self._file_system()}")
            step.see(before)
        with self.progress.step("protect: false, deployed; then cdk destroy --all"):
            self.project.lift_protection(self.environment.name)
            self.deploy_stacks(*PROTECTED)
            self.cdk("destroy", "--all", "--force", *AT_ONCE, again=True)

    # -- looking

    def cluster(self) -> ClusterView:
        """The control plane of the environment's EKS cluster, as its administrator."""
        name = naming.eks_cluster(self.environment)
        return ClusterView(self.environment, self.account.admin_kubeconfig(name))

    def timeline(self) -> None:
        """Tell what waited for what in the first deployment."""
        drawn = timeline.bands(report.journal(self.account.directory))
        self.console.print("[bold]What the deployment waited for[/]")
        for line in timeline.lines(drawn):
            self.console.print(f"    {line}")
        self.console.print(f"    drawn in {self.directory / timeline.NAME}")

    def say_how_to_look(self) -> None:
        """What a person needs to look at a rehearsal that stays."""
        kubeconfig = self.account.admin_kubeconfig(naming.eks_cluster(self.environment))
        credentials = owner.admin_credentials(self.account, self.environment)
        variables = self.child_environment() | dict(credentials) | {"KUBECONFIG": str(kubeconfig)}
        file = access.write(self.directory, variables, self.built.directory)
        self.console.print("\n[bold]It stays until[/] make rehearse-down[bold]. To look at it, paste into a shell:[/]")
        for line in access.commands(self.environment, file):
            self.console.print(f"    {line}", soft_wrap=True, highlight=False, markup=False)
        self.console.print("The credentials last an hour. The last command needs the AWS CLI; nothing else does.")
        self.console.print(f"Logs: {self.supervisor.logs} and {self.account.directory / 'logs'}", soft_wrap=True)

    def report(self) -> None:
        """Leave how long everything took, and the timeline's page, however the run ended."""
        if not (steps := self.progress.steps):
            return
        journal = report.journal(self.directory / "account")
        parts = breakdown.breakdown((steps[0].began, time.time()), self.spans, journal)
        report.write(self.directory, steps, parts)
        if drawn := timeline.bands(journal):
            timeline.write(drawn, f"Deployment of {self.environment.name}", self.directory / timeline.NAME)

    def _file_system(self) -> str:
        systems = self.account.client("fsx").describe_file_systems()["FileSystems"]
        return str(systems[0]["FileSystemId"])

    def calls(self, api: str) -> int:
        """How often an API call was answered, refusals apart."""
        entries = self.account.journal()
        return sum(e["kind"] == "api" and e["operation"] == api and "refused" not in e for e in entries)
