"""Service Quotas: moto's quotas of VPC, and those of HyperPod, EC2, EKS and FSx that moto lacks.

The values are AWS's defaults, those of a new account; `--quotas` sets others. Enforced are those of VPCs, addresses,
internet gateways, and HyperPod's per instance type. AWS publishes no default of most instance types: only those of
accelerators that a new account lacks are 0, all others are high, and so is the quota of vCPUs.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

import botocore.session
from moto.servicequotas.models import servicequotas_backends
from moto.servicequotas.resources.default_quotas.vpc import VPC_DEFAULT_QUOTAS
from moto.servicequotas.responses import ServiceQuotasResponse

from embedded_account.context import Account
from embedded_account.services.shared.refusal import Refusal

USAGE: Final = "{} for cluster usage"
"""The name of HyperPod's quota of an instance type."""

# The highest InstanceCount that CreateCluster accepts (SageMaker API reference, ClusterInstanceGroupSpecification).
_NO_LIMIT: Final = 6758
_DEFAULTS: Final[Mapping[str, Mapping[str, tuple[str, float]]]] = {
    "ec2": {
        "L-0263D0A3": ("EC2-VPC Elastic IPs", 5),
        "L-1216C47A": ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 640),
    },
    "eks": {"L-1194D53C": ("Clusters", 100)},
    "fsx": {
        "L-FD6F2F22": ("Lustre Persistent_2 file systems", 100),
        "L-8F1B9C74": ("Lustre Persistent_2 storage capacity", 100_800),
    },
    "sagemaker": {
        "L-2CE978FC": ("Maximum number instances allowed per SageMaker HyperPod cluster", _NO_LIMIT),
        "L-3308CCC7": ("Total number of instances allowed across SageMaker HyperPod clusters", _NO_LIMIT),
        "L-E13DF72A": ("Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance", 16_384),
    },
}
_NONE_BY_DEFAULT: Final = ("ml.p", "ml.trn")
"""How the instance types begin of which a new account has none.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html
"""
_PAGE: Final = 100

Limits = Callable[[], Mapping[str, int]]
"""Returns the value of each quota, by its name, that the service enforces now."""


def install(account: Account) -> None:
    """Answer four reads instead of moto, which knows the quotas of VPC only; refuse every other call."""
    here = (account.account_id, account.region)
    _given[here] = account.quotas
    account.at_end.callback(_given.pop, here)
    for operation, applied in (("list_service_quotas", True), ("list_aws_default_service_quotas", False)):
        setattr(ServiceQuotasResponse, operation, _listing(applied=applied))
    for operation, applied in (("get_service_quota", True), ("get_aws_default_service_quota", False)):
        setattr(ServiceQuotasResponse, operation, _getting(applied=applied))


def limit(account_id: str, region: str, service: str, name: str) -> float:
    """Return the account's value of a quota, by its name in Service Quotas."""
    quotas = _quotas(servicequotas_backends[account_id][region], service, applied=True)
    return next(float(quota["Value"]) for quota in quotas if quota["QuotaName"] == name)


def instances_of(account: Account, instance_type: str) -> int | None:
    """Return how many instances of a type the account can have in HyperPod's clusters; None if AWS has no such type."""
    name = USAGE.format(instance_type)
    if name not in {each for each, _ in _instance_types().values()}:
        return None
    return int(limit(account.account_id, account.region, "sagemaker", name))


def enforce(account: Account, service: str, limits: Limits) -> None:
    """Return these values as the account's own: those that a simulator of `service` enforces."""
    key = (account.account_id, account.region, service)
    _limits[key] = limits
    account.at_end.callback(_limits.pop, key)


def apply(account: Account, service: str, code: str, value: float) -> None:
    """Set the account's value of a quota, as if AWS had changed it. Raises Refusal if there is no such quota."""
    backend = servicequotas_backends[account.account_id][account.region]
    _find(_quotas(backend, service, applied=True), code)
    _applied(backend)[service, code] = value


