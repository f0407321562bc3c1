"""Promises of the hyperpod stack about groups that sleep: the handler's property, and the function of their counts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from config import naming
from config.facts.hyperpod_permissions import GROUP_COUNTS_CALLS, actions_of
from embedded_account.hyperpod.bench import HyperPodBench
from handlers.group_counts import index
from tests.handlers.support.clients import NO_RETRIES
from tests.synth.support import variants
from tests.synth.support.hyperpod_template import CLUSTER, policy_of
from tests.synth.support.synthesis import Assemblies, Assembly, Template, synthesise

GPU = "worker-group-1"
PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/plan-1"
IMAGE, OTHER_IMAGE = "ami-0123456789abcdef0", "ami-0123456789abcdef1"
KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
NEEDED = [action for actions in actions_of(GROUP_COUNTS_CALLS).values() for action in actions]
FUNCTION = "AWS::Lambda::Function"


@pytest.fixture(scope="module")
def sleeping(assembly: Assemblies) -> Assembly:
    return assembly(variants.SLEEPING)


@pytest.fixture(scope="module")
def with_more(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Return an environment with a training plan of another group, custom images and a company's key."""
    own = variants.sleeping()
    head, workers = own.hyperpod.instance_groups
    head = head.model_copy(update={"training_plan": PLAN, "image_id": IMAGE})
    workers = workers.model_copy(update={"image_id": OTHER_IMAGE})
    more = {
        "hyperpod": own.hyperpod.model_copy(update={"instance_groups": (head, workers)}),
        "company": own.company.model_copy(update={"kms_key": KEY}),
    }
    return synthesise(own.model_copy(update=more), tmp_path_factory.mktemp("more"), validated=True)


def functions(template: Template) -> list[dict[str, Any]]:
    return [each for each in template.properties(FUNCTION) if each["Handler"] == "group_counts.index.handle"]


def statements(assembly: Assembly) -> list[dict[str, Any]]:
    template = assembly.templates["hyperpod"]
    [function] = functions(template)
    return policy_of(template, function["Role"]["Fn::GetAtt"][0])


def granted(assembly: Assembly) -> set[str]:
    """Return all actions of the function's policy."""
    lists = [statement["Action"] for statement in statements(assembly)]
    return {action for each in lists for action in ([each] if isinstance(each, str) else each)}


def test_function_and_property_exist_only_if_a_group_sleeps(dev: Assembly, sleeping: Assembly) -> None:
    without, template = dev.templates["hyperpod"], sleeping.templates["hyperpod"]
    assert functions(without) == []
    assert "SleepingGroups" not in without.only(CLUSTER)
    assert template.only(CLUSTER)["SleepingGroups"] == {GPU: 1}
    counts = {group["InstanceGroupName"]: group["InstanceCount"] for group in template.only(CLUSTER)["InstanceGroups"]}
    assert counts[GPU] == 4


def test_function_knows_the_cluster_and_the_ranges_and_has_a_name_that_needs_no_export(sleeping: Assembly) -> None:
    [function] = functions(sleeping.templates["hyperpod"])
    assert function["FunctionName"] == naming.group_counts(sleeping.of_eks) == "rayhp-dev-group-counts"
    variables = function["Environment"]["Variables"]
    assert variables.keys() == {"CLUSTER_NAME", "RANGES"}
    assert variables["CLUSTER_NAME"] == "ml-cluster"
    assert json.loads(variables["RANGES"]) == {GPU: [1, 4]}
    exports = [output["Export"]["Name"] for output in sleeping.templates["hyperpod"].body.get("Outputs", {}).values()]
    assert not [name for name in exports if "GroupCounts" in name]


def test_function_is_updated_before_the_cluster(sleeping: Assembly) -> None:
    template = sleeping.templates["hyperpod"]
    [function] = [id for id, each in template.all(FUNCTION).items() if each["Properties"] in functions(template)]
    [cluster] = template.all(CLUSTER).values()
    assert function in cluster["DependsOn"]


