"""The app of a project with one stack, a function's custom resource and then a cluster, written without CDK.

The rehearsal of it has all of a rehearsal's processes, without the synthesis and the deployment of an environment.
"""

import json
import os
from pathlib import Path
from typing import Any

ENVIRONMENT = "small"
STACK = f"rayhp-{ENVIRONMENT}-eks"
HANDLER = """
import json, urllib.request
def handler(event, context):
    named = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    body = json.dumps({"Status": "SUCCESS", "PhysicalResourceId": "one", **named}).encode()
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], body, method="PUT")).close()
"""
ROLE = "arn:${AWS::Partition}:iam::111122223333:role/cdk-hnb659fds-%s-role-111122223333-us-west-2"


def attribute(name: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [name, "Arn"]}


def role(service: str, policy: str) -> dict[str, Any]:
    allowed = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    trust = {"Version": "2012-10-17", "Statement": [allowed]}
    managed = [f"arn:aws:iam::aws:policy/{policy}"]
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": trust, "ManagedPolicyArns": managed},
    }


def subnet(number: int, zone: str) -> dict[str, Any]:
    own = {"VpcId": {"Ref": "Vpc"}, "CidrBlock": f"10.0.{number}.0/24", "AvailabilityZone": zone}
    return {"Type": "AWS::EC2::Subnet", "Properties": own}


def resources() -> dict[str, Any]:
    function = {
        "Code": {"ZipFile": HANDLER},
        "Handler": "index.handler",
        "Runtime": "python3.13",
        "Role": attribute("FunctionRole"),
    }
    cluster = {
        "Name": f"rayhp-{ENVIRONMENT}",
        "RoleArn": attribute("ClusterRole"),
        "ResourcesVpcConfig": {"SubnetIds": [{"Ref": "SubnetA"}, {"Ref": "SubnetB"}]},
        "AccessConfig": {"AuthenticationMode": "API"},
    }
    administrator = {
        "ClusterName": {"Ref": "Cluster"},
        "PrincipalArn": "arn:aws:iam::111122223333:role/PlatformAdmin",
        "AccessPolicies": [
            {
                "PolicyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                "AccessScope": {"Type": "cluster"},
            }
        ],
    }
    return {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "SubnetA": subnet(0, "us-west-2a"),
        "SubnetB": subnet(1, "us-west-2b"),
        "FunctionRole": role("lambda.amazonaws.com", "service-role/AWSLambdaBasicExecutionRole"),
        "Function": {"Type": "AWS::Lambda::Function", "Properties": function},
        "Custom": {"Type": "Custom::Thing", "Properties": {"ServiceToken": attribute("Function")}},
        "ClusterRole": role("eks.amazonaws.com", "AmazonEKSClusterPolicy"),
        # Its control plane starts when a function's process is there.
        "Cluster": {"Type": "AWS::EKS::Cluster", "DependsOn": "Custom", "Properties": cluster},
        "Administrator": {"Type": "AWS::EKS::AccessEntry", "Properties": administrator},
    }


def write(assembly: Path) -> None:
    """Write a cloud assembly, as `cdk synth` would."""
    stack = {
        "type": "aws:cloudformation:stack",
        "environment": "aws://111122223333/us-west-2",
        "properties": {
            "templateFile": f"{STACK}.template.json",
            "validateOnSynth": False,
            "assumeRoleArn": ROLE % "deploy",
            "cloudFormationExecutionRoleArn": ROLE % "cfn-exec",
        },
    }
    (assembly / f"{STACK}.template.json").write_text(json.dumps({"Resources": resources()}))
    (assembly / "manifest.json").write_text(json.dumps({"version": "36.0.0", "artifacts": {STACK: stack}}))


if __name__ == "__main__":
    write(Path(os.environ["CDK_OUTDIR"]))
