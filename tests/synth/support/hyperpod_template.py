"""Read the HyperPod cluster, its scripts and its roles from the template of the hyperpod stack."""

from typing import Any

from tests.synth.support.synthesis import Template

CLUSTER = "Custom::HyperPodCluster"
UPLOAD = "Custom::CDKBucketDeployment"


def execution_role(template: Template) -> str:
    """Return the logical id of the groups' execution role."""
    [group, *_] = template.only(CLUSTER)["InstanceGroups"]
    role: str = group["ExecutionRole"]["Fn::GetAtt"][0]
    return role


def policy_of(template: Template, role: str) -> list[dict[str, Any]]:
    """Return the statements of a role's policy."""
    [policy] = [p for p in template.properties("AWS::IAM::Policy") if p["Roles"] == [{"Ref": role}]]
    statements: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
    return statements
