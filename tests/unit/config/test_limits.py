"""The upper limits of an environment's keys are those of AWS's and Kubernetes' APIs."""

from collections.abc import Iterator
from typing import Any, Final

import botocore.session
import pytest

from config.model.environment import every_key

SCHEMA: Final = every_key().model_json_schema()["$defs"]
# Shapes of SageMaker's API, by model and key.
SAGEMAKER: Final = {
    "HyperPod.instance_groups": "ClusterInstanceGroupSpecifications",
    "InstanceGroup.count": "ClusterInstanceCount",
    "InstanceGroup.min_count": "ClusterInstanceCount",
    "TieredStorage.memory_percent": "ClusterInstanceMemoryAllocationPercentage",
}
OTHERS: Final = {
    # The control plane's network interfaces are in two zones (Amazon EKS user guide, network requirements).
    "ExistingVpc.control_plane_subnets": 2,
    # No limit of AWS: the size of our own prefix list.
    "Grafana.public_access_cidrs": 20,
    # HighestUserDefinablePriority of Kubernetes (pkg/apis/scheduling/types.go).
    "RayCluster.priority": 1_000_000_000,
}


def upper_limits() -> Iterator[tuple[str, int]]:
    for name, model in SCHEMA.items():
        for key, field in model.get("properties", {}).items():
            options: list[dict[str, Any]] = [field, *field.get("anyOf", [])]
            yield from (
                (f"{name}.{key}", option[word])
                for option in options
                for word in ("maximum", "maxItems")
                if word in option
            )


@pytest.mark.parametrize(("key", "limit"), list(upper_limits()))
def test_upper_limit_is_that_of_the_api(key: str, limit: int) -> None:
    if key in OTHERS:
        assert limit == OTHERS[key]
    else:
        service = botocore.session.get_session().get_service_model("sagemaker")
        assert limit == service.shape_for(SAGEMAKER[key]).metadata["max"]


def test_every_table_row_is_a_limit() -> None:
    assert {key for key, _ in upper_limits()} == SAGEMAKER.keys() | OTHERS.keys()
