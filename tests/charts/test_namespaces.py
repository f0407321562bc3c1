"""The project's namespaces: which pods may run there, as whom, and which objects are never allowed."""

from collections.abc import Iterator

import pytest

from config import EksEnvironment, available, load
from k8s_charts.shared.limits import NO_PUBLIC_SERVICE
from tests.charts.support.connection_table import Matrix
from tests.charts.support.facts import Object

# Namespaces whose level is above `restricted`, and the pods that need it.
LEVELS = {"image-build": "privileged", "ray-volume": "baseline"}

# The objects whose pods get a token for the Kubernetes API.
WITH_TOKEN = {"ray-reaper", "job-supervisor"}


@pytest.fixture(scope="module", params=available())
def environment(request: pytest.FixtureRequest) -> EksEnvironment:
    return load(request.param)


@pytest.fixture(scope="module")
def made(environment: EksEnvironment) -> Matrix:
    return Matrix(environment)


def names(items: list[Object]) -> set[str]:
    return {item["metadata"]["name"] for item in items}


def pod_specs(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """Yield each pod template with the name of its owner."""
    for item in objects:
        name, spec = item["metadata"]["name"], item.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if item["kind"] == "RayCluster":
            for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
                yield name, group["template"]["spec"]
        elif "template" in spec:
            yield name, spec["template"]["spec"]


def test_every_namespace_states_its_pod_security_in_all_modes_for_the_clusters_version(
    environment: EksEnvironment, made: Matrix
) -> None:
    for namespace in made.of_kind("Namespace"):
        level = LEVELS.get(namespace["metadata"]["name"], "restricted")
        labels = {key: value for key, value in namespace["metadata"]["labels"].items() if "pod-security" in key}
        assert labels == {
            f"pod-security.kubernetes.io/{mode}{suffix}": value
            for mode in ("enforce", "audit", "warn")
            for suffix, value in (("", level), ("-version", f"v{environment.eks.version}"))
        }


def test_everything_is_in_a_namespace_of_the_project_or_of_the_system(made: Matrix) -> None:
    used = {item["metadata"].get("namespace") for item in made.objects} - {None}
    assert used <= {*made.namespaces, "kube-system"}


def test_pods_have_a_kubernetes_token_only_where_their_program_calls_the_api(made: Matrix) -> None:
    mounted = {name for name, spec in pod_specs(made.objects) if spec.get("automountServiceAccountToken") is not False}
    assert mounted == WITH_TOKEN


def test_accounts_give_no_token_by_themselves_but_that_of_the_publishers_driver(made: Matrix) -> None:
    giving = [item for item in made.of_kind("ServiceAccount") if item.get("automountServiceAccountToken") is not False]
    assert names(giving) == {"fsx-csi-controller-sa"}


def test_no_namespace_can_hold_a_public_service(made: Matrix) -> None:
    quotas = {item["metadata"]["namespace"]: item["spec"]["hard"] for item in made.of_kind("ResourceQuota")}
    assert quotas.keys() == made.namespaces
    assert all(NO_PUBLIC_SERVICE.items() <= hard.items() for hard in quotas.values())


def test_a_drain_leaves_heads_alone_and_takes_workers(made: Matrix) -> None:
    chosen = [budget["spec"]["selector"]["matchLabels"].items() for budget in made.of_kind("PodDisruptionBudget")]

    def held(pod: str) -> bool:
        return any(labels <= made.pods[pod].labels.items() for labels in chosen)

    assert (held("rayml-head"), held("rayml-worker"), held("operator")) == (True, False, False)
