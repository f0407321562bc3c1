"""Ray's autoscaler: a container that KubeRay 1.2.0 adds to the head pod.

KubeRay creates a Role (pods: get, list, watch, patch; rayclusters: get, patch) and binds it to the head's service
account, which stays the project's own, with its IAM role. The account's token thus allows its holder to start any pod
in the namespace. Therefore only this container mounts the token, and no Ray job sees it.
"""

from typing import Any, Final

from config.facts import tokens
from config.facts.capacity import AUTOSCALER_CPU_MILLIS, AUTOSCALER_MEMORY_MIB
from config.model import Autoscaling
from k8s_charts.ray.pods import CONTAINER_SECURITY, Common

_TOKEN: Final = "kubernetes-token"  # noqa: S105  the name of a volume
# Kubernetes clients read the token here, Ray's too (ray/autoscaler/_private/kuberay/node_provider.py).
_TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  a path


def autoscaler_options(settings: Autoscaling, pods: Common) -> dict[str, Any]:
    """Return `autoscalerOptions`; like the head's container, this one meets Pod Security's `restricted` level."""
    # KubeRay copies the head's variables to the workers' init container, but none to this one.
    env = [each for each in pods.variables({}) if each["name"] in tokens.VARIABLES]
    amounts = {"cpu": f"{AUTOSCALER_CPU_MILLIS}m", "memory": f"{AUTOSCALER_MEMORY_MIB}Mi"}
    return {
        "image": pods.image,
        "imagePullPolicy": "IfNotPresent",
        **({"env": env} if env else {}),
        "idleTimeoutSeconds": settings.idle_timeout_seconds,
        "upscalingMode": settings.upscaling,
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": _TOKEN, "mountPath": _TOKEN_PATH, "readOnly": True}],
    }


def give_token(head: dict[str, Any]) -> None:
    """Add to the head pod a volume with its account's token, which a container must mount explicitly."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    head["volumes"].append({"name": _TOKEN, "projected": {"sources": sources}})


def restart_in_place(head: dict[str, Any]) -> None:
    """Let the kubelet restart the head's containers.

    KubeRay replaces a pod whose Ray container has ended, but does not check the autoscaler's container. Without
    restarts a RayCluster would silently stop scaling.
    """
    head["restartPolicy"] = "Always"
