"""The rule about SageMaker's MLflow."""

from collections.abc import Iterator
from typing import Final

from config.model import MANAGED, EksEnvironment
from config.rules.image import package_names
from config.rules.rule import Violation, warning

_CLIENT: Final = "sagemaker-mlflow"


@warning("V100")
def client_of_the_tracking_server(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of SageMaker's MLflow whose client the built image does not have.

    Why: MLflow alone takes no ARN as the address of its server. Jobs would train, and log nothing.
    Source: PyPI, sagemaker-mlflow 0.5.0; SageMaker developer guide, "Integrate MLflow with your environment".
    Example: image.pip: []
    """
    image = environment.image
    if environment.mlflow == MANAGED and not image.uri and _CLIENT not in package_names(image.pip):
        yield Violation(
            "mlflow",
            f"the image lacks {_CLIENT}, by which MLflow's client reaches SageMaker's server",
            f"managed with image.pip: [{_CLIENT}==0.5.0]",
            "add that to image.pip, or remove mlflow",
        )
