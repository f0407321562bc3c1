"""Promises of `mlflow: managed`, on a closed network: the server, the roles that can use it, and its price."""

import pytest

from config import load, naming
from config.estimates.costs import estimate
from config.facts.mlflow import LOGGING_ACTIONS
from embedded_account.services.iam.policies import PolicyDecision, evaluate
from ops.review import assembly as reviewed
from ops.review.cost import bill
from tests.support.authorization_reference import resource_types
from tests.support.mlflow_calls import LOGGER_CALLS
from tests.synth.support.kubernetes_objects import Object
from tests.synth.support.synthesis import Assembly, synthesise

SERVER = "AWS::SageMaker::MlflowTrackingServer"


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    environment = load("closed").model_copy(update={"mlflow": "managed", "protect": True})
    return synthesise(environment, tmp_path_factory.mktemp("managed"), validated=True)


def policies(assembly: Assembly, part: str, said: str) -> list[Object]:
    """Return the policy documents of the part's role with these words in its description, its own bucket filled in."""
    template = assembly.templates[part]
    [(id, role)] = [
        (id, each["Properties"])
        for id, each in template.all("AWS::IAM::Role").items()
        if said in each["Properties"].get("Description", "")
    ]
    apart = [each for each in template.properties("AWS::IAM::Policy") if {"Ref": id} in each["Roles"]]
    return [each["PolicyDocument"] for each in (*role.get("Policies", []), *apart)]


def test_server_keeps_its_artifacts_in_the_private_bucket_and_survives_a_protected_stack(managed: Assembly) -> None:
    storage = managed.templates["storage"]
    [server] = storage.all(SERVER).values()
    [data] = [
        id
        for id, bucket in storage.all("AWS::S3::Bucket").items()
        if bucket["Properties"]["BucketName"] == naming.data_bucket(managed.environment)
    ]
    assert server["Properties"]["TrackingServerName"] == naming.tracking_server(managed.environment)
    assert server["Properties"]["ArtifactStoreUri"] == {"Fn::Join": ["", ["s3://", {"Ref": data}, "/mlflow"]]}
    assert (server["DeletionPolicy"], server["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


def test_server_reads_and_writes_its_artifacts_and_nothing_else(managed: Assembly) -> None:
    [policy] = policies(managed, "storage", "MLflow tracking server")
    look, use = policy["Statement"][:2]
    assert (look["Action"], look["Condition"]) == ("s3:ListBucket", {"StringLike": {"s3:prefix": "mlflow/*"}})
    assert use["Action"] == ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"]
    assert use["Resource"]["Fn::Join"][1][-1] == "/mlflow/*"


@pytest.mark.parametrize(
    ("action", "server", "decision"),
    [
        *((f"sagemaker-mlflow:{call}", None, PolicyDecision.ALLOW) for call in sorted(LOGGER_CALLS)),
        ("sagemaker-mlflow:LogBatch", "other", PolicyDecision.IMPLICIT_DENY),
        ("sagemaker-mlflow:DeleteRun", None, PolicyDecision.IMPLICIT_DENY),
        ("sagemaker-mlflow:DeleteExperiment", None, PolicyDecision.IMPLICIT_DENY),
        ("sagemaker-mlflow:AccessUI", None, PolicyDecision.IMPLICIT_DENY),
        ("sagemaker:DeleteMlflowTrackingServer", None, PolicyDecision.IMPLICIT_DENY),
    ],
)
def test_ray_pods_log_to_their_own_server_and_delete_nothing(
    managed: Assembly, action: str, server: str | None, decision: PolicyDecision
) -> None:
    arn = naming.tracking_server_arn(managed.environment)
    target = arn if server is None else arn.replace(naming.tracking_server(managed.environment), server)
    assert evaluate(policies(managed, "ray", "Ray pods"), action, target, {}) is decision


def test_ray_pods_have_no_right_on_mlflow_by_a_wildcard(managed: Assembly) -> None:
    [policy] = policies(managed, "ray", "Ray pods")
    [statement] = [each for each in policy["Statement"] if "sagemaker-mlflow:LogBatch" in each["Action"]]
    assert statement["Action"] == [f"sagemaker-mlflow:{action}" for action in LOGGING_ACTIONS]
    assert statement["Resource"] == naming.tracking_server_arn(managed.environment)


@pytest.mark.table("config/facts/mlflow.py")
@pytest.mark.parametrize("action", LOGGING_ACTIONS)
def test_every_right_on_mlflow_is_one_that_aws_lists(action: str) -> None:
    assert list(resource_types(f"sagemaker-mlflow:{action}")) == ["mlflow-tracking-server"]


def test_closed_network_reaches_mlflow_by_an_endpoint_for_its_own_account(managed: Assembly) -> None:
    name = f"aws.sagemaker.{managed.environment.region}.experiments"
    [endpoint] = [
        each for each in managed.templates["network"].properties("AWS::EC2::VPCEndpoint") if each["ServiceName"] == name
    ]
    assert endpoint["PrivateDnsEnabled"] is True
    [statement] = endpoint["PolicyDocument"]["Statement"]
    assert statement["Condition"] == {"StringEquals": {"aws:PrincipalAccount": managed.environment.account}}


def test_check_and_review_price_the_server(managed: Assembly) -> None:
    [line] = [line for line in estimate(managed.environment) if line.item == "MLflow tracking server"]
    assert line.usd_per_hour == 0.642
    planned = sum(line.usd_per_hour or 0.0 for line in estimate(managed.environment))
    assert bill(reviewed.Assembly(managed.directory)).usd_per_hour == pytest.approx(planned)
