"""Properties that name a role, a group, a key, code, a target or a policy, of types that have no row too."""

from typing import Any

import pytest

from ops.review.cloudformation.risks.concepts import Concept, concept
from ops.review.model import Danger
from tests.unit.ops.review.cloudformation.pairs import Pairs, dangers, of

WIDER, OPENED, LOWER, RUNS = (
    Danger.WIDER_PERMISSIONS,
    Danger.OPENED_PORT,
    Danger.LOWER_PROTECTION,
    Danger.RUNS_CODE,
)
PROFILE = of("AWS::IAM::InstanceProfile", Roles=["nodes"])
DATABASE = of("AWS::RDS::DBInstance", VPCSecurityGroups=["sg-1"], MonitoringInterval=60)
API = of("AWS::VpcLattice::AuthPolicy", ResourceIdentifier="a", Policy={"Statement": []})
ALARM = of("AWS::CloudWatch::Alarm", AlarmActions=["arn:aws:sns:us-west-2:111122223333:a"])
TEMPLATE = of("AWS::EC2::LaunchTemplate", LaunchTemplateData={"InstanceType": "m5.large"})
BUCKET = of(
    "AWS::S3::Bucket",
    LifecycleConfiguration={
        "Rules": [{"Status": "Enabled", "Prefix": "a", "ExpirationInDays": 30, "ObjectSizeLessThan": 10}]
    },
)


def expiring(**rule: Any) -> dict[str, Any]:
    return {"Rules": [{"Status": "Enabled", "Prefix": "a", "ExpirationInDays": 30, "ObjectSizeLessThan": 10} | rule]}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("ServiceAccountRoleArn",), Concept.ROLE),
        (("LaunchTemplateData", "IamInstanceProfile", "Arn"), Concept.ROLE),
        (("VpcConfig", "SecurityGroupIds"), Concept.GROUP),
        (("Targets", "Arn"), Concept.TARGET),
        (("Targets", "RetryPolicy", "MaximumRetryAttempts"), None),
        (("Tags", "Key"), None),
        (("MemorySize",), None),
    ],
)
def test_the_innermost_known_name_says_what_a_property_is(path: tuple[str, ...], expected: Concept | None) -> None:
    assert concept(path) is expected


@pytest.mark.parametrize(
    ("resource", "property", "value", "danger"),
    [
        (PROFILE, "Roles", ["administrator"], WIDER),
        (DATABASE, "VPCSecurityGroups", ["sg-1", "sg-2"], OPENED),
        (DATABASE, "VPCSecurityGroups", None, OPENED),
        (DATABASE, "MonitoringInterval", 30, None),
        (API, "Policy", {"Statement": [{"Effect": "Allow"}]}, WIDER),
        (ALARM, "AlarmActions", [*ALARM["Properties"]["AlarmActions"], "arn:aws:automate:us-west-2:ec2:reboot"], RUNS),
        (TEMPLATE, "LaunchTemplateData__NetworkInterfaces", [{"Groups": ["sg-1"]}], OPENED),
        (TEMPLATE, "LaunchTemplateData__MetadataOptions", {"HttpTokens": "optional"}, LOWER),
        (TEMPLATE, "LaunchTemplateData__TagSpecifications", [{"Tags": [{"Key": "a", "Value": "b"}]}], None),
        (BUCKET, "LifecycleConfiguration", expiring(ObjectSizeLessThan=20), LOWER),
        (BUCKET, "LifecycleConfiguration", expiring(Prefix=""), LOWER),
        (BUCKET, "LifecycleConfiguration", expiring(Prefix="ab"), None),
        (BUCKET, "LifecycleConfiguration", expiring(Status={"Ref": "Switch"}, ExpirationInDays=1), LOWER),
        (BUCKET, "LifecycleConfiguration", expiring(ExpirationInDays=60), None),
    ],
)
def test_a_changed_property_has_the_danger_of_what_it_names(
    pairs: Pairs, resource: dict[str, Any], property: str, value: object, danger: Danger | None
) -> None:
    assert dangers(pairs.edited(resource, **{property: value})) == ({danger} if danger else set())


def test_a_new_resource_with_a_role_that_exists_acts_with_it(pairs: Pairs) -> None:
    trust = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "a:b"}]}
    role = of("AWS::IAM::Role", AssumeRolePolicyDocument=trust)
    function = of("AWS::Lambda::Function", Role={"Fn::GetAtt": ["Role", "Arn"]})
    assert dangers(pairs.changes({"Role": role}, {"Role": role, "New": function})) == {WIDER}
    topic = of("AWS::SNS::Topic")
    assert dangers(pairs.changes({"Old": topic}, {"Old": topic, "Role": role, "New": function})) == set()
