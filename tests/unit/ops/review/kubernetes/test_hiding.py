"""What somebody may hide a Kubernetes change behind: owners of images, hooks, groups of one name, addresses outside."""

from typing import Any

import pytest

from ops.review.kubernetes.objects import ApplyingResource, KubernetesObject
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.definitions import review_admission
from ops.review.kubernetes.rules.pods.images import foreign as foreign_image
from ops.review.kubernetes.rules.pods.images import registry
from ops.review.kubernetes.rules.ray_clusters import review_ray_cluster
from ops.review.kubernetes.sides import _is_hook
from ops.review.model import Danger

CONTEXT = RuleContext("dev", {}, {})


@pytest.mark.parametrize(
    ("before", "after", "foreign"),
    [
        ("rayproject/ray:2", "somebody/ray:2", True),
        ("quay.io/kuberay/operator:1", "quay.io/somebody/operator:1", True),
        ("rayproject/ray:2", "1.dkr.ecr.somebody.example/ray:2", True),
        ("rayproject/ray:2", "rayproject/ray-ml:3", False),
        ("rayproject/ray:2", "111122223333.dkr.ecr.us-west-2.amazonaws.com/ray:2", False),
        ("rayproject/ray:2", "999999999999.dkr.ecr.us-west-2.amazonaws.com/ray:2", True),
        ("rayproject/ray:2", "<Ref AWS::AccountId>.dkr.ecr.us-west-2.<Ref AWS::URLSuffix>/ray:2", False),
    ],
)
def test_in_a_public_registry_the_owner_counts(before: str, after: str, foreign: bool) -> None:
    assert foreign_image(after, {registry(before)}, {"111122223333"}) is foreign


@pytest.mark.parametrize(("hook", "only_test"), [("test", True), ("test-success", True), ("test,pre-install", False)])
def test_a_hook_that_also_runs_at_the_deployment_is_reviewed(hook: str, only_test: bool) -> None:
    body: dict[str, Any] = {"kind": "Job", "metadata": {"annotations": {"helm.sh/hook": hook}}}
    assert _is_hook(KubernetesObject(ApplyingResource("ray", "A", {}), body)) is only_test


def test_worker_groups_of_one_name_are_unknown() -> None:
    group = {"groupName": "a", "replicas": 1}
    before, after = (
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "a"}, "spec": {"workerGroupSpecs": each}}
        for each in ([group], [{**group, "template": {"spec": {"hostNetwork": True}}}, group])
    )
    assert Danger.UNKNOWN in {each for found in review_ray_cluster(before, after, CONTEXT) for each in found.dangers}


@pytest.mark.parametrize(
    ("client", "dangers"), [({"url": "https://a.example"}, {Danger.UNKNOWN}), ({"service": {"name": "a"}}, set())]
)
def test_a_new_webhook_outside_the_cluster_is_unknown(client: dict[str, Any], dangers: set[Danger]) -> None:
    body = {"kind": "ValidatingWebhookConfiguration", "webhooks": [{"name": "a", "clientConfig": client}]}
    assert {each for found in review_admission(None, body, CONTEXT) for each in found.dangers} == dangers
