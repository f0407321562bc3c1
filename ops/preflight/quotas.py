"""Read service quotas, and compare one with what the environment asks for and what already runs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from config import Environment
from ops.preflight.check import CheckFinding, failed, passed, warned
from ops.preflight.here import Here


@dataclass(frozen=True)
class Demand:
    """What an environment needs of one quota.

    `service` is the code of Service Quotas. `code` is the quota's code; SageMaker has a quota for each instance type,
    and they are found by name. `used` counts everything but the environment's own. `estimated`: warn only.
    """

    service: str
    name: str
    asked: int
    used: int
    code: str = ""
    estimated: bool = False


@dataclass(frozen=True)
class _Quota:
    code: str
    value: float


def compared(here: Here[Environment], demands: Iterable[Demand]) -> Iterator[CheckFinding]:
    """Yield a result for each demand.

    AWS: service-quotas GetServiceQuota by code, else ListServiceQuotas by name; for quotas that were never changed
    GetAWSDefaultServiceQuota and ListAWSDefaultServiceQuotas. Source: Service Quotas API reference.
    """
    demands = list(demands)
    named = _by_name(here, {(each.service, each.name) for each in demands if not each.code})
    for demand in demands:
        quota = _by_code(here, demand) if demand.code else named.get(demand.name)
        yield _compared(here, demand, quota)


def _compared(here: Here[Environment], demand: Demand, quota: _Quota | None) -> CheckFinding:
    region, about = here.environment.region, f"{demand.service}: {demand.name}"
    if quota is None:
        console = f"https://{region}.console.aws.amazon.com/servicequotas/home/services/{demand.service}/quotas"
        return warned(f"{region} has no quota of this name", f"find its name in {console}", about)
    needed = demand.asked + demand.used
    parts = f": {demand.asked:,} for this environment, {demand.used:,} in use" if demand.used else ""
    found = f"{quota.value:,.0f} allowed, {needed:,} needed{parts}"
    if needed <= quota.value:
        return passed(found, about)
    fix = (
        f"aws service-quotas request-service-quota-increase --service-code {demand.service} "
        f"--quota-code {quota.code} --desired-value {needed} --region {region}"
    )
    return warned(f"{found} (estimate)", fix, about) if demand.estimated else failed(found, fix, about)


def _by_code(here: Here[Environment], demand: Demand) -> _Quota | None:
    """Return the account's value, else AWS's default; None if the region has no such quota."""
    client = here.client("service-quotas")
    for get in (client.get_service_quota, client.get_aws_default_service_quota):
        try:
            quota = get(ServiceCode=demand.service, QuotaCode=demand.code)["Quota"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchResourceException":
                raise
        else:
            return _Quota(quota["QuotaCode"], quota["Value"])
    return None


def _by_name(here: Here[Environment], wanted: set[tuple[str, str]]) -> dict[str, _Quota]:
    """Return the quotas of these services and names."""
    found: dict[str, _Quota] = {}
    for service in {service for service, _ in wanted}:
        missing = {name for each, name in wanted if each == service}
        for quota in _listed(here, service):
            if quota["QuotaName"] in missing:
                missing.remove(quota["QuotaName"])
                found[quota["QuotaName"]] = _Quota(quota["QuotaCode"], quota["Value"])
            # SageMaker has thousands of quotas, a hundred a page.
            if not missing:
                break
    return found


def _listed(here: Here[Environment], service: str) -> Iterator[Mapping[str, Any]]:
    """Yield the account's quotas, then AWS's defaults."""
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        pages = here.client("service-quotas").get_paginator(operation)
        for page in pages.paginate(ServiceCode=service, PaginationConfig={"PageSize": 100}):
            yield from page["Quotas"]
