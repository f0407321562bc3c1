"""The handlers as Lambda runs them: the package alone, on an SDK that may be older than the request's fields."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import aws_cdk
import botocore
import pytest

from stacks.hyperpod.group_counts import HANDLERS as GROUP_COUNTS
from stacks.hyperpod.provider import SERVICE_MODEL, pack_handlers

NEWER_FIELDS = {
    "CreateClusterRequest": ["NodeProvisioningMode"],
    "ClusterInstanceGroupSpecification": ["MinInstanceCount", "KubernetesConfig"],
}
# The whole handler in an interpreter of its own, CreateCluster answered by botocore's stub, which checks the request.
PROGRAM = """
import json, sys
from pathlib import Path
import botocore.loaders
botocore.loaders.Loader.BUILTIN_DATA_PATH = sys.argv[1]
from botocore.stub import Stubber
from hyperpod_cluster import index, service
if sys.argv[2] == "unpacked":
    service.MODELS = Path("/nowhere")
class Context:
    def get_remaining_time_in_millis(self):
        return 180_000
client = index._client("sagemaker")
sent = []
client.meta.events.register("before-parameter-build.sagemaker.CreateCluster", lambda params, **_: sent.append(params))
event = {"RequestType": "Create", "RequestId": "1", "ResourceType": "Custom::HyperPodCluster", "StackId": "stack",
         "LogicalResourceId": "Cluster", "ResourceProperties": json.loads(sys.argv[3])}
stacks = Stubber(index._client("cloudformation"))
described = {"StackName": "stack", "CreationTime": 0, "StackStatus": "CREATE_IN_PROGRESS"}
stacks.add_response("describe_stacks", {"Stacks": [described]})
with Stubber(client) as stub, stacks:
    arn = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdefghijkl"
    stub.add_response("create_cluster", {"ClusterArn": arn})
    answer = index.on_event(event, Context())
