"""Checks of an existing EKS cluster that the embedded account cannot have: other access modes, Kubeflow."""

from typing import Any

import pytest

import config
from ops.clients import CallerAccount
from ops.preflight.check import Check, CheckResult, CheckStatus
from ops.preflight.existing_cluster import cluster, kubeflow
from ops.preflight.here import Here
from ops.preflight.run import run
from tests.unit.ops.readiness.test_kubeflow import KINDS, NAMESPACES, items
from tests.unit.support.fake_apis import Apis

EXISTING = config.load("existing-eks")


def rows(check: Any) -> list[CheckResult]:
    from ops.cli import errors

    return run(Here(EXISTING, CallerAccount(EXISTING).client), [Check("EKS", check)], errors)


@pytest.fixture
def described(apis: Apis) -> dict[str, Any]:
    """The cluster as EKS describes it: all as the environment says."""
    wanted, vpc = EXISTING.eks.existing, EXISTING.network.existing
    assert wanted
    assert vpc
    found: dict[str, Any] = apis.aws["DescribeEksCluster"]["cluster"]
    found |= {
        "name": wanted.name,
        "version": EXISTING.eks.version,
        "identity": {"oidc": {"issuer": f"https://{wanted.oidc_provider_arn.partition('/')[2]}"}},
        "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
        "resourcesVpcConfig": {
            "vpcId": vpc.id,
            "clusterSecurityGroupId": wanted.security_group,
            "endpointPrivateAccess": True,
        },
    }
    return found


def test_a_cluster_with_both_access_modes_passes(described: dict[str, Any]) -> None:
    [row] = rows(cluster)
    assert (row.verdict, row.found) == (CheckStatus.PASS, "ACTIVE, Kubernetes 1.35, as the environment says")


def test_a_cluster_without_access_entries_fails_with_the_command_that_enables_them(described: dict[str, Any]) -> None:
    described["accessConfig"] = {"authenticationMode": "CONFIG_MAP"}
    [row] = rows(cluster)
    assert row.verdict is CheckStatus.FAIL
    assert row.found == "its authentication mode is CONFIG_MAP; HyperPod needs access entries"
    assert row.fix == (
        "aws eks update-cluster-config --name shared-platform --region us-west-2 "
        "--access-config authenticationMode=API_AND_CONFIG_MAP"
    )


def test_a_cluster_that_is_not_active_fails(described: dict[str, Any]) -> None:
    described["status"] = "DELETING"
    [row] = rows(cluster)
    assert (row.verdict, row.found) == (CheckStatus.FAIL, "its status is DELETING")


def test_parts_of_kubeflow_warn_with_the_key_that_leaves_them_out(apis: Apis) -> None:
    apis.kubernetes[NAMESPACES], apis.kubernetes[KINDS] = items("kubeflow"), items()
    [row] = rows(kubeflow)
    assert row.verdict is CheckStatus.WARN
    assert row.found.startswith("EKS cluster shared-platform has namespace kubeflow")
    assert row.fix.startswith("add namespace to eks.existing.kubeflow")


def test_a_cluster_without_them_passes(apis: Apis) -> None:
    apis.kubernetes[NAMESPACES], apis.kubernetes[KINDS] = items("default"), items()
    [row] = rows(kubeflow)
    assert row.verdict is CheckStatus.PASS
