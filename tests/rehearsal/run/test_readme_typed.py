"""The README's commands, each as it stands there: typed at a terminal, for an account that was never used before."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import config
from config import EksEnvironment, Environment
from config.facts import charts_lock
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.machine.processes import ProcessSupervisor
from ops.policy.role import PersonRole
from rehearsal import stand_ins
from rehearsal.report.verdict import sort_leftovers
from rehearsal.run import access, owner
from rehearsal.run.account import rehearsal_account
from rehearsal.run.cluster import ClusterView, has, wait_for
from tests.rehearsal.run import readme
from tests.rehearsal.run.checkout import Checkout, assert_one_clear_message
from tests.rehearsal.run.terminal import at_a_terminal
from tests.support.waiting import KUBECTL_PATIENCE, PATIENCE_SECONDS

pytestmark = [pytest.mark.readme, pytest.mark.product]


class User:
    """Somebody with a clone, an AWS account, the role of an administrator (`ops policy admin`), and nothing else."""

    def __init__(self, directory: Path, environment: Environment, programs: Binaries) -> None:
        self.checkout = Checkout(directory / "checkout")
        self.environment = environment
        self.programs = programs
        # Where `make lose` looks for a kept rehearsal.
        self.kept = self.checkout.runs / "runs" / environment.name
        self.account = rehearsal_account(
            self.kept / "account", self.programs.directory, account_id=environment.account, region=environment.region
        )
        self._supervisor = ProcessSupervisor(directory)
        self._tools = directory / "tools"
        self._charts: dict[str, str] = {}

    def begin(self) -> None:
        """Start the account, and make what its owner has before the project comes."""
        self.account.start(self._supervisor)
        access.write_account(self.kept, self.account)
        owner.make_roles(self.account, self.environment)
        # The README has one person, who bootstraps, deploys and operates.
        owner.attach(self.account.client("iam"), self.environment, PersonRole.ADMIN, to=PersonRole.OPERATOR)
        self._tools.mkdir()
        (self._tools / "kubectl").symlink_to(self.programs["kubectl"])

    def end(self) -> None:
        self._supervisor.stop_all(grace=20)

    def types(self, command: str, **more: str) -> tuple[int, str]:
        """Type a command of the README in the clone, its environment activated."""
        assert readme.written(command)
        return self.runs(command, **more)

    def runs(self, command: str, **more: str) -> tuple[int, str]:
        env = self.checkout.environment(**self._credentials(), **self._charts, **more)
        env["PATH"] = f"{self._tools}:{env['PATH']}"
        # Without the set-up: the clone has its packages.
        command = re.sub(r"^make ", "make --assume-old=setup --no-print-directory ", command)
        typed = at_a_terminal(f"{readme.ACTIVATE} && {command}", cwd=self.checkout.directory, env=env)
        return typed.code, typed.shown

    def has_stand_in_charts(self) -> None:
        """Say so as the shell of a kept rehearsal does: no host of a chart is asked in a test."""
        charts = self.checkout.directory.parent / "charts"
        stand_ins.build(charts, self.programs)
        self._charts = {charts_lock.STAND_IN_VARIABLE: str(charts)}

    def has_no_charts(self) -> None:
        """Without charts, no synthesis succeeds."""
        self._charts = {}

    def has_aws_cli(self) -> None:
        """Take the AWS CLI of the layer that the eks stack brought."""
        program = next(self.account.directory.glob("lambda/packages/opt/*/awscli/aws"))
        (self._tools / "aws").symlink_to(program)

    def _credentials(self) -> Mapping[str, str]:
        return {
            **owner.credentials(self.account, self.environment, PersonRole.OPERATOR),
            "AWS_ENDPOINT_URL": self.account.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DISABLE_VERSION_CHECK": "1",
        }


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, programs: Binaries) -> Iterator[User]:
    """One user for the whole file: the tests are the README's steps, in its order."""
    user = User(tmp_path_factory.mktemp("readme"), config.load("dev"), programs)
    try:
        user.begin()
        yield user
    finally:
        user.end()


