"""Promises of the whole app: the order of stacks, names, prerequisites and refusals."""

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from config import allowed_names, available, naming
from config.facts import charts_lock
from ops.destroy.run import write_assembly
from ops.stacks import DeployedStack
from tests.support.waiting import PATIENCE_SECONDS
from tests.synth.support.synthesis import REPOSITORY, STACKS, Assemblies, Assembly, Resource, context

# Properties that give a resource a name which must be unique in an account or in the world.
NAMES = {
    "AWS::S3::Bucket": "BucketName",
    "AWS::ECR::Repository": "RepositoryName",
    "AWS::EKS::Cluster": "Name",
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::Events::Rule": "Name",
    "AWS::SSM::Parameter": "Name",
    "AWS::KMS::Alias": "AliasName",
}
# Actions without resource-level permissions in IAM (service authorization reference).
WITHOUT_RESOURCE = {
    "cloudwatch:PutMetricData",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVpcs",
    "ecr:GetAuthorizationToken",
    "fsx:DescribeFileSystems",
    "sagemaker:ListClusters",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
}


@pytest.mark.parametrize("name", ["dev", "closed", "slurm"])
def test_ops_destroys_stacks_as_the_synthesis_would(assembly: Assemblies, tmp_path: Path, name: str) -> None:
    """Its assembly has no template: what the CLI needs for a deletion must be the same, in the same order."""
    synthesised = assembly(name)
    environment = synthesised.environment
    going = [
        DeployedStack(part, naming.stack(environment, part), "id", "CREATE_COMPLETE", "", protected=False)
        for part in environment.stacks
    ]
    write_assembly(tmp_path, environment, going)
    made = json.loads((tmp_path / "manifest.json").read_text())["artifacts"]
    for stack in going:
        artifact, own = synthesised.manifest["artifacts"][stack.name], made[stack.name]
        assert own["environment"] == artifact["environment"]
        for role in ("assumeRoleArn", "cloudFormationExecutionRoleArn"):
            assert own["properties"][role] == artifact["properties"][role].replace("${AWS::Partition}", "aws")
        assert _all_needs(made, stack.name) >= _all_needs(synthesised.manifest["artifacts"], stack.name) & made.keys()


def _all_needs(artifacts: dict[str, Any], name: str) -> set[str]:
    needs = set(artifacts[name].get("dependencies", ()))
    return needs.union(*(_all_needs(artifacts, each) for each in needs if each in artifacts))


def test_stacks_are_deployed_in_the_order_of_their_needs(dev: Assembly) -> None:
    stacks = {part: naming.stack(dev.environment, part) for part in STACKS}
    needs = {
        part: {other for other in STACKS if stacks[other] in dev.manifest["artifacts"][stack]["dependencies"]}
        for part, stack in stacks.items()
    }
    assert needs == {
        "network": set(),
        "storage": {"network"},
        "eks": {"network"},
        "hyperpod": {"network", "storage", "eks"},
        "platform": {"eks"},
        "ray": {"storage", "eks", "hyperpod", "platform"},
    }


@pytest.mark.parametrize("name", available())
def test_synthesis_needs_no_account(assembly: Assemblies, name: str) -> None:
    assert "missing" not in assembly(name).manifest


def test_no_physical_name_is_in_two_environments(assembly: Assemblies) -> None:
    seen: dict[str, str] = {}
    for name in available():
        synthesised = assembly(name)
        names = {
            str(resource["Properties"][NAMES[resource["Type"]]])
            for template in synthesised.templates.values()
            for resource in template.body["Resources"].values()
            if NAMES.get(resource["Type"], "") in resource.get("Properties", {})
        }
        names |= {naming.stack(synthesised.environment, part) for part in STACKS}
        names.add(synthesised.environment.hyperpod.cluster_name)
        for physical in names:
            assert physical not in seen, f"{physical} is in {name} and in {seen[physical]}"
            seen[physical] = name


