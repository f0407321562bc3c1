"""A policy of one environment allows nothing on the named resources of another: `dev` is not `dev-2`."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any, Final

from hypothesis import assume, example, given
from hypothesis import strategies as st

import config
from config import EksEnvironment, naming
from config.rules.across_environments import findings_beside, own_names
from embedded_account.cloudformation.templates.physical_names import physical_name
from embedded_account.services.iam.policies import PolicyDecision, evaluate
from ops.policy.role import PersonRole
from ops.policy.roles import statements
from rehearsal.paths import REPOSITORY

CHOSEN_BY_AWS: Final = {
    *("aps:workspace/*", "cloudformation:*", "ec2:network-interface/*", "ec2:prefix-list/*", "ec2:security-group/*"),
    *("ec2:snapshot/*", "ec2:volume/*", "ec2:vpc-endpoint/*", "ec2:vpc/*", "ecr:repository/*", "fsx:association/*"),
    *("fsx:file-system/*", "fsx:task/*", "grafana:/workspaces/*", "kms:key/*", "lambda:layer:*"),
    *(
        "sagemaker:cluster/*",
        "sagemaker:reserved-capacity/*",
        "ssm:parameter/CFN-ClusterKubectlReadyBarrier*",
        "states:stateMachine:*",
    ),
}
"""Resources whose names AWS chooses. `ecr:repository/*` is for `ops sweep` and `ops mirror`."""
SHARED: Final = ("cdk-hnb659fds", "CDKToolkit", "aws-service-role", "oidc.eks", "ray-on-hyperpod/", "cdk-bootstrap")
"""Parts of names that all environments of account and region share."""
TYPES: Final = {
    "AWS::Budgets::Budget": "arn:aws:budgets::{account}:budget/{name}",
    "AWS::CloudWatch::Alarm": "arn:aws:cloudwatch:{region}:{account}:alarm:{name}",
    "AWS::Events::Rule": "arn:aws:events:{region}:{account}:rule/{name}",
    "AWS::IAM::Role": "arn:aws:iam::{account}:role/{name}",
    "AWS::Lambda::Function": "arn:aws:lambda:{region}:{account}:function:{name}",
    "AWS::Logs::LogGroup": "arn:aws:logs:{region}:{account}:log-group:{name}:log-stream:",
    "AWS::SNS::Topic": "arn:aws:sns:{region}:{account}:{name}",
}
WORDS: Final = ("2", "-2", "x", "-x", "-data", "-hyperpod-executionrole", *(f"-{part}" for part in naming.STACKS))

words = st.from_regex(r"[a-z]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True)
pairs = st.tuples(words, words, st.sampled_from(WORDS), st.booleans())


@cache
def _templates() -> dict[str, Mapping[str, Any]]:
    """Return the logical ids of what the templates of dev leave unnamed, by stack, with their types."""
    folder = REPOSITORY / "tests" / "synth" / "__snapshots__" / "test_snapshots"
    read = {part: folder / f"test_template_of_dev_is_as_reviewed[{part}].json" for part in naming.STACKS}
    return {part: json.loads(file.read_text())["Resources"] for part, file in read.items()}


def _named(project: str, name: str) -> EksEnvironment:
    """Return dev under another name, with the names that people choose made of it."""
    dev = config.load("dev")
    hyperpod = dev.hyperpod.model_copy(update={"cluster_name": f"{project}-{name}"})
    image = dev.image.model_copy(update={"repository": f"{project}-{name}"})
    return dev.model_copy(update={"project": project, "name": name, "hyperpod": hyperpod, "image": image})


def _resources(own: EksEnvironment) -> Iterator[str]:
    """Yield the ARNs of an environment's resources whose names have the environment's."""
    where, cluster = f"{own.region}:{own.account}", naming.eks_cluster(own)
    for part, resources in _templates().items():
        stack = naming.stack(own, part)
        yield f"arn:aws:cloudformation:{where}:stack/{stack}/7c6d2b0e"
        for logical_id, resource in resources.items():
            if template := TYPES.get(resource["Type"]):
                made = physical_name(resource["Type"], stack, logical_id)
                yield template.format(region=own.region, account=own.account, name=made)
                if resource["Type"] == "AWS::Lambda::Function":
                    yield f"arn:aws:logs:{where}:log-group:/aws/lambda/{made}:log-stream:"
    for kind in ("access-entry", "addon", "nodegroup"):
        yield f"arn:aws:eks:{where}:{kind}/{cluster}/role/{own.account}/name/0"
    yield f"arn:aws:eks:{where}:cluster/{cluster}"
    yield f"arn:aws:cloudwatch::{own.account}:dashboard/{naming.dashboard(own)}"
    groups = (naming.control_plane_log_group(cluster), naming.container_insights_log_group(cluster, "host"))
    for group in (*groups, f"/aws/sagemaker/Clusters/{own.hyperpod.cluster_name}/abcdefghijkl"):
        yield f"arn:aws:logs:{where}:log-group:{group}:log-stream:"
    for bucket in (naming.data_bucket(own), naming.lifecycle_bucket(own)):
        yield from (f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/image-build/log")
    yield f"arn:aws:ecr:{where}:repository/{own.repository}"
    yield naming.tracking_server_arn(own)


def _tags(own: EksEnvironment, stack: str) -> dict[str, str]:
    """Return condition keys of the tags that an environment's resources can have."""
    cluster = naming.eks_cluster(own)
    tags = {
        "project": own.project,
        "environment": own.name,
        naming.ENVIRONMENT_TAG: naming.environment_tag(own),
        f"kubernetes.io/cluster/{cluster}": "owned",
        "cluster.k8s.amazonaws.com/name": cluster,
        "aws:cloudformation:stack-name": stack,
    }
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}


