"""Serve HyperPod's API at moto's SageMaker endpoint: authorise, validate and answer each call."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import camelcase_to_underscores
from moto.sagemaker.responses import SageMakerResponse

from embedded_account.hyperpod import lag, rules, views
from embedded_account.hyperpod.api import listings
from embedded_account.hyperpod.api.health_checks import nodes_to_check
from embedded_account.hyperpod.api.validation import service_model, validate
from embedded_account.hyperpod.errors import (
    HyperPodAccessDeniedError,
    HyperPodApiError,
    NotFoundError,
    ValidationFailedError,
    not_found,
)
from embedded_account.hyperpod.model import JOINED, Node, SimulatedCluster
from embedded_account.hyperpod.permissions import checks as permissions
from embedded_account.hyperpod.permissions import volume_keys
from embedded_account.hyperpod.state import HyperPodService
from embedded_account.hyperpod.views import View
from embedded_account.services.iam.policies import PolicyDecision, UnsupportedPolicyError
from embedded_account.tags import tag_map

MAX_TAGS: Final = 50
TAG_CALLS: Final = ("AddTags", "ListTags", "DeleteTags")
CALLS: Final = (
    *TAG_CALLS,
    *(name for name in service_model().operation_names if "Cluster" in name and "SchedulerConfig" not in name),
)
"""The service model's operations on HyperPod clusters. One without a handler is refused and never reaches moto."""


