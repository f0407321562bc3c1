"""Test SageMaker's MLflow tracking servers: their life cycle, and what SageMaker refuses."""

from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.inventory.report import collect
from embedded_account.testing.clients import Clients
from embedded_account.testing.functions import make_role
from embedded_account.testing.resources import RefusedWith, ResourceModels
from embedded_account.testing.waiting import wait_until

KIND = "AWS::SageMaker::MlflowTrackingServer"


@pytest.fixture
def sagemaker(clients: Clients) -> Any:
    return clients("sagemaker")


@pytest.fixture
def properties(account: Account) -> dict[str, Any]:
    role = make_role(account, "mlflow", "sagemaker.amazonaws.com").get_cfn_attribute("Arn")
    return {"TrackingServerName": "runs", "ArtifactStoreUri": "s3://data/mlflow", "RoleArn": role}


def test_a_server_is_made_and_deleted_in_time_and_leaves_nothing(
    account: Account, sagemaker: Any, properties: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account.clock, "scale", 5000.0)
    server = ResourceModels(account).create(KIND, properties)
    wait_until(server.is_created, "the tracking server")
    found = sagemaker.describe_mlflow_tracking_server(TrackingServerName="runs")
    assert (found["TrackingServerStatus"], found["TrackingServerSize"]) == ("Created", "Small")
    assert server.get_cfn_attribute("TrackingServerArn") == found["TrackingServerArn"]
    assert found["TrackingServerArn"].endswith(":mlflow-tracking-server/runs")
    assert "runs" in {item.id for item in collect(account)}

    server.remove()
    # Nobody asks SageMaker: what is over must not stay in the list.
    wait_until(lambda: "runs" not in {item.id for item in collect(account)}, "the tracking server's end")
    assert server.is_deleted()
    assert sagemaker.list_mlflow_tracking_servers()["TrackingServerSummaries"] == []


def test_what_is_wrong_with_a_request_is_refused(
    account: Account, sagemaker: Any, properties: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    resources = ResourceModels(account)
    with RefusedWith(None, "NetworkMode"):
        resources.create(KIND, {**properties, "NetworkMode": "private"})
    other = make_role(account, "other", "lambda.amazonaws.com").get_cfn_attribute("Arn")
    with RefusedWith("ValidationException", "Could not assume role"):
        resources.create(KIND, {**properties, "RoleArn": other})
    with RefusedWith("ValidationException", "[Small, Medium, Large]"):
        sagemaker.create_mlflow_tracking_server(**properties, TrackingServerSize="Huge")
    with RefusedWith("ResourceNotFound", "Tracking server runs not found"):
        sagemaker.describe_mlflow_tracking_server(TrackingServerName="runs")
    monkeypatch.setattr(account.clock, "scale", 0.001)
    sagemaker.create_mlflow_tracking_server(**properties)
    with RefusedWith("ResourceInUse", "already exists"):
        sagemaker.create_mlflow_tracking_server(**properties)
    with RefusedWith("ConflictException", "is Creating"):
        sagemaker.delete_mlflow_tracking_server(TrackingServerName="runs")
