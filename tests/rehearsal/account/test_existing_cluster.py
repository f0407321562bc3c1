"""The EKS cluster that the environment says exists: as an owner has it, and compared so that nothing slips through."""

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests

import config
from config import EksEnvironment
from config.model import ExistingEks
from embedded_account.context import Account
from embedded_account.kubernetes.api import KubernetesClient
from embedded_account.kubernetes.building import binaries
from embedded_account.running import EmbeddedAccount
from embedded_account.services.eks.host import ClusterHost
from embedded_account.testing.clients import Clients
from embedded_account.testing.functions import make_role
from rehearsal import paths
from rehearsal.run import existing, existing_cluster
from rehearsal.run.account import rehearsal_account
from rehearsal.run.cluster import wait_for
from rehearsal.run.existing_resources import existing_resources
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.product

PODS = "/api/v1/namespaces/data-team/pods"
CONFIG_MAPS = "/api/v1/namespaces/data-team/configmaps"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


@dataclass
class Owner:
    """What the cluster's owner has in hand."""

    account: Account
    clients: Clients
    environment: EksEnvironment
    rehearsal: EmbeddedAccount

    @property
    def named(self) -> ExistingEks:
        found = self.environment.eks.existing
        assert found is not None
        return found

    @property
    def kubernetes(self) -> KubernetesClient:
        api: KubernetesClient = self.account.clusters.get(self.named.name).control_plane.api
        return api

    def look(self) -> dict[str, Any]:
        return existing_cluster.describe(self.rehearsal, self.named)


@pytest.fixture
def owner(account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    """A real control plane (10 s)."""
    built = binaries.ensure(paths.BINARIES, print).directory
    monkeypatch.setattr(account, "binaries", built)
    host = ClusterHost(account)
    monkeypatch.setattr(account, "clusters", host)
    environment = config.load("existing-eks")
    response = requests.post(
        f"{account.endpoint}/_rehearsal/existing",
        existing_resources(environment).model_dump_json(),
        headers=account.keys.control_headers,
        timeout=PATIENCE_SECONDS,
    )
    assert response.status_code == 200, response.text
    rehearsal = rehearsal_account(account.directory, built, account_id=account.account_id, region=account.region)
    rehearsal.endpoint, rehearsal.keys = account.endpoint, account.keys
    yield Owner(account, clients, environment, rehearsal)
    host.stop_all()


def test_cluster_is_what_the_file_says_and_every_difference_is_seen(owner: Owner) -> None:
    seen = owner.look()
    cluster = seen["eks"]["cluster"]
    assert cluster["version"] == owner.environment.eks.version
    assert cluster["accessConfig"]["authenticationMode"] == "API"
    network = cluster["resourcesVpcConfig"]
    assert (network["endpointPublicAccess"], network["endpointPrivateAccess"]) == (False, True)
    assert network["clusterSecurityGroupId"] == owner.named.security_group
    issuer = cluster["identity"]["oidc"]["issuer"].removeprefix("https://")
    assert owner.named.oidc_provider_arn.endswith(f":oidc-provider/{issuer}")
    assert set(seen["eks"]["add_ons"]) == {"coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"}
    assert set(seen["eks"]["node_groups"]) == {"general"}

    assert existing.difference(seen, owner.look()) == ""
    for word, (plant, remove) in plants(owner).items():
        plant()
        assert word in existing.difference(seen, owner.look())
        remove()
        wait_for(f"{word} undone", lambda: existing.difference(seen, owner.look()), operator.not_)


def test_pods_of_gone_nodes_are_removed_and_others_stay(owner: Owner) -> None:
    [node, *_] = [item["metadata"]["name"] for item in owner.kubernetes.get("/api/v1/nodes")["items"]]
    for name, where in (("stray", {"nodeName": "gone"}), ("placed", {"nodeName": node}), ("waiting", {})):
        nobody = {"name": "c", "image": "example.invalid/c"}
        spec = {"containers": [nobody], "nodeSelector": {"nobody": "has-it"}} | where
        owner.kubernetes.create(PODS, {"metadata": {"name": name}, "spec": spec})
    before = owner.look()
    assert existing.collect_garbage(owner.rehearsal, owner.environment) == 1
    assert existing.collect_garbage(owner.rehearsal, owner.environment) == 0
    changed = existing.difference(before, owner.look())
    assert re.findall(r'^([+-]) *"(/api/v1/pods/.+)":', changed, re.MULTILINE) == [
        ("-", "/api/v1/pods/data-team/stray")
    ]


def plants(owner: Owner) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """What a deployment could leave or alter: how to do it, how to undo it, by the word that gives it away."""
    eks, kubernetes, cluster = owner.clients("eks"), owner.kubernetes, owner.named.name
    stranger = make_role(owner.account, "stranger", "ec2.amazonaws.com").attributes()["Arn"]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "planted"}}
    return {
        "role/stranger": (
            lambda: eks.create_access_entry(clusterName=cluster, principalArn=stranger),
            lambda: eks.delete_access_entry(clusterName=cluster, principalArn=stranger),
        ),
        "metrics-server": (
            lambda: eks.create_addon(clusterName=cluster, addonName="metrics-server"),
            lambda: eks.delete_addon(clusterName=cluster, addonName="metrics-server"),
        ),
        "clusterroles/planted": (
            lambda: kubernetes.create(CLUSTER_ROLES, role),
            lambda: kubernetes.delete(f"{CLUSTER_ROLES}/planted"),
        ),
        "trampled": (
            lambda: kubernetes.patch(f"{CONFIG_MAPS}/pipelines", {"data": {"nightly": "trampled"}}),
            lambda: kubernetes.patch(f"{CONFIG_MAPS}/pipelines", {"data": {"nightly": "on"}}),
        ),
    }