class HyperPodApi:
    """Answers HyperPod's API calls: validate, check permissions, inject faults, then call the simulator."""

    def __init__(self, hyperpod: HyperPodService) -> None:
        self._hyperpod = hyperpod
        self._world = hyperpod.world
        self.handlers: Mapping[str, Callable[[View, str], View]] = {
            "CreateCluster": self._create,
            "UpdateCluster": self._update,
            "DeleteCluster": self._delete,
            "UpdateClusterSoftware": self._update_software,
            "BatchDeleteClusterNodes": self._batch_delete,
            "BatchReplaceClusterNodes": self._batch_replace,
            "BatchRebootClusterNodes": self._batch_reboot,
            "StartClusterHealthCheck": self._start_health_check,
            "AddTags": self._add_tags,
            "DeleteTags": self._delete_tags,
            "ListClusters": lambda request, _: listings.list_clusters(self._known(), request),
            "ListTags": lambda request, _: {"Tags": lag.seen_tags(self._world, self._tagged(request))},
            "ListClusterNodes": self._about_one(listings.list_nodes),
            "ListClusterEvents": self._about_one(listings.list_events),
            "ListClusterOperations": self._about_one(listings.list_operations),
            "DescribeCluster": self._describe,
            "DescribeClusterNode": self._about_one(_describe_node),
            "DescribeClusterEvent": self._about_one(_describe_event),
            "DescribeClusterOperation": self._about_one(_describe_operation),
        }

    def answer(self, operation: str, request: View, access_key: str) -> View:
        """Carry out one call and return its response; raise ApiError with SageMaker's code and message."""
        if operation not in self.handlers:
            raise ValidationFailedError(
                f"The rehearsal does not simulate {operation}. Allowed: {', '.join(self.handlers)}."
            )
        with self._hyperpod.lock:
            self._hyperpod.tick()
            arn = self._arn(request) or self._hyperpod.new_arn()
            try:
                validate(operation, request)
                caller = self._authorize(operation, request, arn, access_key)
                self._world.faults.raise_for(operation, after=False)
                with lag.lagging(self._world):
                    view = self.handlers[operation](request, arn)
                self._world.faults.raise_for(operation, after=True)
            except HyperPodApiError as error:
                self._record(operation, request, refused=f"{error.code}: {error.message}")
                raise
            self._record(operation, request, caller=caller)
            return view

    def _record(self, operation: str, request: View, **outcome: str) -> None:
        cluster = request.get("ClusterName", request.get("ResourceArn", ""))
        self._world.record("api", service="sagemaker", operation=operation, cluster=cluster, **outcome)

    def _authorize(self, operation: str, request: View, arn: str, access_key: str) -> str:
        """Return the caller's ARN.

        Raise AccessDeniedError if the caller lacks permission for the operation itself, or for an action that the
        service performs on the caller's behalf.
        """
        caller = self._world.surroundings.caller(access_key)
        if caller.grants is None:
            return caller.arn
        try:
            refused = permissions.denied(caller.grants, permissions.needs(self._call(operation, request, arn)))
        except UnsupportedPolicyError as error:
            raise HyperPodAccessDeniedError(
                f"The rehearsal cannot evaluate the policies of {caller.arn}: {error}"
            ) from error
        if refused:
            need, decision = refused
            because = (
                "with an explicit deny in an identity-based policy"
                if decision is PolicyDecision.EXPLICIT_DENY
                else f"because no identity-based policy allows the {need.action} action"
            )
            raise HyperPodAccessDeniedError(
                f"User: {caller.arn} is not authorized to perform: {need.action} on resource: {need.resource} {because}"
            )
        return caller.arn

    def _call(self, operation: str, request: View, arn: str) -> permissions.HyperPodCall:
        cluster = self._existing(request)
        orchestrator = (cluster.request if cluster else request).get("Orchestrator", {})
        groups = request.get("InstanceGroups", [])
        if operation == "DeleteCluster" and cluster:
            groups = [group.specification for group in cluster.groups.values()]
        roles = [group.get("ExecutionRole", "") for group in groups] + [request.get("ClusterRole", "")]
        return permissions.HyperPodCall(
            operation=operation,
            cluster_arn=arn,
            eks_cluster_arn=orchestrator.get("Eks", {}).get("ClusterArn", ""),
            roles=tuple(dict.fromkeys(role for role in roles if role)),
            training_plans=tuple(group["TrainingPlanArn"] for group in groups if "TrainingPlanArn" in group),
            image_ids=tuple(group["ImageId"] for group in groups if group.get("ImageId", "default") != "default"),
            keys=tuple(dict.fromkeys(key for group in groups for key in volume_keys.of(group).values())),
            tags={tag.get("Key", ""): tag.get("Value", "") for tag in request.get("Tags", [])},
            cluster_tags=cluster.tag_values if cluster else {},
            service_linked_role_exists=self._world.surroundings.service_linked_role() is not None,
        )

    def _existing(self, request: View) -> SimulatedCluster | None:
        wanted = request.get("ClusterName", request.get("ResourceArn"))
        return next((each for each in self._world.clusters.values() if wanted in {each.name, each.arn}), None)

    def _arn(self, request: View) -> str:
        """Return the ARN of the cluster that the request names; "" if there is no such cluster."""
        cluster = self._existing(request)
        return cluster.arn if cluster else ""

    def _about_one(self, answer: Callable[[SimulatedCluster, View], View]) -> Callable[[View, str], View]:
        return lambda request, _: answer(self._hyperpod.cluster(request["ClusterName"]), request)

    def _create(self, request: View, arn: str) -> View:
        _check_tags({tag["Key"] for tag in request.get("Tags", [])}, len(request.get("Tags", [])))
        return {"ClusterArn": self._hyperpod.create(arn, request).arn}

    def _update(self, request: View, _arn: str) -> View:
        cluster = self._hyperpod.cluster(request["ClusterName"])
        self._hyperpod.update(cluster, request)
        return {"ClusterArn": cluster.arn}

    def _delete(self, request: View, _arn: str) -> View:
        cluster = self._hyperpod.cluster(request["ClusterName"])
        self._hyperpod.delete(cluster)
        return {"ClusterArn": cluster.arn}

    def _update_software(self, request: View, _arn: str) -> View:
        cluster = self._hyperpod.cluster(request["ClusterName"])
        names = [group["InstanceGroupName"] for group in request.get("InstanceGroups", [])]
        unknown = [name for name in names if name not in cluster.groups]
        if unknown or "ImageId" in request:
            raise ValidationFailedError(
                f"Unknown instance groups: {unknown}" if unknown else "ImageId is not simulated."
            )
        self._hyperpod.update_software(cluster, names)
        return {"ClusterArn": cluster.arn}

    def _batch_delete(self, request: View, _arn: str) -> View:
        cluster = self._hyperpod.cluster(request["ClusterName"])
        rules.check_takes_changes(cluster)
        nodes, failed = _sort_out(cluster, request, unknown="NodeIdNotFound", not_now="InvalidNodeStatus", key="Code")
        self._hyperpod.delete_nodes(cluster, nodes)
        return {"Successful": [node.instance_id for node in nodes], "Failed": failed}

    def _batch_replace(self, request: View, _arn: str) -> View:
        return self._batch(request, self._hyperpod.nodes.request_replacement)

    def _batch_reboot(self, request: View, _arn: str) -> View:
        return self._batch(request, self._hyperpod.nodes.request_reboot)

    def _batch(self, request: View, act: Callable[[SimulatedCluster, Node], None]) -> View:
        cluster = self._hyperpod.cluster(request["ClusterName"])
        nodes, failed = _sort_out(
            cluster, request, unknown="InstanceIdNotFound", not_now="InvalidInstanceStatus", key="ErrorCode"
        )
        for node in nodes:
            act(cluster, node)
        self._hyperpod.tick()
        return {"Successful": [node.instance_id for node in nodes], "Failed": failed}

    def _start_health_check(self, request: View, _arn: str) -> View:
        """Check every request first, then start: a refused request starts no check."""
        cluster = self._hyperpod.cluster(request["ClusterName"])
        nodes = nodes_to_check(cluster, request["DeepHealthCheckConfigurations"])
        for node in nodes:
            self._hyperpod.nodes.start_deep_check(cluster, node)
        return {"ClusterArn": cluster.arn}

    def _known(self) -> list[SimulatedCluster]:
        return [cluster for cluster in self._world.clusters.values() if lag.is_known(self._world, cluster)]

    def _describe(self, request: View, _arn: str) -> View:
        cluster = self._hyperpod.cluster(request["ClusterName"])
        if not lag.is_known(self._world, cluster):
            raise not_found(cluster.name)
        return lag.seen(self._world, cluster)

    def _tagged(self, request: View) -> SimulatedCluster:
        """Return the cluster that a tag call names; raise ValidationFailedError if readers do not know it.

        The service model lists no errors for tag calls, so ResourceNotFound is not available here.
        """
        arn = request["ResourceArn"]
        cluster = self._existing(request)
        if cluster is None or not lag.is_known(self._world, cluster):
            raise ValidationFailedError(f"Resource {arn} does not exist.")
        return cluster

    def _add_tags(self, request: View, _arn: str) -> View:
        cluster = self._tagged(request)
        added = tag_map(request["Tags"])
        _check_tags(cluster.tag_values.keys() | added.keys(), len(cluster.tag_values.keys() | added.keys()))
        cluster.tag_values |= added
        return {"Tags": cluster.tags}

    def _delete_tags(self, request: View, _arn: str) -> View:
        cluster = self._tagged(request)
        for key in request["TagKeys"]:
            cluster.tag_values.pop(key, None)
        return {}


