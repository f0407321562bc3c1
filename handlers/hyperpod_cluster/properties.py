"""Convert CloudFormation's strings to the types of the API, by the shapes of botocore's service model."""

from collections.abc import Callable, Mapping
from typing import Any

from botocore.model import ListShape, MapShape, ServiceModel, Shape, StructureShape

from .consequences import UNSUPPORTED
from .errors import RefusedRequestError


def create_request(properties: Mapping[str, Any], model: ServiceModel) -> dict[str, Any]:
    """Return the properties as CreateCluster's request.

    Raises RefusedRequestError for an unknown field, a value of the wrong type, a cluster or a group without a name, and
    a group without ThreadsPerCore: an UpdateCluster that leaves ThreadsPerCore out would reset it.
    """
    shape = model.operation_model("CreateCluster").input_shape
    unsupported = properties.keys() & UNSUPPORTED
    if unsupported:
        raise RefusedRequestError(f"{', '.join(sorted(unsupported))}: not supported by this resource")
    request: dict[str, Any] = _cast(properties, shape, "")
    if "ClusterName" not in request:
        raise RefusedRequestError("ClusterName is missing")
    for position, group in enumerate(request.get("InstanceGroups", [])):
        if "InstanceGroupName" not in group:
            raise RefusedRequestError(f"InstanceGroups[{position}]: InstanceGroupName is missing")
        if "ThreadsPerCore" not in group:
            raise RefusedRequestError(f"instance group {group['InstanceGroupName']}: ThreadsPerCore is missing")
    return request


def _cast(value: Any, shape: Shape | None, path: str) -> Any:
    if isinstance(shape, StructureShape):
        # CDK leaves empty objects out of a template, and Orchestrator.Slurm is one.
        value = {} if value == "{}" else value
        return _structure(_of_type(value, dict, shape, path), shape, path)
    if isinstance(shape, ListShape):
        return [_cast(item, shape.member, f"{path}[{i}]") for i, item in enumerate(_of_type(value, list, shape, path))]
    if isinstance(shape, MapShape):
        return {
            key: _cast(item, shape.value, f"{path}.{key}") for key, item in _of_type(value, dict, shape, path).items()
        }
    if shape is None or shape.type_name not in _SCALARS:
        return value
    try:
        return _SCALARS[shape.type_name](value)
    except (ValueError, TypeError):
        raise RefusedRequestError(f"{path}: {value!r} is not of type {shape.type_name}") from None


def _structure(value: Mapping[str, Any], shape: StructureShape, path: str) -> dict[str, Any]:
    for name in value:
        if name not in shape.members:
            where = path or "CreateCluster"
            raise RefusedRequestError(f"{where}: unknown field {name!r}; allowed: {', '.join(shape.members)}")
    return {name: _cast(item, shape.members[name], f"{path}.{name}".lstrip(".")) for name, item in value.items()}


def _of_type(value: Any, wanted: type, shape: Shape, path: str) -> Any:
    if not isinstance(value, wanted):
        raise RefusedRequestError(f"{path}: {value!r} is not of type {shape.type_name}")
    return value


def _boolean(value: Any) -> bool:
    if str(value).lower() not in {"true", "false"}:
        raise ValueError(value)
    return str(value).lower() == "true"


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": _boolean,
    "string": str,
}
