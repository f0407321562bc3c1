"""Connect a HyperPod cluster with its EKS cluster: description, dependencies, access entries and nodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

import boto3
from urllib3.exceptions import HTTPError

from embedded_account.hyperpod.nodes import HEALTH_LABEL, KubernetesNode
from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError

if TYPE_CHECKING:
    from embedded_account.context import Account

NAMESPACE: Final = "aws-hyperpod"
AGENT: Final = "health-monitoring-agent"
DEEP_CHECK_ACCOUNT: Final = "deep-health-check-service-account"


class KubernetesUnavailableError(Exception):
    """The control plane did not answer or refused a write; the simulator retries the transition later."""


@dataclass(frozen=True)
class EksDescription:
    """The part of DescribeCluster that HyperPod needs. `vpc_id` and `version` are "" if EKS does not return them."""

    name: str
    arn: str
    status: str
    authentication_mode: str
    vpc_id: str = ""
    version: str = ""


class Orchestrators(Protocol):
    """All EKS clusters of the account, by name."""

    def cluster(self, name: str) -> EksDescription | None:
        """Return the cluster's description; None if it does not exist."""

    def missing_dependencies(self, name: str) -> list[str]:
        """Return the objects of the HyperPod dependencies chart that the cluster lacks."""

    def add_access_entry(self, name: str, principal_arn: str, **properties: Any) -> bool:
        """Create an access entry; return False, and change nothing, if the principal already has one."""

    def remove_access_entry(self, name: str, principal_arn: str) -> None:
        """Delete the access entry; do nothing if it or the cluster is gone."""

    def join(self, name: str, node: KubernetesNode) -> None:
        """Add the node; raise KubernetesUnavailableError if the control plane does not take it."""

    def mark(self, name: str, node: KubernetesNode) -> None:
        """Update labels, annotations and taints of a joined node.

        Raise KubernetesUnavailableError if the control plane does not take the change.
        """

    def leave(self, name: str, node_name: str) -> None:
        """Remove the node; do nothing if it or the cluster is gone.

        Raise KubernetesUnavailableError if the control plane does not take the change.
        """

    def stop_heartbeat(self, name: str, node_name: str) -> None:
        """Stop the node's heartbeat, as when its instance dies."""


class EksOrchestrators:
    """The account's EKS clusters, which have real control planes."""

    def __init__(self, account: "Account") -> None:
        self._account = account

    @cached_property
    def _eks(self) -> Any:
        return boto3.client(
            "eks",
            region_name=self._account.region,
            endpoint_url=self._account.endpoint,
            aws_access_key_id=self._account.keys.access_key_id,
            aws_secret_access_key=self._account.keys.secret_access_key,
        )

    def cluster(self, name: str) -> EksDescription | None:
        try:
            found = self._eks.describe_cluster(name=name)["cluster"]
        except self._eks.exceptions.ResourceNotFoundException:
            return None
        return EksDescription(
            name=name,
            arn=found["arn"],
            status=found["status"],
            authentication_mode=found.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP"),
            vpc_id=found.get("resourcesVpcConfig", {}).get("vpcId", ""),
            version=found.get("version", ""),
        )

    def missing_dependencies(self, name: str) -> list[str]:
        with translated():
            api = self._api(name)
            agents = _names(api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"))
            accounts = _names(api.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"))
        missing = []
        if not any(AGENT in agent for agent in agents):
            missing.append(f"DaemonSet {AGENT} in namespace {NAMESPACE}")
        if DEEP_CHECK_ACCOUNT not in accounts:
            missing.append(f"ServiceAccount {DEEP_CHECK_ACCOUNT} in namespace {NAMESPACE}")
        return missing

    def add_access_entry(self, name: str, principal_arn: str, **properties: Any) -> bool:
        try:
            self._eks.create_access_entry(clusterName=name, principalArn=principal_arn, **properties)
        except self._eks.exceptions.ResourceInUseException:
            return False
        return True

    def remove_access_entry(self, name: str, principal_arn: str) -> None:
        try:
            self._eks.delete_access_entry(clusterName=name, principalArn=principal_arn)
        except self._eks.exceptions.ResourceNotFoundException:
            return

    def join(self, name: str, node: KubernetesNode) -> None:
        with translated(ignoring=HTTPStatus.CONFLICT):
            self._running(name).nodes.add(
                node.name,
                labels=node.labels,
                annotations=node.annotations,
                allocatable=node.allocatable,
                capacity=node.allocatable,
                taints=node.taints,
            )

    def mark(self, name: str, node: KubernetesNode) -> None:
        path = f"/api/v1/nodes/{node.name}"
        with translated(ignoring=HTTPStatus.NOT_FOUND):
            api = self._api(name)
            # Keep the taints that Kubernetes itself sets (not ready, unreachable).
            others = [taint for taint in api.get(path)["spec"].get("taints", []) if taint["key"] != HEALTH_LABEL]
            own = [taint for taint in node.taints if taint["key"] == HEALTH_LABEL]
            metadata = {"labels": dict(node.labels), "annotations": dict(node.annotations)}
            api.patch(path, {"metadata": metadata, "spec": {"taints": [*others, *own]}})

    def leave(self, name: str, node_name: str) -> None:
        try:
            running = self._account.clusters.get(name)
        except KeyError:
            return
        with translated(ignoring=HTTPStatus.NOT_FOUND):
            running.nodes.remove(node_name)

    def stop_heartbeat(self, name: str, node_name: str) -> None:
        with translated(ignoring=HTTPStatus.NOT_FOUND):
            self._running(name).nodes.stop_heartbeat(node_name)

    def _api(self, name: str) -> KubernetesClient:
        api: KubernetesClient = self._running(name).control_plane.api
        return api

    def _running(self, name: str) -> Any:
        try:
            return self._account.clusters.get(name)
        except KeyError as error:
            raise KubernetesUnavailableError(f"EKS cluster {name} has no control plane") from error


def _names(listed: dict[str, Any]) -> set[str]:
    return {item["metadata"]["name"] for item in listed["items"]}


@contextmanager
def translated(*, ignoring: int | None = None) -> Iterator[None]:
    """Raise KubernetesUnavailableError for an error of the API server; ignore the HTTP status `ignoring`."""
    try:
        yield
    except KubernetesClientError as error:
        if error.status != ignoring:
            raise KubernetesUnavailableError(str(error)) from error
    except (HTTPError, OSError) as error:
        raise KubernetesUnavailableError(str(error)) from error
