"""HyperPod's features for Ray, held against our Ray pods."""

from typing import Any, Final

import config
from config import EksEnvironment
from config.facts import hyperpod_ray
from config.load import EXAMPLES
from config.model import RayCluster, SecretVariable
from k8s_charts.ray.cluster import ray_cluster_spec
from k8s_charts.ray.from_environment import ray_cluster
from tests.unit.contracts.contract import read

FACTS: Final = read("hyperpod_ray")


def variables(kuberay: str, **changes: object) -> list[dict[str, Any]]:
    """Return the variable's entries in the Ray containers of a head and its workers."""
    loaded = config.load_as(EksEnvironment, "small", EXAMPLES)
    version = loaded.kuberay.model_copy(update={"version": kuberay})
    [cluster, *_] = loaded.ray.clusters
    changed = RayCluster.model_validate({**dict(cluster), **changes})
    spec = ray_cluster_spec(ray_cluster(loaded.model_copy(update={"kuberay": version}), changed, "image"))
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    found = [group["template"]["spec"]["containers"][0]["env"] for group in groups]
    return [each for env in found for each in env if each["name"] == FACTS["variable"]["name"]]


def test_product_gives_ray_pods_the_address_of_their_node_from_the_kuberay_on_that_aws_supports() -> None:
    wanted = {
        "name": FACTS["variable"]["name"],
        "valueFrom": {"fieldRef": {"fieldPath": FACTS["variable"]["field"]}},
    }
    assert variables("1.6.2") == [wanted, wanted]
    assert variables("1.2.0") == []
    assert hyperpod_ray.watches(FACTS["kuberay"])
    assert not hyperpod_ray.watches("1.5.1")


def test_product_leaves_the_variable_to_a_raycluster_that_sets_it() -> None:
    name = FACTS["variable"]["name"]
    assert variables("1.6.2", env={name: "192.0.2.1"}) == [{"name": name, "value": "192.0.2.1"}] * 2
    secret = SecretVariable(env=name, secret="jma", key="host")
    found = variables("1.6.2", secrets=(secret,))
    assert [each["valueFrom"] for each in found] == [{"secretKeyRef": {"name": "jma", "key": "host"}}] * 2
