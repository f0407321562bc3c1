"""Define the steps of a rehearsal: each does one thing to the environment and checks the result."""

import json
import operator
import re
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from rich.console import Console

import config
from config import EksEnvironment, Environment, naming
from config.facts import charts_lock, support
from config.facts.versions import SETS
from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE
from config.load import DIRECTORY_VARIABLE
from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.pods.programs import RealRay
from embedded_account.machine import isolation
from embedded_account.machine.isolation import child_environment
from embedded_account.machine.processes import LOG_LINES, ProcessSupervisor
from embedded_account.running import CLOCK_SCALE, EmbeddedAccount
from ops.policy.role import PersonRole
from rehearsal import programs, runs, stand_ins
from rehearsal.paths import BINARIES, run_directory
from rehearsal.report import breakdown, expected, timeline, verdict
from rehearsal.report import figures as report
from rehearsal.report.progress import StepProgress
from rehearsal.run import access, existing, file_system, jobs, mirror, ops_destroy, owner
from rehearsal.run.account import rehearsal_account
from rehearsal.run.cdk import Cdk, DeployOutcome, Synthesis, changed_stacks, require_node, run
from rehearsal.run.cluster import ClusterView, has, is_whole, wait_for
from rehearsal.run.existing_resources import existing_resources
from rehearsal.run.project import Project
from rehearsal.watch import Watch

# In the order in which `cdk destroy` removes an environment.
UNPROTECTED: Final = ("ray", "platform", "hyperpod", "eks")
PROTECTED: Final = ("storage", "network")
# The stacks with nodes or Ray workers: only these may change when a group grows.
GROWING: Final = ("hyperpod", "ray")
# Deploy independent stacks in parallel, as the README's commands do.
AT_ONCE: Final = ("--concurrency", "3")
# The CDK CLI's output if no stack differs.
NO_CHANGES: Final = re.compile(r"Number of stacks with differences: 0")


STAND_INS: Final = "stand-in-charts"
"""In the folder of a rehearsal without the publishers' charts."""


class RehearsalError(Exception):
    """A check of the rehearsal failed; the message says what was expected and what was seen."""


E = TypeVar("E", bound=Environment)


