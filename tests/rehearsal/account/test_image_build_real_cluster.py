"""The image build from its Job to what `ops wait` says, on a real control plane."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest
import urllib3
from typer.testing import CliRunner, Result

from config import EksEnvironment, labels, load, naming
from config.load import DIRECTORY, DIRECTORY_VARIABLE
from embedded_account.context import Account
from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.machine import isolation
from embedded_account.server import AccountServer
from embedded_account.services.eks.host import ClusterHost
from embedded_account.testing.clients import Clients
from embedded_account.testing.cluster import Kubectl, Object
from embedded_account.testing.eks_setup import EksSetup, set_up
from embedded_account.testing.plugin import discard_resources
from k8s_charts.platform_objects import platform_objects
from k8s_charts.ray_objects import ImageBuildFacts, RayFacts, image_build, ray_objects
from k8s_charts.shared.chart import ProjectChart
from ops.commands.whole import app
from ops.policy.role import PersonRole
from rehearsal import paths
from tests.charts.support.facts import FILE_SYSTEM, PLATFORM_FACTS
from tests.rehearsal.account import delivery_roles
from tests.rehearsal.account.test_image_builder import ALL, BUCKET, policy, put_context
from tests.support import assumed_role, people
from tests.support.waiting import KUBECTL_PATIENCE, wait_until

pytestmark = pytest.mark.product

DEV = load("dev")
CLUSTER = naming.eks_cluster(DEV)
REGISTRY = "aws-ray-custom"
PEOPLE = (PersonRole.OPERATOR, PersonRole.DEPLOYER, PersonRole.VIEWER)
ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
SYSTEM_NODE = {"cpu": "4", "memory": "14Gi", "pods": "58", "ephemeral-storage": "140Gi"}


class Builds:
    """A cluster in which the environment's builds run, and `ops` beside it."""

    def __init__(self, account: Account, clients: Clients, directory: Path, roles: Sequence[str]) -> None:
        self._account = account
        self._roles = roles
        self._clients = clients
        self._directory = directory
        plane = account.clusters.get(CLUSTER).control_plane
        assert isinstance(plane, ControlPlane)
        self._kubectl = Kubectl(plane)

    def start(self, environment: EksEnvironment) -> None:
        """Apply the environment's build, which is tried once."""
        facts = ImageBuildFacts(f"arn:aws:iam::{self._account.account_id}:role/builder", "s3://bucket/context.zip")
        objects = ray_objects(environment, RayFacts(FILE_SYSTEM, "role", facts))
        assert objects.image_builder_account
        assert objects.image_build
        self.apply(objects.image_builder_account)
        [job] = objects.image_build.to_json()
        self._create({**job, "spec": {**job["spec"], "backoffLimit": 0}})

    def apply(self, chart: ProjectChart) -> None:
        self._kubectl.apply(*chart.to_json())

    def _create(self, item: Object) -> None:
        self._kubectl("create", "--validate=strict", "-f", "-", stdin=json.dumps(item))

    def let_fail(self, log: str) -> None:
        """Let the builds that follow fail with this log."""
        self._set_fault(log=log)

    def wait_until(self, ending: str) -> None:
        """Wait until a build has `succeeded` or `failed`."""

        def done() -> bool:
            return any(build["status"].get(ending) for build in self.jobs())

        wait_until(done, f"a build that {ending}")

    def let_succeed(self) -> None:
        """Let the builds that follow do their work."""
        self._set_fault()

    def forget(self) -> None:
        """Remove every build, and every image from the registry; let the builds that follow do their work."""
        self.let_succeed()
        self._kubectl("-n", "image-build", "delete", "jobs", "--all", KUBECTL_PATIENCE)
        ecr = self._clients("ecr")
        if images := ecr.list_images(repositoryName=REGISTRY)["imageIds"]:
            ecr.batch_delete_image(repositoryName=REGISTRY, imageIds=images)

    def _set_fault(self, **fault: str) -> None:
        route = f"{self._account.endpoint}/_rehearsal/image-build/fault"
        headers = self._account.keys.control_headers
        assert urllib3.request("POST", route, json=fault, headers=headers).status == 200

    def jobs(self) -> list[Object]:
        """Return the builds that the cluster has."""
        items: list[Object] = self._kubectl.get("-n", "image-build", "jobs")["items"]
        return items

    def delete(self, job: str) -> None:
        """Delete a build as a deployment does; return when the API server has taken it."""
        self._kubectl("-n", "image-build", "delete", "job", job)

    def ops_wait(self) -> Iterator[Result]:
        """Run `ops wait` as each of the roles, which are refused nothing; it looks once."""
        for role in self._roles:
            since = len(self._account.journal.entries())
            yield self.ops("wait", "--timeout", "0s", role=role)
            assert people.refusals(self._account, since, role.rpartition("/")[2]) == []

    def ops(self, *words: str, role: str = "") -> Result:
        """Run a command of `ops` in this process, by default as the environment's operator."""
        env = isolation.child_environment(
            self._directory,
            endpoint=self._account.endpoint,
            region=DEV.region,
            account_id=DEV.account,
            extra=assumed_role.credentials(self._clients, role or self._roles[0])
            | {"COLUMNS": "200", DIRECTORY_VARIABLE: str(DIRECTORY)},
        )
        return CliRunner(env=env).invoke(app, [*words, "--env", "dev"])


