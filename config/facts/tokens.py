"""Know which versions of Ray and KubeRay guard a head with a token (Ray docs, "Ray token authentication")."""

from typing import Final

from config.facts.versions import number

AUTH_MODE: Final = "RAY_AUTH_MODE"
"""The variable by which Ray's processes want a token, with the value `token`."""
AUTH_TOKEN: Final = "RAY_AUTH_TOKEN"  # noqa: S105 - a variable's name
"""The variable from which they take it."""
VARIABLES: Final = frozenset({AUTH_MODE, AUTH_TOKEN})
SECRET_KEY: Final = "auth_token"  # noqa: S105
"""The key of KubeRay's Secrets with tokens (ray-operator v1.6.2, utils/constant.go)."""

# KubeRay 1.5.1 is the first with `authOptions`; 1.6.2 is the next that can be chosen.
_RAY: Final = "2.52.0"
_KUBERAY: Final = "1.5.1"


def wanted_by(ray: str) -> bool:
    """Return whether heads of this version of Ray can want a token; older ones let everybody in."""
    return number(ray) >= number(_RAY)


def made_by(kuberay: str) -> bool:
    """Return whether this version of KubeRay makes a RayCluster's token and gives it to all containers that need it."""
    return number(kuberay) >= number(_KUBERAY)