def test_check_shows_the_environment_and_its_cost(user: User) -> None:
    code, shown = user.types(readme.CHECK)
    assert code == 0, shown
    assert re.search(r"dev: account 111122223333, us-west-2[\s\S]*worker-group-1[\s\S]*US\$", shown), shown


def test_charts_that_cannot_be_fetched_are_named_with_the_way_around(user: User) -> None:
    code, shown = user.types(readme.FETCH, HTTPS_PROXY="http://127.0.0.1:1")
    assert code == 2
    assert_one_clear_message(
        shown, r"error: .*: cannot fetch it from \S+ \(https://\S+\): .*\. Fix: give a mirror with --mirror"
    )


def test_bootstrap(user: User) -> None:
    user.has_stand_in_charts()
    code, shown = user.types(readme.BOOTSTRAP)
    assert code == 0, shown
    assert "✅  Environment aws://111122223333/us-west-2 bootstrapped" in shown


def test_preflight(user: User) -> None:
    code, shown = user.types(readme.PREFLIGHT)
    assert code == 0, shown
    assert "dev is ready to deploy: " in shown


def test_stand_in_charts_are_refused_by_an_account_that_is_not_the_rehearsal_s(user: User) -> None:
    marker = user.account.client("ssm").get_parameter(Name=charts_lock.STAND_IN_MARKER)["Parameter"]
    user.account.client("ssm").delete_parameter(Name=charts_lock.STAND_IN_MARKER)
    code, shown = user.types(readme.DEPLOY)
    user.account.client("ssm").put_parameter(Name=marker["Name"], Value=marker["Value"], Type="String")
    assert code == 1, shown
    assert_one_clear_message(shown, rf"Unable to fetch parameters \[{marker['Name']}\] from parameter store")
    stacks = user.account.client("cloudformation").describe_stacks()["Stacks"]
    assert not {stack["StackName"] for stack in stacks} & {"rayhp-dev-eks", "rayhp-dev-platform", "rayhp-dev-ray"}


def test_deploy(user: User) -> None:
    code, shown = user.types(readme.DEPLOY)
    assert code == 0, shown
    assert "✅  rayhp-dev-ray" in shown


def test_wait(user: User) -> None:
    code, shown = user.types(readme.WAIT)
    assert code == 0, shown
    assert "dev is ready" in shown


def test_kubectl_finds_the_dashboard(user: User) -> None:
    user.has_aws_cli()
    code, shown = user.types(readme.KUBECONFIG)
    assert code == 0, shown
    code, shown = user.runs("kubectl get --namespace ray service/rayml-head-svc -o jsonpath='{.spec.ports[*].port}'")
    assert code == 0, shown
    assert "8265" in shown.split()


def ray_pods(user: User) -> set[str]:
    """The running pods of the RayCluster, by name."""
    assert isinstance(user.environment, EksEnvironment)
    return ClusterView(user.environment, user.account.admin_kubeconfig("rayhp-dev")).ray_pod_names("rayml")


def lost(user: User, command: str) -> str:
    """Type a command that loses a pod of the RayCluster; return its words once the RayCluster has five other pods."""
    before = ray_pods(user)
    code, shown = user.runs(command)
    assert code == 0, shown
    [gone] = before & set(re.findall(r"rayml-[\w-]+", shown))
    wait_for(f"5 pods without {gone}", lambda: sorted(ray_pods(user) - {gone}), has(5), timeout=PATIENCE_SECONDS)
    return shown


def test_what_cannot_be_lost_is_refused_with_the_parts_that_can(user: User) -> None:
    code, listed = user.types(readme.LOSE)
    assert code == 0, listed
    code, shown = user.runs(f"{readme.LOSE} WHAT=rain")
    assert code == 2
    allowed = ", ".join(re.findall(r"^(\w+) +\S", listed, re.MULTILINE))
    assert_one_clear_message(shown, rf"WHAT: 'rain' is invalid: it cannot be lost\. Allowed: {allowed}\r?\n")


