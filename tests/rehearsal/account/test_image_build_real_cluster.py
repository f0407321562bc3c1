"""The image build from its Job to what `ops wait` says, on a real control plane."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from config import Environment, labels, load, naming
from config.load import DIRECTORY, DIRECTORY_VARIABLE
from embedded_account.context import Account
from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.machine import isolation
from embedded_account.services.eks.host import ClusterHost
from embedded_account.testing.clients import Clients
from embedded_account.testing.cluster import Kubectl, Object
from embedded_account.testing.eks_setup import set_up
from k8s_charts.platform_objects import platform_objects
from k8s_charts.ray_objects import ImageBuildFacts, RayFacts, image_build, ray_objects
from k8s_charts.shared.chart import ProjectChart
from rehearsal import paths
from tests.charts.support.facts import FILE_SYSTEM, PLATFORM_FACTS
from tests.rehearsal.account.test_image_builder import ALL, BUCKET, policy, put_context
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.product, pytest.mark.usefixtures("builds_are_played")]

DEV = load("dev")
CLUSTER = naming.eks_cluster(DEV)
ADMIN = "PlatformAdmin"
ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
SYSTEM_NODE = {"cpu": "4", "memory": "14Gi", "pods": "58", "ephemeral-storage": "140Gi"}


class Builds:
    """A cluster in which the environment's builds run, and `ops` beside it."""

    def __init__(self, account: Account, clients: Clients, directory: Path) -> None:
        self._account = account
        self._clients = clients
        self._directory = directory
        plane = account.clusters.get(CLUSTER).control_plane
        assert isinstance(plane, ControlPlane)
        self._kubectl = Kubectl(plane)

    def start(self, environment: Environment) -> None:
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

    def ops_wait(self) -> subprocess.CompletedProcess[str]:
        """Run `ops wait` as the environment's admin; it looks once."""
        return self.ops("wait", "--timeout", "0s")

    def ops(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `ops` as the environment's admin."""
        session = {"RoleArn": f"arn:aws:iam::{self._account.account_id}:role/{ADMIN}", "RoleSessionName": "test"}
        keys = self._clients("sts").assume_role(**session)["Credentials"]
        names = {
            "AccessKeyId": "ACCESS_KEY_ID",
            "SecretAccessKey": "SECRET_ACCESS_KEY",
            "SessionToken": "SESSION_TOKEN",
        }
        env = isolation.child_environment(
            self._directory,
            endpoint=self._account.endpoint,
            region=DEV.region,
            account_id=DEV.account,
            extra={f"AWS_{name}": keys[key] for key, name in names.items()}
            | {"COLUMNS": "200", DIRECTORY_VARIABLE: str(DIRECTORY)},
        )
        command = [sys.executable, "-m", "ops", *words, "--env", "dev"]
        return subprocess.run(command, env=env, cwd=paths.REPOSITORY, capture_output=True, text=True, check=False)


def give_role(clients: Clients, issuer: str) -> None:
    """The builder's role, which trusts the cluster's issuer, and the admin's."""
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
    people = {"Action": "sts:AssumeRole", "Principal": {"AWS": DEV.account}}
    iam.create_role(RoleName=ADMIN, AssumeRolePolicyDocument=policy(people))
    iam.attach_role_policy(RoleName=ADMIN, PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")


@pytest.fixture
def builds(account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Builds]:
    """The environment's registry, buckets, cluster and namespace, and one system node."""
    monkeypatch.setattr(account, "binaries", binaries.ensure(paths.BINARIES, print).directory)
    monkeypatch.setattr(account, "clusters", ClusterHost(account))
    clients("ecr").create_repository(
        repositoryName="aws-ray-custom",
        imageTagMutability="IMMUTABLE_WITH_EXCLUSION",
        imageTagMutabilityExclusionFilters=[{"filterType": "WILDCARD", "filter": "cache*"}],
    )
    for bucket in ("bucket", BUCKET):
        clients("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": DEV.region})
    put_context(clients, "Dockerfile")
    eks = set_up(account, clients)
    try:
        issuer = eks.create(name=CLUSTER)["identity"]["oidc"]["issuer"]
        give_role(clients, issuer)
        principal = f"arn:aws:iam::{account.account_id}:role/{ADMIN}"
        eks.api.create_access_entry(clusterName=CLUSTER, principalArn=principal)
        eks.api.associate_access_policy(
            clusterName=CLUSTER, principalArn=principal, policyArn=ADMIN_POLICY, accessScope={"type": "cluster"}
        )
        own = {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
        account.clusters.get(CLUSTER).nodes.add("system-1", labels=own, capacity=SYSTEM_NODE, allocatable=SYSTEM_NODE)
        builds = Builds(account, clients, tmp_path)
        platform = platform_objects(DEV, PLATFORM_FACTS)
        for chart in (platform.image_build_namespace, platform.image_build_policies):
            assert chart
            builds.apply(chart)
        yield builds
    finally:
        route = f"{account.endpoint}/_rehearsal/image-build/fault"
        urllib3.request("POST", route, json={}, headers=account.keys.control_headers)
        clients("eks").delete_cluster(name=CLUSTER)


def test_build_ends_in_the_registry_and_its_failure_in_what_ops_wait_says(builds: Builds) -> None:
    builds.start(DEV)
    builds.wait_until("succeeded")
    waited = builds.ops_wait()
    tag = image_build(DEV, context="").tag
    assert f"✔ Ray image aws-ray-custom: the rehearsal's stand-in of {tag}" in waited.stdout, waited
    # All else is not there.
    assert waited.returncode == 1

    builds.let_fail("#12 ERROR: failed to solve: process did not complete successfully: exit code: 1")
    another = DEV.model_copy(update={"image": DEV.image.model_copy(update={"pip": ("einops==0.8.1",)})})
    builds.start(another)
    builds.wait_until("failed")
    waited = builds.ops_wait()
    assert waited.returncode == 3, waited
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
    assert dry.returncode == 0, dry
    assert [job["metadata"]["name"] for job in builds.jobs()] == [name]

    builds.let_succeed()
    done = builds.ops("image", "build", "-o", "json")
    assert done.returncode == 0, done
    result = json.loads(done.stdout)
    assert (result["job"], result["tag"], result["state"]) == (f"{name}-2", tag, "ready")
    assert f"✔ Ray image aws-ray-custom: the rehearsal's stand-in of {tag}" in builds.ops_wait().stdout
    assert _template(builds.jobs(), f"{name}-2") == _template(builds.jobs(), name)

    done = builds.ops("image", "build")
    assert (done.returncode, len(builds.jobs())) == (0, 2)
    assert "the registry has the image" in done.stdout

    builds.delete(name)
    wait_until(lambda: builds.jobs() == [], "the repeated build to go with the deployed one")


def _template(jobs: list[Object], name: str) -> Object:
    [found] = [job for job in jobs if job["metadata"]["name"] == name]
    spec: Object = found["spec"]["template"]["spec"]
    return spec