def test_nothing_else_differs_in_the_hyperpod_stack(dev: Assembly, sleeping: Assembly) -> None:
    without, resources = dev.templates["hyperpod"].body["Resources"], sleeping.templates["hyperpod"].body["Resources"]
    assert without.keys() <= resources.keys()
    new = {resources[id]["Type"] for id in resources.keys() - without.keys()}
    assert new == {FUNCTION, "AWS::IAM::Role", "AWS::IAM::Policy", "AWS::Logs::LogGroup"}
    changed = {without[id]["Type"] for id in without if without[id] != resources[id]}
    assert changed == {CLUSTER}


def test_role_may_do_what_its_calls_need_and_nothing_else(sleeping: Assembly) -> None:
    assert granted(sleeping) == {
        "sagemaker:DescribeCluster",
        "sagemaker:ListClusterNodes",
        "sagemaker:ListTags",
        "sagemaker:UpdateCluster",
        "iam:PassRole",
        "eks:DescribeCluster",
        "eks:CreateAccessEntry",
        "eks:DescribeAccessEntry",
        "eks:DeleteAccessEntry",
        "eks:AssociateAccessPolicy",
    }
    template = sleeping.templates["hyperpod"]
    [function] = functions(template)
    role = template.body["Resources"][function["Role"]["Fn::GetAtt"][0]]["Properties"]
    assert [each["Fn::Join"][1][-1] for each in role["ManagedPolicyArns"]] == [
        ":iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
    ]


def test_role_may_use_plans_images_and_a_key_that_updatecluster_needs(with_more: Assembly, sleeping: Assembly) -> None:
    """UpdateCluster takes all groups, also those that do not sleep."""
    assert granted(with_more) - granted(sleeping) == {
        "sagemaker:DescribeTrainingPlan",
        "ec2:DescribeImages",
        "ec2:DescribeSnapshots",
        "ec2:ModifyImageAttribute",
        "ec2:ModifySnapshotAttribute",
        "kms:CreateGrant",
        "kms:DescribeKey",
    }
    [function] = functions(with_more.templates["hyperpod"])
    assert json.loads(function["Environment"]["Variables"]["IMAGES"]) == {"head-group": IMAGE, GPU: OTHER_IMAGE}


@pytest.fixture
def bench() -> Iterator[HyperPodBench]:
    with HyperPodBench() as bench:
        tags = [{"Key": index.SLEEPING_TAG, "Value": index._fingerprint({GPU: [0, 4]})}]
        bench.client("sagemaker").create_cluster(**bench.request(Tags=tags))
        bench.advance(120)
        yield bench


def resolved(value: Any, bench: HyperPodBench) -> Any:
    """Return a part of the policy with the bench's resources."""
    match value:
        case {"Fn::GetAtt": [_, "Arn"]}:
            return bench.execution_role
        case {"Fn::ImportValue": name}:
            return bench.eks.clusters["eks"].arn if "Arn" in name else "eks"
        case {"Fn::Join": [separator, parts]}:
            return separator.join(resolved(part, bench) for part in parts)
        case dict():
            return {key: resolved(item, bench) for key, item in value.items()}
        case list():
            return [resolved(item, bench) for item in value]
    return value


def lower(bench: HyperPodBench, sleeping: Assembly, monkeypatch: pytest.MonkeyPatch, without: str = "") -> Any:
    """Invoke the function with the deployed policy, but for one action."""
    document: Any = {"Version": "2012-10-17", "Statement": resolved(statements(sleeping), bench)}
    for statement in document["Statement"]:
        given = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        # A policy must not be empty: keep an action that nothing uses.
        statement["Action"] = [action for action in given if action != without] or ["none:None"]
    role = bench.role("group-counts", document)
    monkeypatch.setattr(index, "_client", lambda: bench.client("sagemaker", role_arn=role, config=NO_RETRIES))
    monkeypatch.setenv("CLUSTER_NAME", "ml-cluster")
    monkeypatch.setenv("RANGES", json.dumps({GPU: [0, 4]}))
    return index.handle({"counts": {GPU: 0}}, None)


def test_role_suffices_for_the_function(
    bench: HyperPodBench, sleeping: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lower(bench, sleeping, monkeypatch)["groups"][GPU]["target"] == 0


@pytest.mark.parametrize("action", NEEDED)
def test_function_needs_each_of_its_rights(
    bench: HyperPodBench, sleeping: Assembly, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    with pytest.raises(ClientError, match=action):
        lower(bench, sleeping, monkeypatch, action)
