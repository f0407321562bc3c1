"""Test training plans: offers, plans bought from them, and their status."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.inventory.report import collect
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith

P5 = {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 4, "DurationHours": 48}


@pytest.fixture
def sagemaker(clients: Clients) -> Any:
    return clients("sagemaker")


def offers(sagemaker: Any, **more: Any) -> list[str]:
    found = sagemaker.search_training_plan_offerings(**P5, TargetResources=["hyperpod-cluster"], **more)
    return [offer["TrainingPlanOfferingId"] for offer in found["TrainingPlanOfferings"]]


def test_a_plan_has_the_capacity_of_its_offer_and_begins_when_the_offer_does(account: Account, sagemaker: Any) -> None:
    now, in_a_week = offers(sagemaker)
    arn = sagemaker.create_training_plan(TrainingPlanName="now", TrainingPlanOfferingId=now)["TrainingPlanArn"]
    sagemaker.create_training_plan(TrainingPlanName="later", TrainingPlanOfferingId=in_a_week)

    plan = sagemaker.describe_training_plan(TrainingPlanName="now")
    [capacity] = plan["ReservedCapacitySummaries"]
    assert (plan["TrainingPlanArn"], plan["Status"], plan["TotalInstanceCount"]) == (arn, "Active", 4)
    assert (capacity["InstanceType"], capacity["AvailabilityZoneId"]) == ("ml.p5.48xlarge", "usw2-az2")
    listed = sagemaker.list_training_plans()["TrainingPlanSummaries"]
    assert {plan["TrainingPlanName"]: plan["Status"] for plan in listed} == {"now": "Active", "later": "Scheduled"}
    assert {item.id for item in collect(account)} == {"now", "later"}


def test_a_plan_expires(sagemaker: Any) -> None:
    ended, _ = offers(sagemaker, StartTimeAfter=datetime.now(UTC) - timedelta(days=30))
    sagemaker.create_training_plan(TrainingPlanName="ended", TrainingPlanOfferingId=ended)
    assert sagemaker.describe_training_plan(TrainingPlanName="ended")["Status"] == "Expired"


def test_what_is_unknown_taken_or_not_simulated_is_refused(sagemaker: Any) -> None:
    offer, _ = offers(sagemaker)
    with RefusedWith("ResourceNotFound", "Training plan absent not found"):
        sagemaker.describe_training_plan(TrainingPlanName="absent")
    with RefusedWith("ResourceNotFound", "offering tpo-0 not found"):
        sagemaker.create_training_plan(TrainingPlanName="p", TrainingPlanOfferingId="tpo-0")
    sagemaker.create_training_plan(TrainingPlanName="p", TrainingPlanOfferingId=offer)
    with RefusedWith("ResourceInUse", "Training plan p already exists"):
        sagemaker.create_training_plan(TrainingPlanName="p", TrainingPlanOfferingId=offer)
    with RefusedWith("ValidationException", "does not simulate UltraServerType"):
        offers(sagemaker, UltraServerType="ml.u-p6e-gb200x72")
    with RefusedWith("ValidationException", "Allowed: hyperpod-cluster"):
        sagemaker.search_training_plan_offerings(**P5, TargetResources=["training-job"])
    with RefusedWith("ValidationException", "give InstanceType"):
        sagemaker.search_training_plan_offerings()
    with RefusedWith("ValidationException", "does not simulate MaxResults"):
        sagemaker.list_training_plans(MaxResults=1)
