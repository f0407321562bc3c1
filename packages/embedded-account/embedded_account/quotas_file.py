"""Read the file of quotas that `--quotas` names: YAML, by service and by the quota's name or a pattern of it.

vpc: {VPCs per Region: 10}
sagemaker: {"ml.p5.48xlarge for cluster usage": 4}
"""

from pathlib import Path
from typing import Final

import yaml

Quotas = dict[str, dict[str, float]]
SERVICES: Final = ("vpc", "ec2", "eks", "fsx", "sagemaker")


class QuotasFileError(Exception):
    """The file cannot be used; the message names what is wrong in it, and what is allowed."""


def read(file: Path) -> Quotas:
    """Return the quotas of a file. Raises QuotasFileError."""
    try:
        found = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise QuotasFileError(
            f"{file}: it cannot be read: {error}. Allowed: YAML of services and their quotas"
        ) from error
    if not isinstance(found, dict):
        raise QuotasFileError(f"{file}: {found!r} is invalid: it is no mapping. Allowed: services and their quotas")
    return {str(service): _of_service(f"{file}: {service}", service, quotas) for service, quotas in found.items()}


def _of_service(where: str, service: object, quotas: object) -> dict[str, float]:
    if service not in SERVICES:
        raise QuotasFileError(f"{where} is invalid: it is no service with quotas. Allowed: {', '.join(SERVICES)}")
    if not isinstance(quotas, dict):
        raise QuotasFileError(
            f"{where}: {quotas!r} is invalid: it is no mapping. Allowed: a quota's name and its value"
        )
    for name, value in quotas.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise QuotasFileError(f"{where}.{name}: {value!r} is invalid: it is no quota. Allowed: a number from 0 on")
    return {str(name): float(value) for name, value in quotas.items()}
