"""Training plans of SageMaker: search for offers, buy one, describe what was bought.

Simulated: each search has two offers, one that starts now and one that starts in a week, both in the region's first
zone. A plan's status follows the clock of this machine. Nothing enforces a plan: CreateCluster does not ask for it.
"""

import json
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import camelcase_to_underscores
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.sagemaker.models import sagemaker_backends
from moto.sagemaker.responses import SageMakerResponse

from embedded_account.hyperpod.api.validation import validate
from embedded_account.hyperpod.errors import AlreadyInUseError, NotFoundError, ValidationFailedError

if TYPE_CHECKING:
    from embedded_account.context import Account

Request = Mapping[str, Any]
Answer = dict[str, Any]

_TARGET: Final = "hyperpod-cluster"
_WAITS: Final = (timedelta(), timedelta(days=7))
_USD_PER_INSTANCE_HOUR: Final = 30
_DEFAULT_HOURS: Final = 24


def install(account: "Account") -> None:
    """Answer the calls on training plans, which moto lacks; a call that is not listed here is refused."""
    del account
    for operation, answer in (
        ("SearchTrainingPlanOfferings", _search),
        ("CreateTrainingPlan", _create),
        ("DescribeTrainingPlan", _describe),
        ("ListTrainingPlans", _list),
    ):
        setattr(SageMakerResponse, camelcase_to_underscores(operation), _route(operation, answer))


def plans(backend: Any) -> dict[str, Answer]:
    """Return the plans of moto's SageMaker backend, by name; they end with it."""
    found: dict[str, Answer] = backend.__dict__.setdefault("training_plans", {})
    return found


def _route(operation: str, answer: Callable[[Any, Request], Answer]) -> Callable[[Any], ActionResult]:
    def respond(response: Any) -> ActionResult:
        request = json.loads(response.body or "{}")
        validate(operation, request)
        return ActionResult(answer(sagemaker_backends[response.current_account][response.region], request))

    return respond


def _offers(backend: Any) -> dict[str, Answer]:
    found: dict[str, Answer] = backend.__dict__.setdefault("training_plan_offers", {})
    return found


def _search(backend: Any, request: Request) -> Answer:
    _only(request, "InstanceType", "InstanceCount", "DurationHours", "TargetResources", "StartTimeAfter")
    if "InstanceType" not in request:
        raise ValidationFailedError("The account simulates searches by instance type. Fix: give InstanceType.")
    if request.get("TargetResources", [_TARGET]) != [_TARGET]:
        raise ValidationFailedError(f"The account simulates plans of one target. Allowed: {_TARGET}.")
    zone = RegionsAndZonesBackend.zones[backend.region_name][0]
    hours, count = request.get("DurationHours", _DEFAULT_HOURS), request.get("InstanceCount", 1)
    earliest = datetime.fromtimestamp(request.get("StartTimeAfter", datetime.now(UTC).timestamp()), UTC)
    made = []
    for wait in _WAITS:
        start = earliest + wait
        capacity = {
            "ReservedCapacityType": "Instance",
            "InstanceType": request["InstanceType"],
            "InstanceCount": count,
            "AvailabilityZone": zone.name,
            "DurationHours": hours,
            "StartTime": start,
            "EndTime": start + timedelta(hours=hours),
        }
        offer = {
            "TrainingPlanOfferingId": f"tpo-{secrets.token_hex(8)}",
            "TargetResources": [_TARGET],
            "DurationHours": hours,
            "UpfrontFee": str(hours * count * _USD_PER_INSTANCE_HOUR),
            "CurrencyCode": "USD",
            "ReservedCapacityOfferings": [capacity],
        }
        _offers(backend)[offer["TrainingPlanOfferingId"]] = offer
        made.append(offer)
    return {"TrainingPlanOfferings": made}


def _create(backend: Any, request: Request) -> Answer:
    _only(request, "TrainingPlanName", "TrainingPlanOfferingId")
    name = request["TrainingPlanName"]
    offer = _offers(backend).get(request["TrainingPlanOfferingId"])
    if offer is None:
        raise NotFoundError(f"Training plan offering {request['TrainingPlanOfferingId']} not found")
    if name in plans(backend):
        raise AlreadyInUseError(f"Training plan {name} already exists")
    [capacity] = offer["ReservedCapacityOfferings"]
    arn = f"arn:aws:sagemaker:{backend.region_name}:{backend.account_id}"
    zone = next(
        each for each in RegionsAndZonesBackend.zones[backend.region_name] if each.name == capacity["AvailabilityZone"]
    )
    count = capacity["InstanceCount"]
    plans(backend)[name] = {
        "TrainingPlanArn": f"{arn}:training-plan/{name}",
        "TrainingPlanName": name,
        **{key: offer[key] for key in ("TargetResources", "DurationHours", "UpfrontFee", "CurrencyCode")},
        **{key: capacity[key] for key in ("StartTime", "EndTime")},
        "TotalInstanceCount": count,
        "AvailableInstanceCount": count,
        "InUseInstanceCount": 0,
        "ReservedCapacitySummaries": [
            {
                "ReservedCapacityArn": f"{arn}:reserved-capacity/{secrets.token_hex(8)}",
                **{key: capacity[key] for key in ("ReservedCapacityType", "InstanceType", "AvailabilityZone")},
                **{key: capacity[key] for key in ("DurationHours", "StartTime", "EndTime")},
                "AvailabilityZoneId": zone.zone_id,
                "TotalInstanceCount": count,
                "Status": "Scheduled",
            }
        ],
    }
    return {"TrainingPlanArn": plans(backend)[name]["TrainingPlanArn"]}


def _describe(backend: Any, request: Request) -> Answer:
    plan = plans(backend).get(request["TrainingPlanName"])
    if plan is None:
        raise NotFoundError(f"Training plan {request['TrainingPlanName']} not found")
    status = _status(plan)
    capacity = [{**each, "Status": status} for each in plan["ReservedCapacitySummaries"]]
    return {**plan, "Status": status, "ReservedCapacitySummaries": capacity}


def _list(backend: Any, request: Request) -> Answer:
    _only(request)
    return {"TrainingPlanSummaries": [_describe(backend, plan) for plan in plans(backend).values()]}


def _status(plan: Answer) -> str:
    now = datetime.now(UTC)
    if now < plan["StartTime"]:
        return "Scheduled"
    return "Active" if now < plan["EndTime"] else "Expired"


def _only(request: Request, *allowed: str) -> None:
    if unknown := sorted(request.keys() - set(allowed)):
        names = ", ".join(allowed) or "none"
        raise ValidationFailedError(f"The account does not simulate {', '.join(unknown)}. Allowed: {names}.")
