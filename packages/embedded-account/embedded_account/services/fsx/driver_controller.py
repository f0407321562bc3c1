"""Find the FSx CSI driver's controller in a cluster: whether it could work, and what its IAM role allows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from embedded_account.context import Account
from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError, Object
from embedded_account.services.fsx.driver_requests import tags_of
from embedded_account.services.iam.pod_role import PodRole, PodRoleError, take_role

# The names in the publisher's Helm chart.
NAMESPACE: Final = "kube-system"
DEPLOYMENT: Final = "fsx-csi-controller"
CONTAINER: Final = "fsx-plugin"


@dataclass(frozen=True)
class Controller:
    """The IAM role that the controller has assumed, and the tags of its `--extra-tags`."""

    role: PodRole
    tags: Mapping[str, str]

    def require(self, action: str, resource: str, context: Mapping[str, str]) -> None:
        """Raise PodRoleError unless the role's policies allow the call."""
        self.role.require(action, resource, context)


def find_controller(account: Account, api: KubernetesClient) -> Controller | None:
    """Return the controller, or None while none of its pods is available.

    Raises PodRoleError if the controller could not work (no region, no role), and STS's error if STS refuses its token.
    """
    try:
        deployment = api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{DEPLOYMENT}")
    except KubernetesClientError as error:
        if error.status == 404:
            return None
        raise
    if not deployment.get("status", {}).get("availableReplicas"):
        return None
    spec = deployment["spec"]["template"]["spec"]
    [plugin] = [each for each in spec["containers"] if each["name"] == CONTAINER]
    region = {entry["name"]: entry.get("value") for entry in plugin.get("env", [])}.get("AWS_REGION")
    if region != account.region:
        raise PodRoleError(
            f"the driver's AWS_REGION is {region}, not {account.region}: pods cannot read instance metadata"
        )
    role = take_role(account, api, NAMESPACE, spec["serviceAccountName"])
    return Controller(role, tags_of(_argument(plugin, "--extra-tags")))


def _argument(container: Object, flag: str) -> str:
    """Return the value of a `--flag=value` argument, or "" if the container lacks it."""
    values = [part.partition("=")[2] for part in container.get("args", []) if part.startswith(f"{flag}=")]
    return values[-1] if values else ""