@contextmanager
def serving(api_of: Callable[[str, str], HyperPodApi | None]) -> Iterator[None]:
    """Answer HyperPod's calls with the simulator instead of moto's SageMaker until the context ends.

    moto lacks UpdateCluster, events, states and tags for a cluster's ARN, and it validates nothing. moto still
    answers tag calls for other resources, and all calls in accounts and regions without a simulator.

    Args:
        api_of: Returns the API for an account id and a region, or None if that account has no simulator there.
    """
    replaced = {camelcase_to_underscores(operation): _answering(operation, api_of) for operation in CALLS}
    before = {name: SageMakerResponse.__dict__.get(name) for name in replaced}
    for name, method in replaced.items():
        setattr(SageMakerResponse, name, method)
    try:
        yield
    finally:
        for name, method in before.items():
            if method is None:
                delattr(SageMakerResponse, name)
            else:
                setattr(SageMakerResponse, name, method)


def _answering(operation: str, api_of: Callable[[str, str], HyperPodApi | None]) -> Callable[[Any], Any]:
    original = getattr(SageMakerResponse, camelcase_to_underscores(operation), None)

    def method(response: Any) -> Any:
        api = api_of(response.current_account, response.region)
        request = json.loads(response.body or "{}")
        others_tags = operation in TAG_CALLS and ":cluster/" not in str(request.get("ResourceArn"))
        if api is None or others_tags:
            if original is None:
                raise ValidationFailedError(f"The rehearsal simulates {operation} in its own account and region only.")
            return original(response)
        return ActionResult(api.answer(operation, request, response.get_access_key()))

    return method


def _sort_out(
    cluster: SimulatedCluster, request: View, *, unknown: str, not_now: str, key: str
) -> tuple[list[Node], list[View]]:
    """Return the requested nodes that have joined, and the API's failure entries for all others.

    Args:
        cluster: The cluster whose nodes are meant.
        request: A Batch… request with NodeIds.
        unknown: Error code for an id that the cluster does not have.
        not_now: Error code for a node that has not joined or is leaving.
        key: The failure entry's field for the error code.
    """
    if "NodeLogicalIds" in request:
        raise ValidationFailedError("The rehearsal does not simulate NodeLogicalIds. Fix: use NodeIds.")
    nodes: list[Node] = []
    failed: list[View] = []
    for node_id in request.get("NodeIds", []):
        node = cluster.nodes.get(node_id)
        if node is None:
            failed.append({"NodeId": node_id, key: unknown, "Message": f"Instance {node_id} was not found"})
        elif node.status not in JOINED:
            failed.append(
                {"NodeId": node_id, key: not_now, "Message": f"Instance {node_id} is in status {node.status}"}
            )
        else:
            nodes.append(node)
    return nodes, failed


def _check_tags(keys: set[str], count: int) -> None:
    if len(keys) != count:
        raise ValidationFailedError("Duplicate tag keys found. Each tag key must be unique.")
    if count > MAX_TAGS:
        raise ValidationFailedError(f"A resource can have {MAX_TAGS} tags, not {count}.")


def _describe_node(cluster: SimulatedCluster, request: View) -> View:
    node = cluster.nodes.get(request.get("NodeId", ""))
    if node is None:
        raise NotFoundError(f"Instance {request.get('NodeId')} was not found in cluster {cluster.name}")
    return {"NodeDetails": views.node_details(cluster, node)}


def _describe_event(cluster: SimulatedCluster, request: View) -> View:
    listings.require_events(cluster)
    for event in cluster.events:
        if event.event_id == request["EventId"]:
            return {"EventDetails": views.event_view(cluster, event, details=True)}
    raise NotFoundError(f"Event {request['EventId']} was not found in cluster {cluster.name}")


def _describe_operation(cluster: SimulatedCluster, request: View) -> View:
    for operation in cluster.operations:
        if operation.operation_id == request["OperationId"]:
            return views.operation_view(cluster, operation, details=True)
    raise NotFoundError(f"Operation {request['OperationId']} was not found in cluster {cluster.name}")
