"""The function of the custom resource."""

from typing import Any


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Greet whom the resource names."""
    name = event["ResourceProperties"]["Name"]
    return {"PhysicalResourceId": f"greeting-of-{name}", "Data": {"Greeting": f"Hello, {name}!"}}
