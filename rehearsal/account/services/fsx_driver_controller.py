"""The FSx CSI driver's controller as it is deployed in a cluster: whether it could work, and what its role allows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rehearsal.account.context import Account
from rehearsal.account.hyperpod.policies import Decision, Grants
from rehearsal.account.hyperpod.surroundings import Surroundings
from rehearsal.account.services.fsx_driver_requests import Rejected, tags_of
from rehearsal.account.services.sts import check_web_identity
from rehearsal.kubernetes.api import Api, ApiError, Object

# The names of the publisher's chart.
NAMESPACE: Final = "kube-system"
DEPLOYMENT: Final = "fsx-csi-controller"
CONTAINER: Final = "fsx-plugin"
_ROLE: Final = "eks.amazonaws.com/role-arn"
_AUDIENCE: Final = "sts.amazonaws.com"


@dataclass(frozen=True)
class Controller:
    """What the controller's role may do, and the tags of its `--extra-tags`."""

    role_arn: str
    grants: Grants
    tags: Mapping[str, str]

    def require(self, action: str, resource: str, context: Mapping[str, str]) -> None:
        """Raise Rejected unless the role's policies allow the call."""
        decision = self.grants.decide(action, resource, context)
        if decision is not Decision.ALLOW:
            raise Rejected(f"{self.role_arn} is not authorized to perform: {action} on {resource}: {decision.value}")


def find_controller(account: Account, api: Api) -> Controller | None:
    """Return the controller, or None while no pod of it is available.

    Raises Rejected when it could not work (no region, no role), and STS's refusal when its token is not accepted.
    """
    try:
        deployment = api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{DEPLOYMENT}")
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    if not deployment.get("status", {}).get("availableReplicas"):
        return None
    spec = deployment["spec"]["template"]["spec"]
    [plugin] = [each for each in spec["containers"] if each["name"] == CONTAINER]
    region = {entry["name"]: entry.get("value") for entry in plugin.get("env", [])}.get("AWS_REGION")
    if region != account.region:
        raise Rejected(f"the driver's region is {region}, and pods have no instance metadata to ask")
    role_arn = _role(account, api, spec["serviceAccountName"])
    role = Surroundings(account.account_id, account.region, account.background).role(role_arn)
    if role is None:
        raise Rejected(f"the driver's role {role_arn} does not exist")
    return Controller(role_arn, role.grants, tags_of(_argument(plugin, "--extra-tags")))


def _role(account: Account, api: Api, service_account: str) -> str:
    """The IAM role that a token of the service account is good for."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{service_account}"
    role_arn = api.get(path)["metadata"].get("annotations", {}).get(_ROLE)
    if not role_arn:
        raise Rejected(f"service account {service_account} names no IAM role: the driver has no credentials")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [_AUDIENCE]}}
    check_web_identity(account, role_arn, api.create(f"{path}/token", body)["status"]["token"])
    return str(role_arn)


def _argument(container: Object, flag: str) -> str:
    """The value of a `--flag=value` argument, empty without it."""
    values = [part.partition("=")[2] for part in container.get("args", []) if part.startswith(f"{flag}=")]
    return values[-1] if values else ""
