"""The Lambda function of the custom resource."""

from typing import Any


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Return a greeting for the name in the resource's properties."""
    name = event["ResourceProperties"]["Name"]
    return {"PhysicalResourceId": f"greeting-of-{name}", "Data": {"Greeting": f"Hello, {name}!"}}
