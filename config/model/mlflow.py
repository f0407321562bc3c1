"""The model of the MLflow tracking server that jobs log to."""

from typing import Annotated, Final
from urllib.parse import urlsplit

from config.model.base import Shape

MANAGED: Final = "managed"
"""The value for a tracking server of SageMaker that the storage stack makes."""

_PORTS: Final = {"http": 80, "https": 443}

Mlflow = Annotated[
    str,
    Shape(
        pattern=r"^(managed|https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[1-9][0-9]{0,4})?(/[^\s?#@]*)?)$",
        what="`managed`, or the address of an MLflow tracking server",
        like="https://mlflow.example.com",
        fix="write `managed`, or scheme, host and port, such as http://mlflow.mlflow.svc:5000",
        mistakes=(
            (r"https?://[^/]*@.*", "it has a name or a password, which belong in ray.clusters[].secrets"),
            (r"arn:.*", "it is the ARN of a tracking server"),
            (r"[a-z0-9.-]+(:[0-9]+)?", "it has no scheme"),
        ),
    ),
]


def port_of(address: str) -> int:
    """Return the TCP port of a tracking server's address."""
    parts = urlsplit(address)
    return parts.port or _PORTS[parts.scheme]