def test_a_lost_node_a_full_disk_and_a_lost_head_are_replaced(user: User) -> None:
    assert re.search(r"lost: node hyperpod-i-\w+ is silent, and on it rayml-", lost(user, readme.LOSE_NODE))
    assert "is evicted" in lost(user, f"{readme.LOSE} WHAT=disk")
    assert "every job of RayCluster rayml" in lost(user, f"{readme.LOSE} WHAT=head")


def test_a_node_that_aws_cannot_replace_is_replaced_when_it_can(user: User) -> None:
    code, shown = user.types(readme.LOSE_CAPACITY)
    assert code == 0, shown
    assert "AWS has no ml.p5.48xlarge to replace it" in shown
    code, shown = user.runs("ops wait --env dev --timeout 10s --interval 1s")
    assert code == 1, shown
    code, shown = user.types(readme.STATUS)
    assert code == 1, shown
    assert "do not have sufficient ml.p5.48xlarge capacity" in shown
    code, shown = user.types(readme.LOSE_NOTHING)
    assert code == 0, shown
    code, shown = user.runs("ops wait --env dev --timeout 5m --interval 1s")
    assert code == 0, shown


RAY_JOB = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "metadata": {"name": "train", "namespace": "ray"},
    "spec": {"entrypoint": "python train.py", "clusterSelector": {"ray.io/cluster": "rayml"}},
}
PAUSE, SCALE = "ops pause --env dev", "ops scale worker-group-1 2 --env dev"
RESUME = "ops resume --env dev --timeout 5m --interval 1s"


def test_a_running_job_refuses_what_would_take_its_workers(user: User) -> None:
    file = user.checkout.directory.parent / "job.json"
    file.write_text(json.dumps(RAY_JOB))
    code, shown = user.runs(f"kubectl apply -f {file}")
    assert code == 0, shown
    uses = "jsonpath={.status.rayClusterName}=rayml"
    code, shown = user.runs(f"kubectl wait --namespace ray rayjob/train --for='{uses}' {KUBECTL_PATIENCE}")
    assert code == 0, shown
    for command in (PAUSE, SCALE, readme.DESTROY):
        code, shown = user.runs(command)
        assert code == 1, shown
        assert "RayCluster ray/rayml has unfinished jobs: RayJob train. Fix: wait for their end or stop them" in shown
    code, shown = user.runs(f"kubectl delete -f {file} {KUBECTL_PATIENCE}")
    assert code == 0, shown


def test_without_a_job_no_change_needs_force(user: User) -> None:
    """The heads of the account run no program, and know that no job runs.

    The scale comes last: `ops resume` waits for the workers of the file, which a scale does not change.
    """
    for command in (PAUSE, RESUME, SCALE):
        code, shown = user.runs(command)
        assert code == 0, shown


def test_the_isolation_check_says_that_a_rehearsal_enforces_nothing(user: User) -> None:
    code, shown = user.types(readme.ISOLATION)
    assert code == 1, shown
    assert_one_clear_message(shown, r"error: a rehearsal does not enforce policies: nothing was tried\. Fix: .*")


def test_diff_of_what_is_deployed_is_empty(user: User) -> None:
    code, shown = user.types(readme.DIFF)
    assert code == 0, shown
    assert "Number of stacks with differences: 0" in shown


def test_destroy_needs_no_charts_names_the_data_and_leaves_what_the_account_had(user: User) -> None:
    user.has_no_charts()
    code, shown = user.types(readme.DESTROY)
    assert code == 0, shown
    data, _, deleted = shown.partition("and delete this data for good? [y/N]")
    assert re.search(r"this data is deleted for good[\s\S]*  file system fs-\w+\n", data), shown
    assert "dev: 6 stacks destroyed" in deleted
    people = owner.made(user.environment)
    left = sort_leftovers([item for item in user.account.inventory() if item["id"] not in people], [])
    assert left.clean, left
