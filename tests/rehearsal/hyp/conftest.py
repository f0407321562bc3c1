"""The environment `small` with HyperPod's training operator, and two people who use `hyp` there."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest

from config import naming
from config.facts.add_ons import TRAINING_OPERATOR
from config.model.eks import AddOn
from embedded_account.context import Account
from embedded_account.kubernetes.building import binaries as programs
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.server import AccountServer
from embedded_account.services.eks.host import ClusterHost
from embedded_account.services.eks.service import service_of
from embedded_account.testing.cluster import Kubectl
from embedded_account.testing.eks_setup import set_up
from k8s_charts.ray_objects import ray_objects
from k8s_charts.shared.names import submitters_group
from ops.policy.role import PersonRole
from rehearsal import paths
from tests.charts.support.facts import RAY_FACTS
from tests.rehearsal.account.small_cluster import SMALL, create_hyperpod, install_dependencies
from tests.rehearsal.hyp import training_operator
from tests.rehearsal.hyp.client import Hyp
from tests.support import assumed_role, people
from tests.support.waiting import wait_until

POLICY = "arn:aws:eks::aws:cluster-access-policy/"
NAMESPACE = SMALL.ray.namespace
SHARED = ("hyperpod_current_context.json", f"kubeconfig_{SMALL.hyperpod.cluster_name}")
"""Files that the client keeps in the folder for temporary files of all users, whatever TMPDIR says."""


@dataclass(frozen=True)
class Place:
    """The account with the cluster, and the client of each person."""

    account: Account
    kubectl: Kubectl
    plane: ControlPlane
    administrator: Hyp
    scientist: Hyp


@pytest.fixture(scope="module")
def place(account_server: AccountServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Create the clusters once for all tests of a module."""
    account, keys = account_server.account, account_server.account.keys
    built = programs.ensure(paths.BINARIES, print)
    session: Any = boto3.Session(keys.access_key_id, keys.secret_access_key, region_name=SMALL.region)
    clients = partial(session.client, endpoint_url=account.endpoint)
    name = naming.eks_cluster(SMALL)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(account, "binaries", built.directory)
        monkeypatch.setattr(account, "clusters", ClusterHost(account))
        eks = set_up(account, clients)
        try:
            arn = eks.create(name=name)["arn"]
            plane = account.clusters.get(name).control_plane
            assert isinstance(plane, ControlPlane)
            kubectl = Kubectl(plane)
            install_dependencies(kubectl)
            install_environment(kubectl)
            create_hyperpod(clients, arn, eks.vpc_id, eks.subnets[0])
            wait_until(lambda: len(kubectl.get("nodes")["items"]) == 3, "HyperPod's nodes")
            directory = tmp_path_factory.mktemp("hyp")

            def hyp(role: PersonRole, **entry: Any) -> Hyp:
                arn = people.make_role(clients, SMALL, role)
                policy, scope = entry.pop("policy"), entry.pop("scope")
                eks.api.create_access_entry(clusterName=name, principalArn=arn, **entry)
                eks.api.associate_access_policy(
                    clusterName=name, principalArn=arn, policyArn=POLICY + policy, accessScope=scope
                )
                own = assumed_role.credentials(clients, arn)
                home = directory / role
                return Hyp(home, account.endpoint, SMALL.region, SMALL.account, own, Path(built["kubectl"]))

            # As the eks stack makes their access entries (stacks/eks/access_entries.py).
            administrator = hyp(PersonRole.OPERATOR, policy="AmazonEKSClusterAdminPolicy", scope={"type": "cluster"})
            scientist = hyp(
                PersonRole.SCIENTIST,
                policy="AmazonSagemakerHyperpodTrainingPolicy",
                scope={"type": "namespace", "namespaces": [NAMESPACE]},
                kubernetesGroups=[submitters_group(NAMESPACE)],
            )
            yield Place(account, kubectl, plane, administrator, scientist)
            clients("sagemaker").delete_cluster(ClusterName=SMALL.hyperpod.cluster_name)
            wait_until(lambda: clients("sagemaker").list_clusters()["ClusterSummaries"] == [], "the cluster is deleted")
        finally:
            service_of(account).wait_until_active(name)
            clients("eks").delete_cluster(name=name)
            for each in SHARED:
                Path("/tmp", each).unlink(missing_ok=True)


def install_environment(kubectl: Kubectl) -> None:
    """Create the operator's kind, Ray's namespace, and the Roles of its people."""
    eks = SMALL.eks.model_copy(update={"add_ons": (AddOn(name=TRAINING_OPERATOR),)})
    charts = ray_objects(SMALL.model_copy(update={"eks": eks}), RAY_FACTS)
    kubectl.apply(training_operator.definition())
    kubectl("wait", "--for=condition=Established", f"crd/{training_operator.PLURAL}.{training_operator.GROUP}")
    kubectl.apply(*charts.namespace.to_json())
    kubectl.apply(*charts.job_supervisor.to_json())
