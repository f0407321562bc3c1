"""Check the training plans of instance groups, and search for offers if one does not suffice."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from config import Environment
from config.model import InstanceGroup
from ops.preflight.check import CheckFinding, failed, passed
from ops.preflight.here import Here

_USABLE: Final = ("Active", "Scheduled")
# A day: the shortest duration for which every type has offers.
_SEARCHED_HOURS: Final = 24
_MOST_OFFERS: Final = 3


def training_plans(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require each plan: Active or Scheduled, with the groups' type, zone and number of instances.

    AWS: sagemaker DescribeTrainingPlan, SearchTrainingPlanOfferings. Source: SageMaker AI developer guide, "Reserve
    training plans"; SageMaker API reference, DescribeTrainingPlan.
    """
    groups: dict[str, list[InstanceGroup]] = defaultdict(list)
    for group in here.environment.hyperpod.instance_groups:
        if group.training_plan:
            groups[group.training_plan].append(group)
    for arn, of_plan in groups.items():
        name = arn.rpartition("/")[2]
        reason = _obstacle(here, arn, of_plan)
        if reason:
            text, fix = _with_offers(here, reason, of_plan)
            yield failed(text, fix, name)
        else:
            yield passed(f"has {sum(group.count for group in of_plan)} instances for this environment", name)


def _obstacle(here: Here[Environment], arn: str, groups: list[InstanceGroup]) -> str:
    """Return why the groups cannot use the plan; empty if they can."""
    try:
        plan = here.client("sagemaker").describe_training_plan(TrainingPlanName=arn.rpartition("/")[2])
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("ResourceNotFound", "ResourceNotFoundException"):
            raise
        return "there is no such plan in this account and region"
    if plan["TrainingPlanArn"] != arn:
        return f"its ARN is {plan['TrainingPlanArn']}, not {arn}"
    if plan["Status"] not in _USABLE:
        return f"its status is {plan['Status']}"
    capacity = plan.get("ReservedCapacitySummaries", [])
    for group in groups:
        fitting = [each for each in capacity if _fits(each, group)]
        if not fitting:
            has = ", ".join(f"{each['InstanceType']} in {each.get('AvailabilityZoneId')}" for each in capacity)
            return f"it has {has or 'no capacity'}, and {group.name} needs {group.instance_type} in {group.zone}"
    # A plan's own cluster uses a part of it: a redeployment must not count that twice.
    total, asked = plan.get("TotalInstanceCount", 0), sum(group.count for group in groups)
    return f"it has {total} instances, and {asked} are needed" if total < asked else ""


def _fits(capacity: Mapping[str, Any], group: InstanceGroup) -> bool:
    return (capacity["InstanceType"], capacity.get("AvailabilityZoneId")) == (group.instance_type, group.zone)


def _with_offers(here: Here[Environment], reason: str, groups: list[InstanceGroup]) -> tuple[str, str]:
    """Return the reason with the offers that AWS has now, and the command that buys one or searches again."""
    first, count = groups[0], sum(group.count for group in groups)
    region = here.environment.region
    asked = {"InstanceType": first.instance_type, "InstanceCount": max(1, count), "DurationHours": _SEARCHED_HOURS}
    answer = here.client("sagemaker").search_training_plan_offerings(TargetResources=["hyperpod-cluster"], **asked)
    offers = answer["TrainingPlanOfferings"][:_MOST_OFFERS]
    if not offers:
        search = (
            f"aws sagemaker search-training-plan-offerings --instance-type {first.instance_type} --instance-count "
            f"{asked['InstanceCount']} --duration-hours {_SEARCHED_HOURS} --target-resources hyperpod-cluster "
            f"--region {region}"
        )
        return f"{reason}; there are no offers for {_SEARCHED_HOURS} hours now", search
    buy = (
        "aws sagemaker create-training-plan --training-plan-name NAME --training-plan-offering-id "
        f"{offers[0]['TrainingPlanOfferingId']} --region {region}, then name the new plan in the environment"
    )
    return f"{reason}; offers: {'; '.join(map(_offer, offers))}", buy


def _offer(offer: Mapping[str, Any]) -> str:
    capacity = offer["ReservedCapacityOfferings"][0]
    start = f"{capacity['StartTime']:%Y-%m-%d %H:%M}" if "StartTime" in capacity else "any time"
    price = f"{offer['UpfrontFee']} {offer.get('CurrencyCode', 'USD')}"
    where = capacity.get("AvailabilityZone", "any zone")
    return f"{offer['TrainingPlanOfferingId']}: {offer.get('DurationHours', 0)} h from {start} in {where} for {price}"
