"""The stand-in of the image build: it needs all that the build needs, and says that it makes no image."""

import io
import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aws_cdk as cdk
import pytest
import urllib3
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3 as s3
from botocore.exceptions import ClientError

from config import load
from config.naming import STAND_IN_IMAGE
from embedded_account.context import Account
from embedded_account.kubernetes.api import Object
from embedded_account.services.iam import pod_role
from embedded_account.testing.clients import Clients
from embedded_account.testing.fake_cluster import FakeApi
from k8s_charts.ray_objects import image_build, ray_objects
from rehearsal.extensions.image_builder import ImageBuilder
from stacks.ray.roles import image_builder_role
from stacks.shared.irsa import IrsaRole
from tests.charts.support.facts import RAY_FACTS
from tests.support import stack_roles

pytestmark = pytest.mark.product

DEV = load("dev")
BUILD = image_build(DEV, context="s3://bucket/context.zip")
REPOSITORY = "arn:aws:ecr:us-west-2:111122223333:repository/aws-ray-custom"
POD = "/api/v1/namespaces/image-build/pods/build"
BUCKET, LOG_KEY = BUILD.log.removeprefix("s3://").split("/", 1)
TRUST = {"Principal": {"Service": "pods.eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
READ = {"Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/context.zip"}
REPORT = {"Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{BUCKET}/{LOG_KEY}"}
LOG_IN = {"Action": "ecr:GetAuthorizationToken", "Resource": "*"}
LOOK = {"Action": "ecr:DescribeImages", "Resource": REPOSITORY}
PUSH_ACTIONS = (
    "BatchCheckLayerAvailability",
    "BatchGetImage",
    "GetDownloadUrlForLayer",
    "InitiateLayerUpload",
    "UploadLayerPart",
    "CompleteLayerUpload",
    "PutImage",
)
PUSH = {"Action": [f"ecr:{action}" for action in PUSH_ACTIONS], "Resource": REPOSITORY}
ALL = (READ, REPORT, LOG_IN, LOOK, PUSH)


class Cluster(FakeApi):
    """A cluster with the builder's service account and a pod of the project's own build Job on a node."""

    def __init__(self, role_arn: str) -> None:
        super().__init__()
        annotations = {"eks.amazonaws.com/role-arn": role_arn}
        account = {"kind": "ServiceAccount", "metadata": {"name": "image-builder", "annotations": annotations}}
        self.create("/api/v1/namespaces/image-build/serviceaccounts", account)
        self.add_pod()

    def add_pod(self) -> None:
        chart = ray_objects(DEV, RAY_FACTS).image_build
        assert chart is not None
        [job] = chart.to_json()
        pod = {"kind": "Pod", "metadata": {"name": "build"}, **job["spec"]["template"], "status": {"phase": "Pending"}}
        self.create("/api/v1/namespaces/image-build/pods", pod | {"metadata": {"name": "build"}})

    def create(self, path: str, body: Object) -> Object:
        return {"status": {"token": "token"}} if path.endswith("/token") else super().create(path, body)

    def phase(self) -> str:
        """Phase of the pod as it was reported."""
        return str(self.objects.get(f"{POD}/status", self.objects[POD])["status"]["phase"])


def policy(*statements: Object) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **each} for each in statements]})


