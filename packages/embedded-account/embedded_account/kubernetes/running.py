"""A cluster whose Kubernetes control plane runs, as the account's parts see it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from embedded_account.kubernetes.api import Api
from embedded_account.kubernetes.nodes import Nodes

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path


class Plane(Protocol):
    """What a cluster needs of its control plane; `embedded_account.kubernetes.control_plane.ControlPlane` is one."""

    admin_kubeconfig: Path

    @property
    def endpoint(self) -> str:
        """https://localhost:PORT"""

    @property
    def ca_pem(self) -> bytes:
        """The certificate authority of the endpoint."""

    @property
    def api(self) -> Api:
        """A connection as cluster administrator."""

    def start(self) -> None:
        """Start; return when it can be used."""

    def stop(self) -> None:
        """End everything and wipe the data."""


@dataclass(frozen=True)
class RunningCluster:
    """A cluster whose control plane runs. `issuer` is the URL of its OIDC issuer."""

    name: str
    issuer: str
    control_plane: Plane
    nodes: Nodes

    def user_of_token(self, token: str, audience: str) -> str | None:
        """Return the user of a service account token that is valid for `audience`, or None when it is not."""
        review = self.control_plane.api.create(
            _TOKEN_REVIEWS,
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token, "audiences": [audience]},
            },
        )
        status = review["status"]
        return str(status["user"]["username"]) if status.get("authenticated") else None
