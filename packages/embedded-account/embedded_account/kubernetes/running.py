"""Represent a cluster with a running control plane to the account's other parts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from embedded_account.kubernetes.api import KubernetesClient
from embedded_account.kubernetes.nodes import Nodes

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path


class Plane(Protocol):
    """The control plane that a cluster needs, such as `embedded_account.kubernetes.control_plane.ControlPlane`."""

    admin_kubeconfig: Path

    @property
    def endpoint(self) -> str:
        """Return `https://localhost:PORT`."""

    @property
    def ca_pem(self) -> bytes:
        """Return the certificate authority of the endpoint."""

    @property
    def api(self) -> KubernetesClient:
        """Return a connection as cluster administrator."""

    def start(self) -> None:
        """Start the control plane; return once it can be used."""

    def upgrade(self, version: str) -> None:
        """Run another version with the same data; return once it can be used."""

    def stop(self) -> None:
        """End all programs and wipe the data."""


@dataclass(frozen=True)
class RunningCluster:
    """A cluster with a running control plane. `issuer` is the URL of its OIDC issuer."""

    name: str
    issuer: str
    control_plane: Plane
    nodes: Nodes

    def user_of_token(self, token: str, audience: str) -> str | None:
        """Return the user of a service account token that is valid for `audience`, or None."""
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