def give_role(clients: Clients, issuer: str) -> None:
    """Create the builder's role, which trusts the cluster's issuer."""
    iam = clients("iam")
    host = issuer.removeprefix("https://")
    provider = iam.create_open_id_connect_provider(Url=issuer, ClientIDList=["sts.amazonaws.com"])
    conditions = {f"{host}:sub": "system:serviceaccount:image-build:image-builder", f"{host}:aud": "sts.amazonaws.com"}
    trust = {
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": provider["OpenIDConnectProviderArn"]},
        "Condition": {"StringEquals": conditions},
    }
    iam.create_role(RoleName="builder", AssumeRolePolicyDocument=policy(trust))
    report = {"Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{BUCKET}/image-build/*"}
    iam.put_role_policy(RoleName="builder", PolicyName="access", PolicyDocument=policy(*ALL, report))


def give_access(eks: EksSetup, clients: Clients, directory: Path) -> list[str]:
    """Make all who wait administrators of the cluster: people, and the workflow that deploys; return their roles."""
    deploy = delivery_roles.deploy(clients, DEV, directory)["DeployRoleArn"]
    roles = [*(people.make_role(clients, DEV, role) for role in PEOPLE), deploy]
    for principal in roles:
        eks.api.create_access_entry(clusterName=CLUSTER, principalArn=principal)
        eks.api.associate_access_policy(
            clusterName=CLUSTER, principalArn=principal, policyArn=ADMIN_POLICY, accessScope={"type": "cluster"}
        )
    return roles


def make_registry(clients: Clients) -> None:
    """Make the registry, and the buckets of a build with its context."""
    clients("ecr").create_repository(
        repositoryName=REGISTRY,
        imageTagMutability="IMMUTABLE_WITH_EXCLUSION",
        imageTagMutabilityExclusionFilters=[{"filterType": "WILDCARD", "filter": "cache*"}],
    )
    for bucket in ("bucket", BUCKET):
        clients("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": DEV.region})
    put_context(clients, "Dockerfile")