def test_only_a_protected_environments_network_and_storage_refuse_deletion(assembly: Assemblies) -> None:
    for name in available():
        synthesised = assembly(name)
        protected = {
            part
            for part in STACKS
            if synthesised.manifest["artifacts"][naming.stack(synthesised.environment, part)]["properties"].get(
                "terminationProtection"
            )
        }
        assert protected == ({"network", "storage"} if synthesised.environment.protect else set())


def test_a_producer_cannot_be_deleted_before_its_consumer(dev: Assembly) -> None:
    text = json.dumps({part: template.body for part, template in dev.templates.items()})
    assert "Fn::ImportValue" in text
    assert "Fn::GetStackOutput" not in text


@pytest.mark.parametrize("name", available())
def test_only_storage_may_keep_anything_when_stacks_are_deleted(assembly: Assemblies, name: str) -> None:
    for part, template in assembly(name).templates.items():
        kept = {
            resource["Type"]
            for resource in template.body["Resources"].values()
            if str(resource.get("DeletionPolicy", "Delete")) != "Delete"
        }
        assert part == "storage" or not kept


def test_every_function_has_a_declared_log_group_that_expires(dev: Assembly) -> None:
    functions = 0
    for template in dev.templates.values():
        for function in template.properties("AWS::Lambda::Function"):
            group = template.body["Resources"][function["LoggingConfig"]["LogGroup"]["Ref"]]
            assert group["Properties"]["RetentionInDays"] == 30
            functions += 1
    assert functions > 0


def _statements(synthesised: Assembly) -> Iterator[Resource]:
    for template in synthesised.templates.values():
        documents = [policy["PolicyDocument"] for policy in template.properties("AWS::IAM::Policy")]
        for role in template.properties("AWS::IAM::Role"):
            documents += [policy["PolicyDocument"] for policy in role.get("Policies", [])]
        for document in documents:
            yield from document["Statement"]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", available())
def test_wildcard_resources_are_allowed_only_for_actions_without_resource_level_permissions(
    assembly: Assemblies, name: str
) -> None:
    for statement in _statements(assembly(name)):
        assert statement["Effect"] in ("Allow", "Deny")
        assert "*" not in _as_list(statement["Action"])
        if statement["Effect"] == "Allow" and "*" in _as_list(statement["Resource"]):
            assert set(_as_list(statement["Action"])) <= WITHOUT_RESOURCE


def test_feature_flags_are_the_recommended_ones_but_for_those_with_a_reason() -> None:
    [package] = files("aws_cdk._jsii").joinpath(".").glob("aws-cdk-lib@*.jsii.tgz")  # type: ignore[attr-defined]
    with tarfile.open(package) as archive:
        member = archive.extractfile("package/recommended-feature-flags.json")
        assert member is not None
        recommended = json.loads(member.read())
    ours = context()
    assert set(ours) == set(recommended)
    differing = {flag for flag in recommended if ours[flag] != recommended[flag]}
    record = (REPOSITORY / "docs/adr/0010-feature-flags.md").read_text()
    assert differing == set(re.findall(r"^\| `(@aws-cdk[^`]+)`", record, re.MULTILINE))


def _run_app(environment: str | None, directory: Path) -> subprocess.CompletedProcess[str]:
    values = context() | ({"environment": environment} if environment else {})
    env = os.environ | {"CDK_CONTEXT_JSON": json.dumps(values), "CDK_OUTDIR": str(directory / "cdk.out")}
    env |= {charts_lock.CACHE_VARIABLE: str(directory / "charts"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(REPOSITORY / "app.py")]
    return subprocess.run(
        command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


@pytest.mark.parametrize(
    ("environment", "says"),
    [(None, "-c environment=NAME"), ("nowhere", f"there is no such file. Allowed: {allowed_names()}.")],
)
def test_a_wrong_environment_ends_in_one_line(environment: str | None, says: str, tmp_path: Path) -> None:
    result = _run_app(environment, tmp_path)
    assert result.returncode == 2
    [line] = [line for line in result.stderr.splitlines() if line]
    assert says in line


def test_missing_charts_are_named_with_the_command_that_fetches_them(tmp_path: Path) -> None:
    result = _run_app("dev", tmp_path)
    assert result.returncode == 2
    assert "ops charts fetch" in result.stderr
    assert "Traceback" not in result.stderr