_given: dict[tuple[str, str], Mapping[str, Mapping[str, float]]] = {}
"""The values of the file that the account was started with: by service, and by the quota's name or a pattern of it."""
_limits: dict[tuple[str, str, str], Limits] = {}


def _applied(backend: Any) -> dict[tuple[str, str], float]:
    """Return the values that were set; they end with moto's backend."""
    found: dict[tuple[str, str], float] = backend.__dict__.setdefault("applied", {})
    return found


def _quotas(backend: Any, service: str, *, applied: bool) -> list[dict[str, Any]]:
    """Return the quotas of a service: the account's values, or AWS's defaults."""
    region = backend.region_name
    if service == "vpc":
        defaults = {quota["QuotaCode"]: (quota["QuotaName"], quota["Value"]) for quota in VPC_DEFAULT_QUOTAS}
    elif service == "sagemaker":
        defaults = {**_DEFAULTS[service], **_instance_types()}
    elif service in _DEFAULTS:
        defaults = dict(_DEFAULTS[service])
    else:
        known = ", ".join(("vpc", *_DEFAULTS))
        raise Refusal("NoSuchResourceException", f"The account has no quotas of {service}. Allowed: {known}.")
    values: dict[str, float] = {}
    if applied:
        given = _given.get((backend.account_id, region), {}).get(service, {})
        values |= {
            code: value
            for pattern, value in given.items()
            for code, (name, _) in defaults.items()
            if fnmatchcase(name, pattern)
        }
        enforced = _limits.get((backend.account_id, region, service), dict)()
        values |= {code: enforced[name] for code, (name, _) in defaults.items() if name in enforced}
        values |= {code: value for (each, code), value in _applied(backend).items() if each == service}
    return [
        {
            "ServiceCode": service,
            "ServiceName": service,
            "QuotaArn": f"arn:aws:servicequotas:{region}:{backend.account_id}:{service}/{code}",
            "QuotaCode": code,
            "QuotaName": name,
            "Value": values.get(code, value),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }
        for code, (name, value) in defaults.items()
    ]


@cache
def _instance_types() -> dict[str, tuple[str, float]]:
    """Return a quota for each instance type of HyperPod. The codes are made up: AWS publishes none."""
    shape = botocore.session.Session().get_service_model("sagemaker").shape_for("ClusterInstanceType")
    found: dict[str, tuple[str, float]] = {}
    for kind in shape.metadata["enum"]:
        name = USAGE.format(kind)
        value = 0 if kind.startswith(_NONE_BY_DEFAULT) else _NO_LIMIT
        found[f"L-{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}"] = (name, value)
    return found


def _find(quotas: list[dict[str, Any]], code: str) -> dict[str, Any]:
    for quota in quotas:
        if quota["QuotaCode"] == code:
            return quota
    raise Refusal("NoSuchResourceException", f"The service has no quota {code}.")


def _listing(*, applied: bool) -> Callable[[Any], str]:
    def respond(response: Any) -> str:
        request = _request(response, "ServiceCode", "NextToken", "MaxResults")
        quotas = _quotas(response.backend, request["ServiceCode"], applied=applied)
        start = int(request.get("NextToken") or 0)
        end = start + int(request.get("MaxResults") or _PAGE)
        following = {"NextToken": str(end)} if end < len(quotas) else {}
        return json.dumps({"Quotas": quotas[start:end], **following})

    return respond


def _getting(*, applied: bool) -> Callable[[Any], str]:
    def respond(response: Any) -> str:
        request = _request(response, "ServiceCode", "QuotaCode")
        quotas = _quotas(response.backend, request["ServiceCode"], applied=applied)
        return json.dumps({"Quota": _find(quotas, request["QuotaCode"])})

    return respond


def _request(response: Any, *allowed: str) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(response.body)
    if unknown := sorted(request.keys() - set(allowed)):
        raise Refusal(
            "IllegalArgumentException",
            f"The account does not simulate {', '.join(unknown)}. Allowed: {', '.join(allowed)}.",
        )
    return request
