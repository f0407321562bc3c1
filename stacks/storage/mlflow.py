"""SageMaker's managed MLflow tracking server."""

from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from config import EksEnvironment, naming
from config.facts.mlflow import LOGGING_ACTIONS
from k8s_charts.shared import names
from stacks.shared.company_key import may_use
from stacks.shared.nag_suppressions import acknowledge, attribute_arn, wildcard
from stacks.storage.removal import data_removal_policy

ARTIFACTS: Final = f"{names.MLFLOW_PREFIX}/*"
"""The artifacts in the data bucket."""


class MlflowTrackingServer(Construct):
    """An MLflow tracking server of the smallest size; its artifacts are below one prefix of `bucket`.

    Its role reads and writes that prefix and nothing else. SageMaker developer guide, "Set up IAM permissions for
    MLflow": the further rights there serve the model registry, in which this server registers nothing. `key` is the
    bucket's, if the company gives one.
    """

    def __init__(
        self, scope: Construct, id: str, *, name: str, bucket: s3.IBucket, protect: bool, key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, id)
        own_account = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com", conditions=own_account),
            description=f"MLflow tracking server {name}: its artifacts",
        )
        for statement in artifact_rights(bucket.bucket_arn, key):
            role.add_to_policy(statement)
        artifacts = f"{attribute_arn(bucket)}/{ARTIFACTS}"
        acknowledge(role, "MLflow names the artifacts of runs; the prefix is the boundary", wildcard(artifacts))
        server = sagemaker.CfnMlflowTrackingServer(
            self,
            "Resource",
            tracking_server_name=name,
            artifact_store_uri=bucket.s3_url_for_object(names.MLFLOW_PREFIX),
            role_arn=role.role_arn,
            tracking_server_size="Small",
            automatic_model_registration=False,
        )
        server.apply_removal_policy(data_removal_policy(protect=protect))
        # A server whose role cannot write yet fails to start.
        server.node.add_dependency(role)


def logging_rights(environment: EksEnvironment) -> list[iam.PolicyStatement]:
    """Return the rights of jobs to log to the server, and to write their artifacts."""
    actions = [f"sagemaker-mlflow:{action}" for action in LOGGING_ACTIONS]
    log = iam.PolicyStatement(actions=actions, resources=[naming.tracking_server_arn(environment)])
    return [log, *artifact_rights(f"arn:aws:s3:::{naming.data_bucket(environment)}", None)]


def artifact_rights(bucket: str, key: kms.IKey | None) -> list[iam.PolicyStatement]:
    """Return the rights to list, read and write the artifacts in the bucket with this ARN, and to delete none.

    MLflow's clients and its server use the same: a client writes artifacts without asking the server.
    """
    return [
        iam.PolicyStatement(
            actions=["s3:ListBucket"], resources=[bucket], conditions={"StringLike": {"s3:prefix": ARTIFACTS}}
        ),
        iam.PolicyStatement(
            actions=["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"], resources=[f"{bucket}/{ARTIFACTS}"]
        ),
        *([may_use(key, "s3", "kms:Decrypt", "kms:GenerateDataKey")] if key else []),
    ]
