"""Checks of the account itself, each with what it is there for: the failure is made, seen and mended."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

import config
from config import EksEnvironment, naming
from config.key_policy import key_policy
from config.model import Company
from embedded_account.context import Account
from embedded_account.hyperpod import simulator_of
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.services import service_quotas
from embedded_account.testing.clients import REGION, Clients
from embedded_account.testing.functions import make_role
from embedded_account.testing.stacks import StackDeployer
from ops.preflight.check import CheckResult, CheckStatus
from tests.rehearsal.account.preflight.conftest import Preflight, said

pytestmark = pytest.mark.product

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
INCREASE = "aws service-quotas request-service-quota-increase --service-code"


def replaced(environment: EksEnvironment, part: str, **changes: Any) -> EksEnvironment:
    """Return the environment with changed keys of one of its parts."""
    changed = getattr(environment, part).model_copy(update=changes)
    return environment.model_copy(update={part: changed})


def test_credentials_name_the_caller(preflight: Preflight) -> None:
    [row] = preflight("credentials").values()
    assert row.verdict is PASS
    assert row.found.endswith("of account 111122223333")


def test_a_region_that_is_not_enabled_fails(preflight: Preflight, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(preflight("region")[""]) == (PASS, "us-west-2 is enabled", "")
    [region] = [each for each in RegionsAndZonesBackend.regions if each.name == REGION]
    monkeypatch.setattr(region, "opt_in_status", "not-opted-in")
    assert said(preflight("region")[""]) == (
        FAIL,
        "us-west-2 is not-opted-in",
        "aws account enable-region --region-name us-west-2",
    )


def test_an_endpoint_without_an_answer_is_named(clients: Clients, aws_session: Any, preflight: Preflight) -> None:
    assert said(preflight("endpoint")[""])[0] is PASS
    once = Config(retries={"total_max_attempts": 1})

    def without_ecr(service: str) -> Any:
        if service != "ecr":
            return clients(service)
        return aws_session.client("ecr", endpoint_url="http://127.0.0.1:1", config=once)

    [(url, row)] = preflight("endpoint", client=without_ecr).items()
    assert (url, row.verdict) == ("http://127.0.0.1:1", FAIL)
    assert "Could not connect" in row.found


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("", (FAIL, "the account is not bootstrapped in us-west-2", "cdk bootstrap aws://111122223333/us-west-2")),
        ("5", (FAIL, "version 5; the templates require 6", "cdk bootstrap aws://111122223333/us-west-2")),
        ("28", (PASS, "version 28", "")),
    ],
)
def test_the_bootstrap_has_the_version_of_the_templates(
    clients: Clients, preflight: Preflight, version: str, found: tuple[CheckStatus, str, str]
) -> None:
    if version:
        clients("ssm").put_parameter(Name=naming.bootstrap_version(config.load("small")), Value=version, Type="String")
    assert said(preflight("CDK bootstrap")[""]) == found


def test_the_bootstrap_is_the_one_with_the_company_s_qualifier(clients: Clients, preflight: Preflight) -> None:
    company = Company(bootstrap_qualifier="mlplatform")
    environment = config.load("small").model_copy(update={"company": company})
    clients("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="28", Type="String")
    [missing] = preflight("CDK bootstrap", environment).values()
    assert missing.fix.endswith("--qualifier mlplatform --toolkit-stack-name CDKToolkit-mlplatform")
    clients("ssm").put_parameter(Name="/cdk-bootstrap/mlplatform/version", Value="28", Type="String")
    [found] = preflight("CDK bootstrap", environment).values()
    assert found.verdict is PASS


def test_the_companys_key_must_be_enabled_symmetric_and_open_to_those_its_policy_must_name(
    clients: Clients, preflight: Preflight
) -> None:
    kms, small = clients("kms"), config.load("small")

    def row(arn: str) -> CheckResult:
        return preflight("KMS key", small.model_copy(update={"company": Company(kms_key=arn)}))[arn]

    assert preflight("KMS key") == {}
    document = json.dumps(key_policy(small))
    clients("iam").create_service_linked_role(AWSServiceName="autoscaling.amazonaws.com")
    key = kms.create_key(Policy=document)["KeyMetadata"]["Arn"]
    id = key.rpartition("/")[2]
    assert said(row(key)) == (PASS, "enabled, and its policy names who needs it", "")
    kms.put_key_policy(KeyId=id, PolicyName="default", Policy=document.replace("logs.us-west-2", "logs.eu-west-1"))
    assert (row(key).verdict, row(key).found) == (FAIL, "its policy does not name logs.us-west-2.amazonaws.com")
    without_owner = json.dumps({**key_policy(small), "Statement": key_policy(small)["Statement"][1:]})
    kms.put_key_policy(KeyId=id, PolicyName="default", Policy=without_owner, BypassPolicyLockoutSafetyCheck=True)
    assert (row(key).verdict, row(key).found) == (FAIL, "its policy does not name arn:aws:iam::111122223333:root")
    kms.disable_key(KeyId=id)
    assert said(row(key)) == (FAIL, "it is Disabled", f"aws kms enable-key --key-id {key}")
    kms.schedule_key_deletion(KeyId=id)
    assert (row(key).verdict, row(key).found) == (FAIL, "it is PendingDeletion")
    assert row(key).fix == f"aws kms cancel-key-deletion --key-id {key}, then aws kms enable-key --key-id {key}"
    signing = kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec="RSA_2048")["KeyMetadata"]["Arn"]
    assert (row(signing).verdict, row(signing).found) == (FAIL, "it is a key of kind RSA_2048")
    unknown = f"{key[:-36]}1234abcd-12ab-34cd-56ef-1234567890ab"
    assert (row(unknown).verdict, row(unknown).found) == (FAIL, "there is no such key in this region")


def test_each_missing_service_linked_role_is_named_until_its_command_was_run(
    clients: Clients, preflight: Preflight
) -> None:
    missing = preflight("service-linked role")
    assert set(missing) == {
        f"{service}.amazonaws.com" for service in ("hyperpod.sagemaker", "eks-nodegroup", "autoscaling", "eks", "fsx")
    }
    for service, row in missing.items():
        assert row.verdict is WARN
        assert row.fix == f"aws iam create-service-linked-role --aws-service-name {service}"
        clients("iam").create_service_linked_role(AWSServiceName=service)
    assert {row.verdict for row in preflight("service-linked role").values()} == {PASS}


def test_zones_must_be_open_to_the_account(environment: EksEnvironment, preflight: Preflight) -> None:
    assert said(preflight("zone")[""]) == (PASS, "usw2-az2, usw2-az1 are available", "")
    elsewhere = replaced(environment, "network", zones=("usw2-az2", "usw2-az9"))
    assert said(preflight("zone", elsewhere)["usw2-az9"]) == (
        FAIL,
        "not open to this account",
        "choose other network.zones: usw2-az1, usw2-az2, usw2-az3, usw2-az4",
    )


def test_an_instance_type_that_ec2_lacks_in_the_zone_warns_and_names_the_others(
    environment: EksEnvironment, preflight: Preflight
) -> None:
    assert {row.verdict for row in preflight("instance type").values()} == {PASS}
    group = environment.hyperpod.instance_groups[1].model_copy(update={"instance_type": "ml.p5e.48xlarge"})
    changed = replaced(environment, "hyperpod", instance_groups=(environment.hyperpod.instance_groups[0], group))
    verdict, found, fix = said(preflight("instance type", changed)["ml.p5e.48xlarge"])
    assert verdict is WARN
    assert found.endswith("(HyperPod: an indication); EC2 offers it in usw2-az3")
    assert "account team" in fix


def test_a_type_of_system_nodes_that_no_zone_has_fails(environment: EksEnvironment, preflight: Preflight) -> None:
    system = environment.eks.system_nodes
    for name, verdict, text in (
        ("p5e.48xlarge", FAIL, "not offered in usw2-az2, usw2-az1"),
        ("m5.xlarge", PASS, "EC2 offers it in usw2-az2, usw2-az1"),
    ):
        nodes = system.model_copy(update={"instance_type": name})
        row = preflight("instance type", replaced(environment, "eks", system_nodes=nodes))[name]
        assert (row.verdict, row.found) == (verdict, text)


HYPERPOD = "SageMaker HyperPod cluster"


@pytest.mark.parametrize(
    ("quota", "name", "value", "needed"),
    [
        ("sagemaker L-2CE978FC", f"Maximum number instances allowed per {HYPERPOD}", 2, 3),
        ("sagemaker L-3308CCC7", f"Total number of instances allowed across {HYPERPOD}s", 0, 3),
        ("sagemaker L-E13DF72A", f"Maximum size of EBS volume in GB for a {HYPERPOD} instance", 1, 200),
        ("vpc L-F678F1CE", "VPCs per Region", 0, 1),
        ("vpc L-A4707A72", "Internet gateways per Region", 0, 1),
        ("vpc L-FE5A380F", "NAT gateways per Availability Zone", 0, 1),
        ("ec2 L-0263D0A3", "EC2-VPC Elastic IPs", 0, 1),
        ("ec2 L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 5, 8),
        ("eks L-1194D53C", "Clusters", 0, 1),
        ("fsx L-FD6F2F22", "Lustre Persistent_2 file systems", 0, 1),
        ("fsx L-8F1B9C74", "Lustre Persistent_2 storage capacity", 1199, 1200),
    ],
)
def test_each_quota_that_is_too_low_fails_with_the_request_to_raise_it(
    account: Account, preflight: Preflight, *, quota: str, name: str, value: int, needed: int
) -> None:
    service, code = quota.split()
    service_quotas.apply(account, service, code, value)
    rows = preflight("quota")
    assert said(rows[f"{service}: {name}"]) == (
        FAIL,
        f"{value:,} allowed, {needed:,} needed",
        f"{INCREASE} {service} --quota-code {code} --desired-value {needed} --region us-west-2",
    )
    assert [row.check for row in rows.values() if row.verdict is not PASS] == [f"quota: {service}: {name}"]


def test_the_estimate_of_network_interfaces_only_warns(account: Account, preflight: Preflight) -> None:
    service_quotas.apply(account, "vpc", "L-DF5E4CA3", 2)
    row = preflight("quota")["vpc: Network interfaces per Region"]
    assert (row.verdict, row.found) == (WARN, "2 allowed, 3 needed (estimate)")


def test_a_quota_that_neither_the_account_nor_aws_lists_warns(
    environment: EksEnvironment, preflight: Preflight, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codes of SageMaker's quotas are found by their names: among the account's, then among AWS's defaults."""
    monkeypatch.setattr(service_quotas, "_instance_types", dict)
    row = preflight("quota")[f"sagemaker: {environment.hyperpod.instance_groups[0].instance_type} for cluster usage"]
    assert (row.verdict, row.found) == (WARN, "us-west-2 has no quota of this name")


