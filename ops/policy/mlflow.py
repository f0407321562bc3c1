"""SageMaker's MLflow tracking server: its ARN, and the right to open its pages."""

from config import naming
from ops.policy.arns import Arns
from ops.policy.statement import Statement, actions


def tracking_server(arns: Arns) -> tuple[str, ...]:
    """Return the ARN of the tracking server; empty if the environment has none."""
    return (naming.tracking_server_arn(arns.environment),) if arns.environment.managed_mlflow else ()


def open_pages(arns: Arns) -> Statement:
    """Return the right to open the pages of the tracking server; empty without one."""
    return Statement(
        "OpenMlflow", actions("sagemaker", "CreatePresignedMlflowTrackingServerUrl"), tracking_server(arns)
    )