def _kind(resource: str) -> str:
    _, _, service, _, _, name = resource.split(":", 5)
    return f"{service}:{name}"


@given(drawn=pairs)
@example(drawn=("rayhp", "dev", "-2", True))
@example(drawn=("rayhp", "dev", "2", True))
@example(drawn=("rayhp", "dev", "-x", False))
@example(drawn=("rayhp", "dev", "-hyperpod", True))
@example(drawn=("rayhp", "very-long-environment", "-2", True))
def test_no_right_on_a_name_is_a_right_in_another_environment(drawn: tuple[str, str, str, bool]) -> None:
    project, name, word, of_name = drawn
    own = _named(project, name)
    other = _named(project, name + word) if of_name else _named(project + word, name)
    assume(_accepted(own, other))
    assume(not _cut_alike(own, other))
    for first, second in ((own, other), (other, own)):
        patterns = _named_patterns(first)
        for resource in _resources(second):
            fitting = {pattern: sid for pattern, sid in patterns.items() if _fits(pattern, resource)}
            assert not fitting, f"policies of {first.name} match {resource} of {second.name}"


def _named_patterns(own: EksEnvironment) -> dict[str, str]:
    """Return the patterns with names in the environment's policies, with the statement's id."""
    given = (each for role in PersonRole for each in statements(role, own) if not each.denies)
    return {
        pattern: statement.sid
        for statement in given
        for pattern in statement.resources
        if pattern != "*" and _kind(pattern) not in CHOSEN_BY_AWS and not any(part in pattern for part in SHARED)
    }


def _fits(pattern: str, resource: str) -> bool:
    document = {"Statement": {"Effect": "Allow", "Action": "any:Action", "Resource": pattern}}
    return evaluate([document], "any:Action", resource, {}) is PolicyDecision.ALLOW


def _accepted(own: EksEnvironment, other: EksEnvironment) -> bool:
    return own_names.id not in {each.rule for each in findings_beside(own, [other])}


def _cut_alike(own: EksEnvironment, other: EksEnvironment) -> bool:
    """Return whether CloudFormation can cut two stacks' names in names of roles to the same: nothing tells them apart.

    docs/operate/permissions.md names this limit.
    """
    stacks = [{naming.stack(each, part) for part in naming.STACKS} for each in (own, other)]
    return any(max(map(len, each)) > 24 and each[0][:24] == each[1][:24] for each in product(*stacks))


@given(drawn=pairs)
@example(drawn=("rayhp", "dev", "-2", True))
def test_no_right_by_tag_holds_for_another_environment(drawn: tuple[str, str, str, bool]) -> None:
    project, name, word, of_name = drawn
    own = _named(project, name)
    other = _named(project, name + word) if of_name else _named(project + word, name)
    assume(_accepted(own, other))
    for first, second in ((own, other), (other, own)):
        for statement in (each for role in PersonRole for each in statements(role, first)):
            if "aws:ResourceTag" not in str(statement.conditions) or "GuardDutyManaged" in str(statement.conditions):
                continue
            document = {"Version": "2012-10-17", "Statement": [statement.document()]}
            for stack in (naming.stack(second, part) for part in naming.STACKS):
                resource = re.sub(r"\*", "0", statement.resources[0])
                decision = evaluate([document], statement.actions[0], resource, _tags(second, stack))
                assert decision is not PolicyDecision.ALLOW, f"{statement.sid} of {first.name} on {second.name}"


def test_the_nodes_role_of_a_long_name_is_passed_and_no_other() -> None:
    own = _named("rayhp", "very-long-environment-name")
    by = {each.sid: each for each in statements(PersonRole.OPERATOR, own)}
    document = {"Version": "2012-10-17", "Statement": [by["ChangeHyperPodRoles"].document()]}
    context = {"iam:PassedToService": "sagemaker.amazonaws.com"}

    def passes(stack: str, logical_id: str) -> bool:
        role = f"arn:aws:iam::{own.account}:role/{physical_name('AWS::IAM::Role', stack, logical_id)}"
        return evaluate([document], "iam:PassRole", role, context) is PolicyDecision.ALLOW

    stack = naming.stack(own, "hyperpod")
    assert passes(stack, "ExecutionRoleFAA49FA6")
    for kept in range(24, 30):
        assert passes(stack[:kept], "ExecutionRoleFAA49FA6")
    assert not passes(stack, "ProviderOnEventServiceRole82DF95BA")
    assert not passes(naming.stack(own, "ray"), "RayRole3C804ACF")
    assert not passes("rayhp-very-long-environs-hyperpod", "ExecutionRoleFAA49FA6")