print(json.dumps({"answer": answer, "request": sent[0]}))
"""
PROPERTIES = {
    "ClusterName": "ml-cluster",
    "NodeProvisioningMode": "Continuous",
    "InstanceGroups": [
        {
            "InstanceGroupName": "workers",
            "InstanceType": "ml.g5.2xlarge",
            "InstanceCount": "2",
            "MinInstanceCount": "1",
            "ThreadsPerCore": "1",
            "ExecutionRole": "arn:aws:iam::111122223333:role/execution",
            "KubernetesConfig": {"Labels": {"team": "vision"}},
        }
    ],
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    pack_handlers(tmp_path / "package")
    return tmp_path / "package"


@pytest.fixture
def older_data(tmp_path: Path) -> Path:
    """Return the data folder of a botocore whose SageMaker model lacks newer fields."""
    pinned = Path(botocore.__file__).parent
    model = json.loads(gzip.decompress((pinned / SERVICE_MODEL).read_bytes()))
    for shape, fields in NEWER_FIELDS.items():
        for name in fields:
            del model["shapes"][shape]["members"][name]
    data = tmp_path / "older"
    folder = data / Path(SERVICE_MODEL).parent.relative_to("data")
    folder.mkdir(parents=True)
    for entry in (pinned / "data").iterdir():
        if entry.name != "sagemaker":
            (data / entry.name).symlink_to(entry)
    for entry in (pinned / SERVICE_MODEL).parent.iterdir():
        if not entry.name.startswith("service-2"):
            (folder / entry.name).symlink_to(entry)
    (folder / "service-2.json").write_text(json.dumps(model))
    return data


def run(package: Path, data: Path, models: str) -> "subprocess.CompletedProcess[str]":
    # From the package's folder, with nothing of this repository on the path.
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(data), models, json.dumps(PROPERTIES)],
        cwd=package,
        env={"PATH": os.environ["PATH"], "AWS_DEFAULT_REGION": "us-west-2", "AWS_EC2_METADATA_DISABLED": "true"},
        text=True,
        capture_output=True,
        check=False,
    )


def test_older_sdk_does_not_know_the_newer_fields(package: Path, older_data: Path) -> None:
    result = run(package, older_data, "unpacked")
    assert "unknown field 'NodeProvisioningMode'" in result.stderr


def test_packed_model_teaches_an_older_sdk_the_newer_fields(package: Path, older_data: Path) -> None:
    result = run(package, older_data, "packed")
    assert result.returncode == 0, result.stderr
    told: dict[str, Any] = json.loads(result.stdout)
    request = told["request"]
    assert told["answer"]["PhysicalResourceId"] == "ml-cluster"
    group = request["InstanceGroups"][0]
    assert (request["NodeProvisioningMode"], group["MinInstanceCount"]) == ("Continuous", 1)
    assert group["KubernetesConfig"] == {"Labels": {"team": "vision"}}


def test_package_has_the_entry_points_and_no_bytecode(package: Path) -> None:
    assert (package / "hyperpod_cluster" / "index.py").is_file()
    assert (package / "hyperpod_cluster" / "models" / Path(SERVICE_MODEL).relative_to("data")).is_file()
    assert not [path for path in package.rglob("*") if "pyc" in path.name]


# GroupCounts sends every group in full: its client must know every field that DescribeCluster can show.
FIELDS = """
import sys
import botocore.loaders
botocore.loaders.Loader.BUILTIN_DATA_PATH = sys.argv[1]
from group_counts import index
print(*index._client().meta.service_model.shape_for("ClusterInstanceGroupSpecification").members)
"""


def test_packed_model_teaches_group_counts_the_newer_fields(tmp_path: Path, older_data: Path) -> None:
    (tmp_path / "packed").mkdir()
    pack_handlers(tmp_path / "packed", GROUP_COUNTS)
    env = {"PATH": os.environ["PATH"], "AWS_DEFAULT_REGION": "us-west-2", "AWS_EC2_METADATA_DISABLED": "true"}
    argv = [sys.executable, "-c", FIELDS, str(older_data)]
    done = subprocess.run(argv, cwd=tmp_path / "packed", env=env, text=True, capture_output=True, check=True)
    assert set(NEWER_FIELDS["ClusterInstanceGroupSpecification"]) <= set(done.stdout.split())


# CDK's framework around the handlers, with stubs for the two clients that it calls.
CLIENTS = {
    "client-lambda": "invoke(call) { console.error(call.Payload); return { Payload: '{}' }; }",
    "client-sfn": "startExecution(call) { console.error(call.input); }",
}
FRAMEWORK = "package/custom-resources/lib/provider-framework/runtime/"


def test_cdks_framework_gives_both_functions_the_address_of_the_answer(tmp_path: Path) -> None:
    """The address says when CloudFormation issued the request."""
    [cdk] = (Path(aws_cdk.__file__).parent / "_jsii").glob("aws-cdk-lib@*.tgz")
    with tarfile.open(cdk, "r|gz") as archive:
        for member in archive:
            if member.name.startswith(FRAMEWORK) and (source := archive.extractfile(member)):
                (tmp_path / Path(member.name).name).write_bytes(source.read())
    for name, methods in CLIENTS.items():
        module = tmp_path / "node_modules" / "@aws-sdk" / name / "index.js"
        module.parent.mkdir(parents=True)
        module.write_text(f"exports.Lambda = exports.SFN = class {{ {methods} }};")
    event = {"RequestType": "Create", "RequestId": "1", "ResponseURL": "https://bucket/key?X-Amz-Date=20261127T094500Z"}
    names = ("USER_ON_EVENT_FUNCTION_ARN", "USER_IS_COMPLETE_FUNCTION_ARN", "WAITER_STATE_MACHINE_ARN")
    program = f"require('./framework').onEvent({json.dumps(event)})"
    env = os.environ | dict.fromkeys(names, "arn:of:it")
    ended = subprocess.run(
        [str(shutil.which("node")), "-e", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    given = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [each["ResponseURL"] for each in given] == [event["ResponseURL"]] * 2