class RehearsalSteps(Generic[E]):
    """The state that the steps share, and the steps of every orchestrator."""

    def __init__(self, environment: E, console: Console, directory: Path | None = None) -> None:
        self.environment = environment
        self.directory = directory or run_directory(environment.name)
        runs.discard(self.directory)
        self.supervisor = ProcessSupervisor(self.directory)
        self.watch = Watch()
        # The account's last lines may include the last lines of one of its own programs.
        self.supervisor.watch(self.watch.failed, lines=2 * LOG_LINES)
        self.progress = StepProgress(console)
        self.spans = breakdown.Spans()
        self.console = console
        self.built: binaries.Binaries
        self.account: EmbeddedAccount
        self.project: Project
        self.cdk: Cdk
        self._synthesis: Synthesis
        self._growth = ("", 0, 0)
        self.charts = ""
        self._kubernetes = ""
        self._stand_ins: dict[str, str] = {}
        self._real_rays: Sequence[RealRay] = ()
        self.existed: existing.Description = {}

    # -- preparation

    def prepare(self) -> None:
        """Build the programs, copy the project, start the account."""
        self.make_project()
        self.start_account()

    def make_project(self) -> None:
        """Build the programs, copy the project, and choose its charts."""
        raise NotImplementedError

    def _open_project(self, programs: Path) -> None:
        """Prepare the account, whose programs are in a folder, the copy of the project, and the CDK CLI in it."""
        environment = self.environment
        self.account = rehearsal_account(
            self.directory / "account", programs, account_id=environment.account, region=environment.region
        )
        isolation.enter(self.child_environment())
        self.project = Project(self.directory / "project")
        self._choose_charts()
        self.cdk = Cdk(
            self.project.directory,
            self.supervisor.logs,
            self.child_environment(),
            context={"environment": environment.name},
            echo=self.progress.echo,
            spans=self.spans,
        )

    def _choose_charts(self) -> None:
        """Choose the Helm charts. Slurm needs none."""

    def begin_synthesis(self) -> None:
        """Start a synthesis, which does not need the account, for the next deployment `again`."""
        self._synthesis = self.cdk.begin_synthesis(self.supervisor)

    def start_account(self, *, clock_scale: float = CLOCK_SCALE, keep: bool = False) -> None:
        """Start the account with people's roles in it; with `keep`, it outlives this process."""
        with self.progress.step("embedded AWS account") as step:
            self.account.start(
                self.supervisor, clock_scale=clock_scale, survives_parent=keep, real_rays=self._real_rays
            )
            owner.make_roles(self.account, self.environment)
            self.cdk.use(owner.credentials(self.account, self.environment, PersonRole.DEPLOYER))
            step.see(f"account {self.environment.account} at {self.account.endpoint}")

    def child_environment(self) -> dict[str, str]:
        """Return the environment variables of the CDK CLI and of `ops`."""
        return child_environment(
            self.directory,
            endpoint=self.account.endpoint,
            region=self.environment.region,
            account_id=self.environment.account,
            extra={
                charts_lock.CACHE_VARIABLE: str(charts_lock.cache_directory()),
                support.TODAY_VARIABLE: str(support.today()),
                **self._stand_ins,
                **self.account.keys.aws,
            },
        )

    def environment_of(self, role: PersonRole) -> dict[str, str]:
        """Return the environment variables of a command that a person with this role types."""
        return self.child_environment() | dict(owner.credentials(self.account, self.environment, role))

    # -- steps

    def what_exists(self) -> None:
        """Create the existing infrastructure that the environment names, if any, as its owner would."""
        if not (names := existing.names(self.environment)):
            return
        with self.progress.step("existing infrastructure (created by the rehearsal)") as step:
            self.account.make_existing(existing_resources(self.environment))
            owner.admit_operator(self.account, self.environment)
            self.existed = existing.describe(self.account, self.environment)
            for name in names:
                step.see(name)

    def existing_is_untouched(self) -> None:
        """Check that the existing infrastructure is exactly as before the environment."""
        if not self.existed:
            return
        with self.progress.step("existing infrastructure is unchanged") as step:

            def changed() -> str:
                return existing.difference(self.existed, existing.describe(self.account, self.environment))[:6000]

            if pods := existing.collect_garbage(self.account, self.environment):
                step.see(f"{pods} pods of nodes that are gone: removed at once, not by Kubernetes after 40 to 60 s")
            # A namespace exists for a moment after its deletion has been accepted.
            wait_for("unchanged existing infrastructure", changed, operator.not_)
            for name in existing.names(self.environment):
                step.see(name)

    def bootstrap(self) -> None:
        with self.progress.step("cdk bootstrap"):
            admin = owner.credentials(self.account, self.environment, PersonRole.ADMIN)
            self.cdk.bootstrap(self.environment, admin)

    def preflight(self) -> None:
        """Type the command that finds what the account lacks for a deployment."""
        with self.progress.step("ops preflight") as step:
            argv = [sys.executable, "-m", "ops", "preflight", "--env", self.environment.name]
            log = self.supervisor.logs / "ops-preflight.log"
            environment = self.environment_of(PersonRole.DEPLOYER)
            printed = run(argv, cwd=self.project.directory, env=environment, log=log, echo=self.progress.echo)
            step.see(printed.splitlines()[-1])

    def first_deployment(self, kills: Sequence[float] = ()) -> None:
        """Deploy the stacks that `begin_synthesis` synthesised.

        The CLI is killed after each of `kills` seconds, until it is done before that, and run again.
        """
        with self.progress.step("cdk deploy --all") as step:
            self._synthesis.finish()
            self._prepare_cluster()
            runs = Counter(self._deployments(kills))
            if kills:
                self._stacks_settle()
                step.see(
                    f"killed {runs[DeployOutcome.KILLED]} times, refused {runs[DeployOutcome.REFUSED]} times, run again"
                )
            self.deploy_stacks(again=True)

    def _deployments(self, kills: Sequence[float]) -> Iterator[DeployOutcome]:
        """Deploy until it is done, each time for some seconds; yield what came of it."""
        for seconds in kills:
            yield (came := self.cdk.deploy_or_kill(*self._deploys(), seconds=seconds))
            if came is DeployOutcome.DONE:
                return

    def _stacks_settle(self) -> None:
        client = self.account.client("cloudformation")

        def changing() -> list[str]:
            found = {stack["StackName"]: stack["StackStatus"] for stack in client.describe_stacks()["Stacks"]}
            # A stack in REVIEW_IN_PROGRESS has a change set that nobody executed.
            return [name for name, status in found.items() if re.fullmatch(r"(?!REVIEW)\w+_IN_PROGRESS", status)]

        wait_for("the end of what the killed deployments began", changing, operator.not_)

    def _deploys(self, *stacks: str) -> tuple[str, ...]:
        targets = [naming.stack(self.environment, stack) for stack in stacks] or ["--all"]
        return (*targets, "--require-approval", "never", *AT_ONCE, "--progress", "events")

    def _prepare_cluster(self) -> None:
        """Tell the account what it cannot know of a cluster's orchestrator, before a deployment."""

    def deploy_stacks(self, *stacks: str, again: bool = False) -> str:
        """Deploy the named parts' stacks or all, `again` from the last synthesis; return the CLI's output."""
        return self.cdk("deploy", *self._deploys(*stacks), again=again)

    def ops_wait(self) -> None:
        with self.progress.step("ops wait") as step:
            argv = [sys.executable, "-m", "ops", "wait", "--env", self.environment.name]
            argv += ["--timeout", "15m", "--interval", "1s"]
            log = self.supervisor.logs / "ops-wait.log"
            environment = self.environment_of(PersonRole.OPERATOR)
            printed = run(argv, cwd=self.project.directory, env=environment, log=log, echo=self.progress.echo)
            step.see(printed.splitlines()[-1])

    def nothing_drifted(self) -> None:
        """Check that `ops drift` finds every part as it was deployed."""
        with self.progress.step("ops drift") as step:
            argv = [sys.executable, "-m", "ops", "drift", "--env", self.environment.name]
            log = self.supervisor.logs / "ops-drift.log"
            environment = self.environment_of(PersonRole.OPERATOR)
            printed = run(argv, cwd=self.project.directory, env=environment, log=log, echo=self.progress.echo)
            if printed.splitlines() != [f"{self.environment.name}: no drift"]:
                raise RehearsalError(f"every part must be compared after a deployment:\n{printed}")
            step.see("none in any stack")

    def diff_is_clean(self) -> None:
        """Check that the deployment equals the synthesis. `grow` and the snapshots prove repeatable synthesis."""
        with self.progress.step("cdk diff") as step:
            printed = self.cdk("diff", again=True)
            if not NO_CHANGES.search(printed):
                raise RehearsalError(f"there must be no difference after a deployment:\n{printed[-3000:]}")
            step.see("no difference in any stack")

    def begin_growth(self) -> None:
        """Add one node to the worker group's file, and start the synthesis; until `grow`, the CLI uses the last one."""
        self._growth = self.project.grow_workers(self.environment.name, by=1)
        self.begin_synthesis()

    def destroy(self, kills: Sequence[float] = ()) -> Sequence[float]:
        """Destroy all stacks, except protected ones, whose destruction must be refused.

        An environment without protection is destroyed by `ops destroy`, which is killed after each of `kills` seconds
        and run again; a protected one by `cdk destroy` alone. Return the kills that the end of the destroy came before.
        """
        if not self.environment.protect:
            with self.progress.step("ops destroy") as step:
                left = ops_destroy.destroy(
                    self.environment.name,
                    self.project.directory,
                    self.environment_of(PersonRole.DEPLOYER),
                    self.supervisor.logs,
                    kills=kills,
                    echo=self.progress.echo,
                )
                if kills:
                    step.see(f"killed {len(kills) - len(left)} times before its end, then run again")
            return left
        with self.progress.step("cdk destroy (the protected stacks stay)") as step:
            stacks = (naming.stack(self.environment, stack) for stack in UNPROTECTED)
            self.cdk("destroy", *stacks, "--force", *AT_ONCE, again=True)
            printed = self.cdk("destroy", "--all", "--force", expect=(1,), again=True)
            if "TerminationProtection is enabled" not in printed:
                raise RehearsalError(
                    f"`cdk destroy --all` must be refused by termination protection:\n{printed[-2000:]}"
                )
            step.see("`cdk destroy --all` is refused: storage and network are protected")
        return ()

    def take_inventory(self, protected: bool) -> verdict.Leftovers:
        """Sort what is left; with `protected`, exactly the protected stacks must be left."""
        with self.progress.step("inventory") as step:
            stacks = [naming.stack(self.environment, stack) for stack in PROTECTED] if protected else []
            owners = owner.made(self.environment)
            items = [item for item in self.account.inventory() if item["id"] not in owners]
            leftovers = verdict.sort_leftovers(items, stacks)
            kept = {item["owner"] for item in leftovers.protected}
            if kept != set(stacks):
                raise RehearsalError(f"exactly the protected stacks {stacks} must be left; there are {sorted(kept)}")
            step.see(
                f"{len(leftovers.protected)} resources in protected stacks, {len(leftovers.nobody)} without an owner"
            )
            return leftovers

    def destroy_again(self, kills: Sequence[float]) -> Sequence[float]:
        """Redeploy and destroy a destroyed environment, for kills that an earlier destroy ended before.

        Return the kills that this destroy ended before, too. Raises RehearsalError if these are all.
        """
        with self.progress.step("cdk deploy --all, again"):
            self._wait_for_namespaces()
            self.deploy_stacks()
        left = self.destroy(kills)
        if len(left) == len(kills):
            raise RehearsalError(f"`ops destroy` ended before its kill after {kills[0]:.1f} s")
        return left

    def _wait_for_namespaces(self) -> None:
        """Wait for what a destroy deletes from an existing cluster; on AWS, minutes pass until the next deployment."""
        existing.collect_garbage(self.account, self.environment)
        namespaces = partial(existing.ending_namespaces, self.account, self.environment)
        wait_for("the end of deleted namespaces", namespaces, operator.not_)

    def lift_protection(self) -> None:
        """Start the synthesis with `protect: false`; until `destroy_unprotected`, the CLI uses the last one."""
        self.project.lift_protection(self.environment.name)
        self.begin_synthesis()

    def deployed_again(self) -> None:
        """Redeploy a protected environment, which must reuse its data."""
        before = self._file_system()
        with self.progress.step("cdk deploy --all, again"):
            self._wait_for_namespaces()
            self._prepare_cluster()
            self.deploy_stacks(again=True)
        with self.progress.step("the existing file system is reused") as step:
            if self._file_system() != before:
                raise RehearsalError(f"file system {before} was not reused; there is {self._file_system()}")
            step.see(before)

    def destroy_unprotected(self) -> None:
        """Deploy what `lift_protection` synthesised, and destroy all stacks."""
        with self.progress.step("protect: false, deployed; then cdk destroy --all"):
            self._synthesis.finish()
            self.deploy_stacks(*PROTECTED, again=True)
            self.cdk("destroy", "--all", "--force", *AT_ONCE, again=True)

    # -- looking

    def timeline(self) -> None:
        """Print how long the first deployment takes on AWS, and what it waits for."""
        found = self._expected(report.journal(self.account.directory))
        later = expected.later_line(ray=isinstance(self.environment, EksEnvironment))
        self.console.print("[bold]What the deployment waited for[/]")
        for line in [found.line(), later, *self._destroy(), *timeline.lines(found.typical.bands)] if found else []:
            hanging = textwrap.fill(line, self.console.width - 4, subsequent_indent="    ", break_on_hyphens=False)
            self.console.print(textwrap.indent(hanging, "    "))
        self.console.print(f"    drawn in {self.directory / timeline.NAME}")

    def report(self) -> None:
        """Write the times and the timeline's page, however the run ended."""
        if not (steps := self.progress.steps):
            return
        journal = report.journal(self.directory / "account")
        parts = breakdown.breakdown((steps[0].began, time.time()), self.spans, journal)
        report.write(self.directory, steps, parts)
        if found := self._expected(journal):
            title, page = f"Deployment of {self.environment.name}, in AWS's time", self.directory / timeline.NAME
            timeline.write(found.typical.bands, found.typical.critical, title, page)

    def _expected(self, journal: list[dict[str, Any]]) -> expected.Expectation | None:
        """Return what the first deployment takes on AWS; None if nothing was created."""
        if not (drawn := timeline.bands(journal)):
            return None
        return expected.expect(drawn, expected.upstream(self.project.directory / "cdk.out"), places=int(AT_ONCE[-1]))

    def _destroy(self) -> list[str]:
        """Return a line about the destroy's time on AWS; none without an assembly."""
        assembly = self.project.directory / "cdk.out"
        if not (declared := expected.declared(assembly)):
            return []
        found = expected.expect_destroy(declared, expected.upstream(assembly), places=int(AT_ONCE[-1]))
        return [found.line("a destroy takes about")]

    def _file_system(self) -> str:
        systems = self.account.client("fsx").describe_file_systems()["FileSystems"]
        return str(systems[0]["FileSystemId"])

    def calls(self, api: str) -> int:
        """Return how often an API call was answered, without refusals."""
        entries = self.account.journal()
        return sum(e["kind"] == "api" and e["operation"] == api and "refused" not in e for e in entries)


