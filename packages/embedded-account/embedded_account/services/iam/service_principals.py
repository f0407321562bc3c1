"""Know which names of services a policy can have as principals, such as lambda.amazonaws.com."""

from functools import cache
from typing import Final

import botocore.session

# AWS publishes no list. These names are no prefix of an endpoint; each is in a page of its service's documentation.
_MORE: Final = {
    "config-multiaccountsetup", "costalerts", "ecs-tasks", "edgelambda", "eks-fargate-pods", "eks-nodegroup",
    "export.rds", "lexv2", "macie", "ops.apigateway", "spot", "spotfleet", "trustedadvisor", "vpc-flow-logs",
}  # fmt: skip
_SUFFIXES: Final = (".amazonaws.com", ".amazonaws.com.cn", ".aws.internal")


def is_service(principal: str) -> bool:
    """Return whether a service of AWS has this name. Its region, and a part of the service, may be in front of it."""
    for suffix in _SUFFIXES:
        name = principal.removesuffix(suffix)
        if name != principal:
            return name in _MORE or any(part in _known() for part in (name, *name.split(".")))
    return False


@cache
def _known() -> frozenset[str]:
    """Return the prefixes of the endpoints of all services in botocore's data, and botocore's names of services."""
    session = botocore.session.Session()
    endpoints = session.get_component("data_loader").load_data("endpoints")
    prefixes = {name for partition in endpoints["partitions"] for name in partition["services"]}
    return frozenset(
        prefixes | {part for name in prefixes for part in name.split(".")} | {*session.get_available_services()}
    )
