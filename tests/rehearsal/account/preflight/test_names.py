"""Checks of names, stacks and training plans: each failure is made, seen and mended."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from config import EksEnvironment, naming
from embedded_account.context import Account
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.services.eks.host import ClusterHost
from embedded_account.testing import eks_setup
from embedded_account.testing.clients import REGION, Clients
from embedded_account.testing.fake_cluster import FakePlane
from embedded_account.testing.stacks import StackDeployer
from ops.preflight.check import CheckStatus
from tests.rehearsal.account.preflight.conftest import Preflight, said

pytestmark = pytest.mark.product

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
TAKEN = "exists, and no stack of this environment owns it"
STACK = "rayhp-small-storage"
DELETE = f"aws cloudformation delete-stack --stack-name {STACK} --region us-west-2"
PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-march"


# -- names


def test_buckets_of_nobody_pass_of_others_fail_and_of_the_environment_pass(
    clients: Clients, stacks: StackDeployer, environment: EksEnvironment, preflight: Preflight
) -> None:
    data, lifecycle = naming.data_bucket(environment), naming.lifecycle_bucket(environment)
    assert {row.found for row in preflight("names of the buckets").values()} == {"is free"}
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": data}}
    assert stacks.deploy(STACK, {"Resources": {"Data": bucket}}) == "CREATE_COMPLETE"
    clients("s3").create_bucket(Bucket=lifecycle, CreateBucketConfiguration={"LocationConstraint": REGION})
    rows = preflight("names of the buckets")
    assert said(rows[data]) == (PASS, "is the environment's own", "")
    assert said(rows[lifecycle]) == (FAIL, TAKEN, f"keep what you need of it, then: aws s3 rb s3://{lifecycle}")


def test_a_bucket_that_a_stack_left_behind_fails(
    account: Account, stacks: StackDeployer, environment: EksEnvironment, preflight: Preflight
) -> None:
    data = naming.data_bucket(environment)
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": data}}
    stacks.deploy(STACK, {"Resources": {"Data": bucket}})
    stack: Any = account.stacks.find(STACK)
    stack.resources["Data"].status = "DELETE_SKIPPED"
    row = preflight("names of the buckets")[data]
    assert (row.verdict, row.found) == (FAIL, TAKEN)


def test_a_repository_of_others_fails(clients: Clients, preflight: Preflight) -> None:
    name = "aws-ray-custom-small"
    assert preflight("name of the repository")[name].verdict is PASS
    clients("ecr").create_repository(repositoryName=name)
    fix = f"set another image.repository, or: aws ecr delete-repository --repository-name {name}"
    assert said(preflight("name of the repository")[name]) == (FAIL, TAKEN, fix)


@pytest.fixture
def eks(account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Iterator[eks_setup.EksSetup]:
    monkeypatch.setattr(account, "clusters", ClusterHost(account, lambda *_: FakePlane()))
    yield eks_setup.set_up(account, clients)
    for name in clients("eks").list_clusters()["clusters"]:
        clients("eks").delete_cluster(name=name)


def test_an_eks_cluster_and_a_log_group_of_others_fail(eks: eks_setup.EksSetup, preflight: Preflight) -> None:
    group = "/aws/eks/rayhp-small/cluster"
    assert {row.verdict for row in preflight("names of the EKS cluster and its log group").values()} == {PASS}
    eks.create(name="rayhp-small")
    eks.clients("logs").create_log_group(logGroupName=group)
    rows = preflight("names of the EKS cluster and its log group")
    assert said(rows["rayhp-small"]) == (FAIL, TAKEN, "set another project or name of the environment")
    fix = f"aws logs delete-log-group --log-group-name {group} --region us-west-2"
    assert said(rows[group]) == (FAIL, TAKEN, fix)


def test_a_hyperpod_cluster_of_others_fails(clients: Clients, account: Account, preflight: Preflight) -> None:
    assert preflight("name of the HyperPod cluster")["ml-cluster-small"].verdict is PASS
    with HyperPodBench() as bench:
        bench.client("sagemaker").create_cluster(**bench.request(ClusterName="ml-cluster-small"))
        rows = preflight(
            "name of the HyperPod cluster",
            client=lambda name: bench.client(name) if name == "sagemaker" else clients(name),
        )
    fix = "set another hyperpod.cluster_name, or: aws sagemaker delete-cluster --cluster-name ml-cluster-small"
    assert said(rows["ml-cluster-small"]) == (FAIL, TAKEN, fix)


# -- stacks


@pytest.mark.parametrize(
    ("state", "verdict", "fix"),
    [
        ("ROLLBACK_COMPLETE", WARN, DELETE),
        ("DELETE_FAILED", FAIL, DELETE),
        ("ROLLBACK_FAILED", FAIL, DELETE),
        ("UPDATE_ROLLBACK_FAILED", FAIL, f"cdk rollback {STACK} -c environment=small"),
        ("CREATE_FAILED", FAIL, f"cdk rollback {STACK} -c environment=small"),
        ("UPDATE_IN_PROGRESS", FAIL, "wait for its end"),
    ],
)
def test_a_stack_that_stops_a_deployment_is_named_with_the_way_out(
    account: Account, stacks: StackDeployer, preflight: Preflight, *, state: str, verdict: CheckStatus, fix: str
) -> None:
    assert preflight("stack")[""].found == "none exists yet"
    stacks.deploy(STACK, {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
    assert preflight("stack")[""].found == f"CREATE_COMPLETE: {STACK}"
    stack = account.stacks.find(STACK)
    assert stack
    stack.status = state
    row = preflight("stack")[STACK]
    assert row.verdict is verdict
    assert row.found.startswith(state)
    assert row.fix.startswith(fix)


# -- training plans


def with_plan(environment: EksEnvironment, *, zone: str = "usw2-az2", count: int = 2) -> EksEnvironment:
    head, workers = environment.hyperpod.instance_groups
    changes = {"instance_type": "ml.p5.48xlarge", "training_plan": PLAN, "zone": zone, "count": count}
    groups = (head, workers.model_copy(update=changes))
    hyperpod = environment.hyperpod.model_copy(update={"instance_groups": groups})
    return environment.model_copy(update={"hyperpod": hyperpod})


def buy(clients: Clients, *, begins: timedelta = timedelta()) -> None:
    found = clients("sagemaker").search_training_plan_offerings(
        InstanceType="ml.p5.48xlarge", InstanceCount=2, DurationHours=24, StartTimeAfter=datetime.now(UTC) + begins
    )
    offer = found["TrainingPlanOfferings"][0]["TrainingPlanOfferingId"]
    clients("sagemaker").create_training_plan(TrainingPlanName="p5-march", TrainingPlanOfferingId=offer)


def test_an_environment_without_plans_has_no_row(preflight: Preflight) -> None:
    assert preflight("training plan") == {}


@pytest.mark.parametrize("begins", [timedelta(), timedelta(days=3)])
def test_a_plan_that_is_active_or_scheduled_with_enough_instances_passes(
    clients: Clients, environment: EksEnvironment, preflight: Preflight, begins: timedelta
) -> None:
    buy(clients, begins=begins)
    row = preflight("training plan", with_plan(environment))["p5-march"]
    assert (row.verdict, row.found) == (PASS, "has 2 instances for this environment")


@pytest.mark.parametrize(
    ("begins", "changes", "reason"),
    [
        (timedelta(days=-2), {}, "its status is Expired"),
        (
            timedelta(),
            {"zone": "usw2-az1"},
            "it has ml.p5.48xlarge in usw2-az2, and worker-group-1 needs ml.p5.48xlarge in usw2-az1",
        ),
        (timedelta(), {"count": 3}, "it has 2 instances, and 3 are needed"),
    ],
)
def test_a_plan_that_does_not_suffice_fails_with_what_can_be_bought(
    clients: Clients, environment: EksEnvironment, preflight: Preflight, *, begins: timedelta, changes: Any, reason: str
) -> None:
    buy(clients, begins=begins)
    row = preflight("training plan", with_plan(environment, **changes))["p5-march"]
    assert row.verdict is FAIL
    assert row.found.startswith(f"{reason}; offers: tpo-")


def test_a_plan_that_does_not_exist_fails_and_the_offer_can_be_bought(
    clients: Clients, environment: EksEnvironment, preflight: Preflight
) -> None:
    row = preflight("training plan", with_plan(environment))["p5-march"]
    assert row.verdict is FAIL
    assert row.found.startswith("there is no such plan in this account and region; offers: tpo-")
    # 24 hours of two instances, at the embedded account's price.
    assert "24 h from" in row.found
    assert "for 1440 USD" in row.found
    command, _, offer = row.fix.partition(" --training-plan-offering-id ")
    assert command == "aws sagemaker create-training-plan --training-plan-name NAME"
    clients("sagemaker").create_training_plan(TrainingPlanName="p5-march", TrainingPlanOfferingId=offer.split()[0])
    assert preflight("training plan", with_plan(environment))["p5-march"].verdict is PASS
