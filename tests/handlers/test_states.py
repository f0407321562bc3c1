"""Every verb in every state that it can find."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from handlers.hyperpod_cluster import index
from tests.handlers.framework import OTHER_STACK, CloudFormation, Properties, Response

TEARDOWN: dict[str, Any] = {"ResourceType": index.TEARDOWN, "LogicalResourceId": "Teardown"}


class Situation:
    """A cluster `ml-cluster` in some state before the verb comes."""

    def __init__(self, cloudformation: CloudFormation, properties: Properties) -> None:
        self.cloudformation, self.properties = cloudformation, properties
        self.bench: HyperPodBench = cloudformation.bench
        self.operator = self.bench.client("sagemaker")

    def accepted(self) -> None:
        """Creating: the answer to CreateCluster has just come."""
        self.cloudformation.kill("CreateCluster")
        self.cloudformation.create(self.properties)

    def created(self) -> None:
        assert self.cloudformation.create(self.properties).succeeded
        self.bench.advance(60)

    def failed(self) -> None:
        self.bench.fault(fail_creation="No capacity.")
        assert not self.cloudformation.create(self.properties).succeeded

    def updating(self) -> None:
        self.created()
        self.operator.update_cluster(ClusterName="ml-cluster", InstanceGroups=self.properties["InstanceGroups"])

    def rolling_back(self) -> None:
        del self.properties["NodeProvisioningMode"]
        self.created()
        groups = deepcopy(self.properties["InstanceGroups"])
        groups[1]["InstanceCount"] = 9
        self.bench.fault(capacity={"ml.p5.48xlarge": 2})
        self.operator.update_cluster(ClusterName="ml-cluster", InstanceGroups=groups)
        self.bench.advance(2)

    def updating_software(self) -> None:
        self.created()
        self.operator.update_cluster_software(ClusterName="ml-cluster")

    def deleting(self) -> None:
        self.created()
        self.operator.delete_cluster(ClusterName="ml-cluster")

    def of_another_stack(self) -> None:
        assert self.cloudformation.create(self.properties, StackId=OTHER_STACK).succeeded

    def of_nobody(self) -> None:
        self.operator.create_cluster(**self.bench.request())
        self.bench.advance(60)

    def absent(self) -> None:
        """There is no cluster."""


STATES: dict[str, tuple[Callable[[Situation], None], str]] = {
    "": (Situation.absent, ""),
    "Creating": (Situation.accepted, "Creating"),
    "InService": (Situation.created, "InService"),
    "Failed": (Situation.failed, "Failed"),
    "Updating": (Situation.updating, "Updating"),
    "RollingBack": (Situation.rolling_back, "RollingBack"),
    "SystemUpdating": (Situation.updating_software, "SystemUpdating"),
    "Deleting": (Situation.deleting, "Deleting"),
    "another stack's": (Situation.of_another_stack, "InService"),
    "nobody's": (Situation.of_nobody, "InService"),
}
DONE = ""
# What each verb must come to: DONE, or the beginning of the reason.
OUTCOMES: dict[str, dict[str, str]] = {
    "Create": {
        "": DONE,
        "Creating": DONE,
        "InService": DONE,
        "Failed": "HyperPod cluster ml-cluster is Failed: No capacity.",
        "Updating": DONE,
        "RollingBack": "HyperPod cluster ml-cluster is RollingBack: ",
        "SystemUpdating": DONE,
        "Deleting": "HyperPod cluster ml-cluster is being deleted by somebody else",
        "another stack's": "HyperPod cluster ml-cluster exists already and belongs to Cluster of stack ",
        "nobody's": "HyperPod cluster ml-cluster exists already and was not made by this stack",
    },
    "Update": {
        "": "HyperPod cluster ml-cluster does not exist any more: destroy this stack",
        "Creating": DONE,
        "InService": DONE,
        "Failed": "HyperPod cluster ml-cluster is Failed and takes no update: destroy this stack",
        "Updating": DONE,
        "RollingBack": DONE,
        "SystemUpdating": DONE,
        "Deleting": "HyperPod cluster ml-cluster is Deleting and takes no update: destroy this stack",
        "another stack's": "HyperPod cluster ml-cluster is not this stack's any more, it belongs to Cluster of stack ",
        "nobody's": "HyperPod cluster ml-cluster carries no tag that names its stack, so it is left alone",
    },
    "Delete": dict.fromkeys(STATES, DONE)
    | {"nobody's": "HyperPod cluster ml-cluster carries no tag that names its stack, so it is left alone"},
    "Teardown": dict.fromkeys(STATES, DONE),
}


def carry_out(verb: str, situation: Situation) -> Response:
    cloudformation, properties = situation.cloudformation, situation.properties
    if verb == "Create":
        return cloudformation.create(properties)
    if verb == "Update":
        new = deepcopy(properties)
        new["InstanceGroups"][0]["InstanceCount"] = 2
        return cloudformation.update("ml-cluster", new, properties)
    return cloudformation.delete("ml-cluster", **(TEARDOWN if verb == "Teardown" else {}))


@pytest.mark.parametrize("state", STATES, ids=lambda state: state or "no cluster")
@pytest.mark.parametrize("verb", OUTCOMES)
def test_verb_comes_to_the_right_end_in_every_state(
    cloudformation: CloudFormation, properties: Properties, verb: str, state: str
) -> None:
    prepare, status = STATES[state]
    situation = Situation(cloudformation, properties)
    prepare(situation)
    clusters = situation.bench.hyperpod.world.clusters
    assert (str(clusters["ml-cluster"].status) if clusters else "") == status
    response = carry_out(verb, situation)
    expected = OUTCOMES[verb][state]
    assert response.succeeded is (expected == DONE), response.reason
    assert response.reason.startswith(expected)
    _check(verb, state, situation, response)


def _check(verb: str, state: str, situation: Situation, response: Response) -> None:
    clusters = situation.bench.hyperpod.world.clusters
    theirs = state in {"another stack's", "nobody's"}
    if theirs:
        cluster = clusters["ml-cluster"]
        assert (cluster.status, cluster.groups["head-group"].target) == ("InService", 1)
    elif verb in {"Delete", "Teardown"}:
        assert not clusters
    elif response.succeeded:
        cluster = clusters["ml-cluster"]
        assert (cluster.status, cluster.groups["head-group"].target) == ("InService", 2 if verb == "Update" else 1)