@pytest.fixture
def services(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Clients:
    """The environment's repository and bucket, and a build context in S3."""
    monkeypatch.setattr(pod_role, "check_web_identity", lambda *_: "system:serviceaccount:image-build:image-builder")
    exclusions = [{"filterType": "WILDCARD", "filter": "cache*"}]
    clients("ecr").create_repository(
        repositoryName="aws-ray-custom",
        imageTagMutability="IMMUTABLE_WITH_EXCLUSION",
        imageTagMutabilityExclusionFilters=exclusions,
    )
    for bucket in ("bucket", BUCKET):
        clients("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    put_context(clients, "Dockerfile")
    return clients


def put_context(clients: Clients, *names: str) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    clients("s3").put_object(Bucket="bucket", Key="context.zip", Body=content.getvalue())


def cluster_with(services: Clients, *statements: Object) -> Cluster:
    iam = services("iam")
    role = iam.create_role(RoleName="builder", AssumeRolePolicyDocument=policy(TRUST))["Role"]["Arn"]
    iam.put_role_policy(RoleName="builder", PolicyName="access", PolicyDocument=policy(*statements))
    return Cluster(role)


def step(account: Account, cluster: Any) -> None:
    ImageBuilder(account).step(cluster)


def builder_role(stack: cdk.Stack, cluster: eks.ICluster) -> IrsaRole:
    context: Any = SimpleNamespace(
        bucket=s3.Bucket.from_bucket_name(stack, "Context", "bucket"), s3_object_key="context.zip"
    )
    repository = ecr.Repository.from_repository_name(stack, "Repository", REPOSITORY.rpartition("/")[2])
    return image_builder_role(stack, cluster, repository, context, log=BUILD.log)


def tags(services: Clients) -> dict[str, str]:
    """Media type of each tag in the repository."""
    found = services("ecr").describe_images(repositoryName="aws-ray-custom")["imageDetails"]
    return {tag: image["imageManifestMediaType"] for image in found for tag in image["imageTags"]}


def log_of(services: Clients) -> str:
    return str(services("s3").get_object(Bucket=BUCKET, Key=LOG_KEY)["Body"].read().decode())


def test_build_puts_a_labelled_tag_and_its_cache_into_the_registry(account: Account, services: Clients) -> None:
    cluster = cluster_with(services, *ALL)
    step(account, cluster)
    assert cluster.phase() == "Succeeded"
    assert tags(services) == {BUILD.tag: STAND_IN_IMAGE, "cache": STAND_IN_IMAGE}


def test_second_build_of_a_tag_finds_it(account: Account, services: Clients) -> None:
    cluster = cluster_with(services, *ALL)
    step(account, cluster)
    cluster.objects.clear()
    again = Cluster("arn:aws:iam::111122223333:role/builder")
    step(account, again)
    assert again.phase() == "Succeeded"
    assert "found the tag" in account.journal.entries()[-1]["action"]


@pytest.mark.parametrize("missing", [READ, LOG_IN, LOOK, PUSH], ids=lambda missing: str(missing["Action"]))
def test_build_fails_without_a_right_that_it_needs_and_reports_it(
    account: Account, services: Clients, missing: Object
) -> None:
    cluster = cluster_with(services, *(statement for statement in ALL if statement is not missing))
    step(account, cluster)
    assert cluster.phase() == "Failed"
    assert tags(services) == {}
    assert "is not authorized to perform" in log_of(services)
    assert log_of(services).startswith("[rehearsal: a stand-in")


def test_the_stacks_own_role_builds_and_reports_a_failure(account: Account, services: Clients, tmp_path: Path) -> None:
    role = stack_roles.deploy(services, tmp_path, builder_role)
    put_context(services, "other")
    failing = Cluster(role)
    step(account, failing)
    assert failing.phase() == "Failed"
    assert "has no Dockerfile" in log_of(services)
    put_context(services, "Dockerfile")
    built = Cluster(role)
    step(account, built)
    assert built.phase() == "Succeeded"
    assert BUILD.tag in tags(services)


def test_build_that_may_not_report_leaves_no_log(account: Account, services: Clients) -> None:
    cluster = cluster_with(services, LOOK)
    step(account, cluster)
    assert cluster.phase() == "Failed"
    with pytest.raises(ClientError, match="NoSuchKey"):
        log_of(services)


def test_log_in_an_encrypted_bucket_needs_a_right_on_its_key(account: Account, services: Clients) -> None:
    key = services("kms").create_key()["KeyMetadata"]["Arn"]
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    services("s3").put_bucket_encryption(Bucket=BUCKET, ServerSideEncryptionConfiguration={"Rules": [rule]})
    services("s3").delete_object(Bucket="bucket", Key="context.zip")
    cluster = cluster_with(services, *ALL)
    step(account, cluster)
    with pytest.raises(ClientError, match="NoSuchKey"):
        log_of(services)
    through = {"StringEquals": {"kms:ViaService": "s3.us-west-2.amazonaws.com"}}
    right = {"Action": "kms:GenerateDataKey", "Resource": key, "Condition": through}
    services("iam").put_role_policy(RoleName="builder", PolicyName="key", PolicyDocument=policy(right))
    cluster = Cluster("arn:aws:iam::111122223333:role/builder")
    step(account, cluster)
    assert log_of(services)


def test_build_without_a_role_fails(account: Account, services: Clients) -> None:
    cluster = cluster_with(services, *ALL)
    del cluster.objects["/api/v1/namespaces/image-build/serviceaccounts/image-builder"]["metadata"]["annotations"]
    step(account, cluster)
    assert cluster.phase() == "Failed"


def test_build_fails_without_its_context_or_a_dockerfile_in_it(account: Account, services: Clients) -> None:
    put_context(services, "other")
    cluster = cluster_with(services, *ALL)
    step(account, cluster)
    assert cluster.phase() == "Failed"
    assert "has no Dockerfile" in log_of(services)
    services("s3").delete_object(Bucket="bucket", Key="context.zip")
    cluster.objects.pop(f"{POD}/status")
    step(account, cluster)
    assert "NoSuchKey" in log_of(services)


def test_pod_that_is_deleted_goes(account: Account, services: Clients) -> None:
    """No node ends it: the pod is the stand-in's alone."""
    cluster = cluster_with(services, *ALL)
    cluster.objects[POD]["metadata"]["deletionTimestamp"] = "2026-11-01T10:00:00Z"
    step(account, cluster)
    assert POD not in cluster.objects
    assert tags(services) == {}


@pytest.mark.usefixtures("builds_are_played")
def test_fault_of_another_form_is_refused_and_one_without_the_secret(account: Account) -> None:
    route = f"{account.endpoint}/_rehearsal/image-build/fault"
    assert urllib3.request("POST", route, json={}).status == 401
    bodies: tuple[object, ...] = ({}, {"logs": "x"}, {"log": 1}, [])
    answers = [urllib3.request("POST", route, json=body, headers=account.keys.control_headers) for body in bodies]
    assert [answer.status for answer in answers] == [200, 400, 400, 400]
