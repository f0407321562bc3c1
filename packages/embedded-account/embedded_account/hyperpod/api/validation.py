"""Validate a request against botocore's service model on the server.

In one point the rehearsal is stricter than SageMaker: SageMaker ignores unknown members, the rehearsal refuses them.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ServiceModel

from embedded_account.hyperpod.errors import ValidationFailedError
from embedded_account.services.shared.shapes import error_text, violations


@cache
def service_model() -> ServiceModel:
    """Return SageMaker's service model from the pinned botocore."""
    return botocore.session.Session().get_service_model("sagemaker")


def validate(operation: str, request: Mapping[str, Any]) -> None:
    """Raise one ValidationFailedError that lists every violation in SageMaker's words."""
    shape = service_model().operation_model(operation).input_shape
    found = list(violations(shape, request)) if shape else []
    if found:
        raise ValidationFailedError(error_text(found))
