"""The viewers' roles: they read what the environment has in Kubernetes, and nothing that changes or runs anything."""

from collections.abc import Iterator
from typing import Any

import cdk8s
import pytest

from config import load
from k8s_charts.ray.viewers import ViewersChart
from k8s_charts.ray_objects import ray_objects
from k8s_charts.shared.names import viewers_group
from tests.charts.support.facts import RAY_FACTS

Object = dict[str, Any]
CLOSED = {
    *("secrets", "configmaps", "serviceaccounts", "serviceaccounts/token"),
    *("pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"),
}


@pytest.fixture(scope="module")
def made() -> list[Object]:
    chart = ViewersChart(cdk8s.App(), "viewers", ray_namespace="ray", namespaces=["ray", "kuberay"])
    return list(chart.to_json())


def of_kind(made: list[Object], kind: str) -> list[Object]:
    return [item for item in made if item["kind"] == kind]


def rules(made: list[Object]) -> Iterator[Object]:
    for item in made:
        yield from item.get("rules", ())


def test_every_rule_only_reads(made: list[Object]) -> None:
    assert {verb for rule in rules(made) for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_nothing_that_holds_secrets_or_runs_code_is_in_a_rule(made: list[Object]) -> None:
    resources = {resource for rule in rules(made) for resource in rule["resources"]}
    assert not resources & CLOSED
    assert not [each for each in resources if "*" in each]
    assert "*" not in {group for rule in rules(made) for group in rule["apiGroups"]}


def test_every_binding_is_for_the_group_of_the_access_entries(made: list[Object]) -> None:
    bindings = [*of_kind(made, "RoleBinding"), *of_kind(made, "ClusterRoleBinding")]
    assert len(bindings) == 3
    for binding in bindings:
        assert [(each["kind"], each["name"]) for each in binding["subjects"]] == [("Group", viewers_group("ray"))]
        kind = binding["kind"].removesuffix("Binding")
        role = (kind, binding["roleRef"]["name"], binding["metadata"].get("namespace"))
        assert binding["roleRef"]["kind"] == kind
        assert role in {(item["kind"], item["metadata"]["name"], item["metadata"].get("namespace")) for item in made}


def test_pods_are_read_in_namespaces_of_the_environment_only(made: list[Object]) -> None:
    [everywhere] = of_kind(made, "ClusterRole")
    assert {resource for rule in everywhere["rules"] for resource in rule["resources"]} == {
        *("nodes", "persistentvolumes", "events")
    }
    assert {role["metadata"]["namespace"] for role in of_kind(made, "Role")} == {"ray", "kuberay"}


def test_an_environment_without_viewers_has_no_such_role() -> None:
    assert ray_objects(load("small"), RAY_FACTS).viewers is None


def test_the_environments_namespaces_have_one_role_each() -> None:
    chart = ray_objects(load("dev"), RAY_FACTS).viewers
    assert chart is not None
    namespaces = [item["metadata"]["namespace"] for item in of_kind(chart.to_json(), "Role")]
    assert sorted(namespaces) == ["image-build", "kuberay", "ray", "ray-volume"]