@pytest.fixture(scope="module")
def cluster(
    account_server: AccountServer, builds_are_played: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Builds]:
    """The environment's registry, buckets, cluster and namespace, and one system node."""
    account, keys = account_server.account, account_server.account.keys
    session: Any = boto3.Session(keys.access_key_id, keys.secret_access_key, region_name=DEV.region)

    def clients(service: str) -> Any:
        return session.client(service, endpoint_url=account.endpoint)

    discard_resources(account)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(account, "binaries", binaries.ensure(paths.BINARIES, print).directory)
        monkeypatch.setattr(account, "clusters", ClusterHost(account))
        eks = set_up(account, clients)
        try:
            issuer = eks.create(name=CLUSTER)["identity"]["oidc"]["issuer"]
            give_role(clients, issuer)
            directory = tmp_path_factory.mktemp("builds")
            roles = give_access(eks, clients, directory / "delivery")
            make_registry(clients)
            node = {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
            nodes = account.clusters.get(CLUSTER).nodes
            nodes.add("system-1", labels=node, capacity=SYSTEM_NODE, allocatable=SYSTEM_NODE)
            builds = Builds(account, clients, directory, roles)
            platform = platform_objects(DEV, PLATFORM_FACTS)
            for chart in (platform.image_build_namespace, platform.image_build_policies):
                assert chart
                builds.apply(chart)
            yield builds
            builds.let_succeed()
        finally:
            clients("eks").delete_cluster(name=CLUSTER)
            discard_resources(account)


@pytest.fixture
def builds(cluster: Builds) -> Builds:
    """The cluster without a build and without an image."""
    cluster.forget()
    return cluster


def test_build_ends_in_the_registry_and_its_failure_in_what_ops_wait_says(builds: Builds) -> None:
    builds.start(DEV)
    builds.wait_until("succeeded")
    tag = image_build(DEV, context="").tag
    for waited in builds.ops_wait():
        assert f"✔ Ray image aws-ray-custom: the rehearsal's stand-in of {tag}" in waited.stdout, waited.output
        # All else is not there.
        assert waited.exit_code == 1

    builds.let_fail("#12 ERROR: failed to solve: process did not complete successfully: exit code: 1")
    another = DEV.model_copy(update={"image": DEV.image.model_copy(update={"pip": ("einops==0.8.1",)})})
    builds.start(another)
    builds.wait_until("failed")
    for waited in builds.ops_wait():
        assert waited.exit_code == 3, waited.output
        said = waited.stderr + waited.stdout
        failure = "Ray image aws-ray-custom: Job has reached the specified backoff limit"
        assert f"dev failed, waiting will not help: {failure}" in said
        assert f"the end of {image_build(another, context='').log}" in said
        assert "| #12 ERROR: failed to solve" in said
        assert "| [rehearsal: a stand-in of the image build, no image is made]" in said


def test_a_failed_build_is_repeated_without_a_destroy_and_goes_with_the_deployed_one(builds: Builds) -> None:
    builds.let_fail("#12 ERROR: failed to solve: registry does not answer")
    builds.start(DEV)
    builds.wait_until("failed")
    [deployed] = builds.jobs()
    name, tag = deployed["metadata"]["name"], image_build(DEV, context="").tag

    dry = builds.ops("image", "build", "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert [job["metadata"]["name"] for job in builds.jobs()] == [name]

    builds.let_succeed()
    done = builds.ops("image", "build", "-o", "json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert (result["job"], result["tag"], result["state"]) == (f"{name}-2", tag, "ready")
    assert f"✔ Ray image aws-ray-custom: the rehearsal's stand-in of {tag}" in next(builds.ops_wait()).stdout
    assert _template(builds.jobs(), f"{name}-2") == _template(builds.jobs(), name)

    done = builds.ops("image", "build")
    assert (done.exit_code, len(builds.jobs())) == (0, 2)
    assert "the registry has the image" in done.stdout

    builds.delete(name)
    wait_until(lambda: builds.jobs() == [], "the repeated build to go with the deployed one")


def _template(jobs: list[Object], name: str) -> Object:
    [found] = [job for job in jobs if job["metadata"]["name"] == name]
    spec: Object = found["spec"]["template"]["spec"]
    return spec
