"""Give the pods that really run their service account's IAM role, as EKS's webhook does when a pod is created.

Source: aws/amazon-eks-pod-identity-webhook, pkg/handler/handler.go. Unlike the webhook's, the change is not in the
object that the API server shows, and the calls go to the embedded account.
"""

import copy
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from embedded_account.kubernetes.api import KubernetesClient, Object

ROLE: Final = "eks.amazonaws.com/role-arn"
"""Annotation of a service account with the role of its pods."""
AUDIENCE: Final = "sts.amazonaws.com"

_MOUNT: Final = "/var/run/secrets/eks.amazonaws.com/serviceaccount"
_VOLUME: Final = "aws-iam-token"
_EXPIRES_SECONDS: Final = 86_400


@dataclass(frozen=True)
class AwsAddress:
    """Where pods find AWS's APIs."""

    endpoint: str
    region: str

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return the address that `text` gives as REGION=URL."""
        region, _, endpoint = text.partition("=")
        return cls(endpoint, region)

    @property
    def port(self) -> int:
        """Return the endpoint's port."""
        return urlsplit(self.endpoint).port or 80


def with_role(pod: Object, api: KubernetesClient, aws: AwsAddress) -> Object:
    """Return the pod with the role of its service account, or as it is if that names none. Raises ApiError."""
    namespace, account = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName", "default")
    found = api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}")
    arn = (found["metadata"].get("annotations") or {}).get(ROLE)
    if not arn:
        return pod
    variables = {
        "AWS_STS_REGIONAL_ENDPOINTS": "regional",
        "AWS_DEFAULT_REGION": aws.region,
        "AWS_REGION": aws.region,
        "AWS_ROLE_ARN": arn,
        "AWS_WEB_IDENTITY_TOKEN_FILE": f"{_MOUNT}/token",
        "AWS_ENDPOINT_URL": aws.endpoint,
    }
    changed: Object = copy.deepcopy(pod)
    token = {"audience": AUDIENCE, "expirationSeconds": _EXPIRES_SECONDS, "path": "token"}
    volume = {"name": _VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}
    changed["spec"].setdefault("volumes", []).append(volume)
    for container in (*changed["spec"].get("initContainers", ()), *changed["spec"]["containers"]):
        given = {each["name"] for each in container.get("env", ())}
        own = [{"name": name, "value": value} for name, value in variables.items() if name not in given]
        container["env"] = [*container.get("env", ()), *own]
        mount = {"name": _VOLUME, "mountPath": _MOUNT, "readOnly": True}
        container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
    return changed