def test_a_quota_that_the_region_does_not_have_warns(preflight: Preflight, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(service_quotas._DEFAULTS["fsx"], "L-8F1B9C74")
    row = preflight("quota")["fsx: Lustre Persistent_2 storage capacity"]
    assert (row.verdict, row.found) == (WARN, "us-west-2 has no quota of this name")


@pytest.fixture
def other_cluster(account: Account) -> Iterator[HyperPodBench]:
    """A HyperPod cluster of somebody else: one ml.m5.2xlarge, two ml.p5.48xlarge."""
    with HyperPodBench() as bench:
        bench.client("sagemaker").create_cluster(**bench.request())
        yield bench


def test_what_other_clusters_run_counts_against_the_quota_of_the_type(
    account: Account, clients: Clients, other_cluster: HyperPodBench, environment: EksEnvironment, preflight: Preflight
) -> None:
    def client(service: str) -> Any:
        return other_cluster.client(service) if service == "sagemaker" else clients(service)

    limits = simulator_of(account).world.faults.quota
    limits |= {"ml.m5.2xlarge": 1, "ml.g5.4xlarge": 2}
    try:
        rows = preflight("quota", client=client)
    finally:
        limits.clear()
    row = rows["sagemaker: ml.m5.2xlarge for cluster usage"]
    assert (row.verdict, row.found) == (FAIL, "1 allowed, 2 needed: 1 for this environment, 1 in use")
    assert row.fix.startswith(f"{INCREASE} sagemaker --quota-code L-")
    assert rows["sagemaker: ml.g5.4xlarge for cluster usage"].verdict is PASS
    total = rows["sagemaker: Total number of instances allowed across SageMaker HyperPod clusters"]
    assert total.found.endswith("6 needed: 3 for this environment, 3 in use")
    # The same cluster, as the environment's own, counts once.
    own = replaced(environment, "hyperpod", cluster_name="ml-cluster")
    assert "in use" not in preflight("quota", own, client=client)[total.check.removeprefix("quota: ")].found


def test_what_the_environments_own_stacks_have_counts_once(
    clients: Clients, stacks: StackDeployer, preflight: Preflight
) -> None:
    vpc = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.208.0.0/16"}}
    assert stacks.deploy("rayhp-small-network", {"Resources": {"Vpc": vpc}}) == "CREATE_COMPLETE"
    assert preflight("quota")["vpc: VPCs per Region"].found == "5 allowed, 1 needed"
    clients("ec2").create_vpc(CidrBlock="10.0.0.0/16")
    assert preflight("quota")["vpc: VPCs per Region"].found == ("5 allowed, 2 needed: 1 for this environment, 1 in use")


def test_a_check_without_the_right_to_look_warns_and_names_the_right(account: Account, preflight: Preflight) -> None:
    role = make_role(account, "reader", "ec2.amazonaws.com").attributes()["Arn"]
    anyone: Any = boto3.client(
        "sts",
        endpoint_url=account.endpoint,
        region_name=REGION,
        aws_access_key_id=account.keys.access_key_id,
        aws_secret_access_key=account.keys.secret_access_key,
    )
    keys = anyone.assume_role(RoleArn=role, RoleSessionName="reader")["Credentials"]
    session: Any = boto3.Session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], region_name=REGION)
    rows = preflight(
        "name of the HyperPod cluster", client=lambda name: session.client(name, endpoint_url=account.endpoint)
    )
    assert said(rows[""]) == (
        WARN,
        "no permission to read (sagemaker:DescribeCluster)",
        "let your role call sagemaker:DescribeCluster, and run the command again",
    )