class Rehearsal(RehearsalSteps[EksEnvironment]):
    """The steps for a cluster that EKS orchestrates."""

    def make_project(self) -> None:
        """Build the programs, copy the project, and choose its charts."""
        require_node()
        with self.progress.step("Kubernetes and KubeRay from source (built once, then cached)") as step:
            shown = self.progress.echo if self.console.is_terminal else None
            self.built = programs.built(self.environment, self.console.print, shown)
            step.see(f"binaries in {self.built.directory}")
        self.spans.builds.append(step.span)
        with self.progress.step("project and charts") as step:
            self._open_project(self.built.directory)
            step.see(self.charts)

    def _choose_charts(self) -> None:
        """Choose the publishers' charts if they are cached, else make stand-ins, which a variable names."""
        if charts_lock.all_cached():
            self.charts = "the publishers', from the cache of `ops charts fetch`"
            return
        directory = self.directory / STAND_INS
        stand_ins.build(directory, self.built, self.environment.kuberay_version)
        self.charts = "generated stand-ins (`ops charts fetch` downloads the publishers' own)"
        self._stand_ins = {charts_lock.STAND_IN_VARIABLE: str(directory)}

    def run_jobs(self) -> None:
        """Let real Ray run in the pods of a smaller copy of the environment; call it before the account starts.

        Sets of versions whose Ray is installed can replace the environment's own.
        """
        self.project.edit(self.environment.name, jobs.on_processors)
        self.environment = config.load(self.environment.name, self.project.directory / "environments")
        self._real_rays = jobs.real_rays(self.environment)
        plane = self.account.admin_kubeconfig(naming.eks_cluster(self.environment)).parent
        jobs.directory(self.environment, plane).mkdir(parents=True)
        for version in sorted({SETS[name].kuberay for name in jobs.installed()} - {self.environment.kuberay_version}):
            other = binaries.add_operator(self.built, version, BINARIES, self.console.print)
            if self._stand_ins:
                stand_ins.add_kuberay(self.directory / STAND_INS, other, version)

    def _prepare_cluster(self) -> None:
        if not self.environment.existing_eks:
            self.account.prepare_cluster(naming.eks_cluster(self.environment), self.environment.eks.version)

    def nodes_join(self) -> None:
        with self.progress.step("nodes join") as step:
            cluster = self.cluster()
            self._kubernetes = cluster.version()
            step.see(f"Kubernetes {self._kubernetes}")
            count = self.environment.eks.system_nodes.count
            selector = f"{SYSTEM_NODE_LABEL}={SYSTEM_NODE_ROLE}"
            wait_for("the system node group", partial(cluster.nodes, selector), has(count))
            step.see(f"system: {count} nodes")
            for group in self.environment.hyperpod.instance_groups:
                observe = partial(cluster.group_nodes, group.name)
                nodes = wait_for(f"instance group {group.name}", observe, has(group.count))
                step.see(f"{group.name}: {len(nodes)} x {group.instance_type} ({nodes[0]}, …)")

    def ray_is_ready(self) -> None:
        """Check every RayCluster of the environment: ready, with each worker on its own node."""
        with self.progress.step("RayClusters ready") as step:
            cluster = self.cluster()
            for wanted in self.environment.ray.clusters:
                workers = sum(group.replicas for group in wanted.workers)
                observe = partial(cluster.ray_status, wanted.name)
                wait_for(f"RayCluster {wanted.name}", observe, is_whole(workers))
                pods = cluster.ray_pods(wanted.name)
                nodes = {node for group, names in pods.items() if group != "headgroup" for node in names}
                if len(nodes) != workers:
                    raise RehearsalError(
                        f"{workers} workers must be on {workers} nodes; they are on {len(nodes)}: {pods}"
                    )
                step.see(f"{wanted.name}: ready, 1 head + {workers} workers, one per node")
            found = file_system.file_system(self.account, self.environment, cluster)
            step.see(f"{self.environment.fsx.claim}: bound to {found}")

    def images_are_copies(self) -> None:
        """Check that an environment with an image registry pulls only from it and from AWS's regional registries."""
        registry = mirror.registry(self.environment)
        if registry is None:
            return
        with self.progress.step(f"images come from {registry}") as step:
            if others := mirror.from_elsewhere(self.environment, self.cluster().images()):
                raise RehearsalError(f"these images come from other registries: {others}")
            step.see("or from AWS's own regional registries (add-ons, health monitoring agent: stand-ins here)")

    def grow(self) -> None:
        """Deploy what `begin_growth` synthesised: one UpdateCluster, one node, one Ray worker."""
        with self.progress.step("the worker group grows") as step:
            group, before, after = self._growth
            step.see(f"environments/{self.environment.name}.yaml: {group} count {before} → {after}")
            self.environment = config.load(self.environment.name, self.project.directory / "environments")
            calls_before = self.calls("UpdateCluster")
            self._synthesis.finish()
            printed = self.deploy_stacks(again=True)
            if others := changed_stacks(printed) - {naming.stack(self.environment, part) for part in GROWING}:
                raise RehearsalError(
                    f"the change must only reach {' and '.join(GROWING)}; it also changed {sorted(others)}"
                )
            if group in self.environment.hyperpod.sleeping_groups:
                if calls := self.calls("UpdateCluster") - calls_before:
                    raise RehearsalError(f"the sleeper alone sets the count of {group}; the change sent {calls} calls")
                self._wake(group, after)
                step.see(f"{group} sleeps: its function raised the count, which the sleeper would call")
            calls = self.calls("UpdateCluster") - calls_before
            if calls != 1:
                raise RehearsalError(f"the change must send one UpdateCluster; it sent {calls}")
            step.see("one UpdateCluster was sent")

    def _wake(self, group: str, count: int) -> None:
        """Call the function of the groups that sleep: outside of sandboxes the sleeper's pods are simulated."""
        payload = json.dumps({"counts": {group: count}})
        name = naming.group_counts(self.environment)
        answer = self.account.client("lambda").invoke(FunctionName=name, Payload=payload)
        text = answer["Payload"].read().decode()
        if "FunctionError" in answer or json.loads(text)["refused"]:
            raise RehearsalError(f"{name} must set {group} to {count}; it answered {text}")

    def ray_stack_alone(self) -> None:
        stack = naming.stack(self.environment, "ray")
        with self.progress.step("the ray stack alone: destroyed and redeployed") as step:
            self.cdk("destroy", stack, "--force", again=True)
            cluster = self.cluster()
            for wanted in self.environment.ray.clusters:
                if cluster.ray_status(wanted.name) or cluster.ray_pods(wanted.name):
                    raise RehearsalError(f"RayCluster {wanted.name} still exists after {stack} was destroyed")
            step.see("no RayCluster and no Ray pod is left")
            self.cdk("deploy", stack, "--require-approval", "never", "--progress", "events", again=True)

    @property
    def seen(self) -> verdict.EksSeen:
        """Return what this rehearsal ran, for its verdict."""
        chosen = self.environment
        return verdict.EksSeen(chosen.kuberay_version, chosen.eks.version, self._kubernetes, self.charts)

    def cluster(self) -> ClusterView:
        """Return a view of the environment's EKS cluster, as its administrator."""
        name = naming.eks_cluster(self.environment)
        return ClusterView(self.environment, self.account.admin_kubeconfig(name))

    def print_how_to_watch(self) -> None:
        """Print how to inspect a kept rehearsal."""
        kubeconfig = self.account.admin_kubeconfig(naming.eks_cluster(self.environment))
        # Whoever looks may want to try every command.
        owner.attach(self.account.client("iam"), self.environment, PersonRole.ADMIN, to=PersonRole.OPERATOR)
        variables = self.environment_of(PersonRole.OPERATOR) | {"KUBECONFIG": str(kubeconfig)}
        if self._real_rays:
            deployed = self.project.directory / "environments"
            variables[DIRECTORY_VARIABLE] = str(deployed)
            self.console.print(
                f"\n[bold]Real Ray runs in {jobs.WORKERS} workers without GPUs,[/] so jobs run. "
                "`ops job submit` starts one; `make lose WHAT=node` takes its node."
            )
            self.console.print(f"In the shell, `ops` reads the smaller copies in {deployed}.", soft_wrap=True)
            self.console.print(
                f"Sets of versions for `ops upgrade --to`: {', '.join(jobs.installed())}. "
                "`make setup-jobs ROW=…` installs another one's Ray.",
                soft_wrap=True,
            )
        file = access.write(self.directory, variables, self.built.directory)
        access.write_account(self.directory, self.account)
        self.console.print("\n[bold]It stays until[/] make rehearse-down[bold]. To inspect it, paste into a shell:[/]")
        for line in access.commands(self.environment, file):
            self.console.print(f"    {line}", soft_wrap=True, highlight=False, markup=False)
        self.console.print("The credentials are valid for twelve hours. Only the last command needs the AWS CLI.")
        self.console.print(f"Logs: {self.supervisor.logs} and {self.account.directory / 'logs'}", soft_wrap=True)
