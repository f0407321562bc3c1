"""The Job that builds the Ray image in the cluster and pushes it to ECR, without root and without Docker.

BuildKit in rootless mode needs user namespaces, and so the profiles that Pod Security calls privileged. The Job has a
separate namespace, so no other namespace must allow them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cdk8s
from constructs import Construct

from config.facts.versions import AWS_CLI_IMAGE, BUILDKIT_IMAGE
from k8s_charts.helm.images import copy_of
from k8s_charts.helm.release import on_system_nodes
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.checkov_skips import PULL_IF_ABSENT, TAG_UNTIL_SETTLED, explain
from k8s_charts.shared.names import IMAGE_BUILD_NAMESPACE, IMAGE_BUILDER_SERVICE_ACCOUNT

SCRIPTS: Final = Path(__file__).with_name("scripts")
CACHE_TAG: Final = "cache"
_WORK = "/build"
# BuildKit's own user.
_USER: Final = 1000
# The GPU base image unpacks to about 10 GB, torch to another 10 GB, and layers exist as files and as archives.
# Kubernetes evicts a build that takes more, before the node runs out of disk and evicts other pods.
_DISK: Final = "60Gi"
_LAYERS_DISK: Final = "56Gi"
_WORK_DISK: Final = "1Gi"
# The pod's grace period, in which the report uploads a log.
_GRACE_SECONDS: Final = 60

_ROOTLESS: Final = "rootless BuildKit maps users and mounts layers by setuid helpers, as docs/rootless.md of it says"
_EXCEPTIONS: Final = {
    "CKV_K8S_11": "a build may take what is idle; its memory and disk are limited",
    **PULL_IF_ABSENT,
    "CKV_K8S_20": _ROOTLESS,
    "CKV_K8S_22": "BuildKit keeps its state and its sockets beside its program",
    "CKV_K8S_28": _ROOTLESS,
    "CKV_K8S_37": _ROOTLESS,
    "CKV_K8S_40": "1000 is the user that BuildKit's rootless image is made for",
    **TAG_UNTIL_SETTLED,
}


@dataclass(frozen=True)
class ImageBuild:
    """What to build: `context` is the S3 address of a zip file, `registry` a host, `tag` the result's tag.

    `arguments` are the Dockerfile's arguments. The end of a failed build's log is written to the S3 address `log`. The
    tools' images come from `tools_registry`, if given, otherwise from their publishers' registries.
    """

    registry: str
    repository: str
    tag: str
    context: str
    log: str
    region: str
    arguments: Mapping[str, str]
    tools_registry: str | None = None

    @property
    def image(self) -> str:
        """Return the reference of the image that is built."""
        return f"{self.registry}/{self.repository}:{self.tag}"


class ImageBuildChart(ProjectChart):
    """One build. A Job is immutable, so its name contains the image's tag and a hash of how the image is built."""

    def __init__(self, scope: Construct, id: str, *, build: ImageBuild) -> None:
        super().__init__(scope, id)
        job = cdk8s.ApiObject(
            self,
            "job",
            api_version="batch/v1",
            kind="Job",
            metadata=cdk8s.ApiObjectMetadata(name=_job_name(build), namespace=IMAGE_BUILD_NAMESPACE),
        )
        job.add_json_patch(cdk8s.JsonPatch.add("/spec", _job_spec(build)))
        explain(job, _EXCEPTIONS)


def _job_name(build: ImageBuild) -> str:
    # Without the context's address: it follows from the tag, and in a synthesis it may be a placeholder that varies.
    recipe = json.dumps(_job_spec(ImageBuild(**{**vars(build), "context": ""})), sort_keys=True)
    return f"ray-image-{build.tag}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"


def _job_spec(build: ImageBuild) -> dict[str, Any]:
    return {
        "backoffLimit": 2,
        "activeDeadlineSeconds": 2 * 3600,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "serviceAccountName": IMAGE_BUILDER_SERVICE_ACCOUNT,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "terminationGracePeriodSeconds": _GRACE_SECONDS,
                "nodeSelector": on_system_nodes(),
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": _USER,
                    "runAsGroup": _USER,
                    "fsGroup": _USER,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "initContainers": [
                    # A sidecar (Kubernetes 1.29): it starts before the other containers and ends after them.
                    {
                        **_aws_cli("report", "report_image_build.sh", build, _report_env(build)),
                        "restartPolicy": "Always",
                    },
                    _aws_cli("prepare", "prepare_image_build.sh", build, _prepare_env(build)),
                ],
                "containers": [_build_container(build)],
                "volumes": [
                    {"name": "work", "emptyDir": {"sizeLimit": _WORK_DISK}},
                    {"name": "layers", "emptyDir": {"sizeLimit": _LAYERS_DISK}},
                ],
            }
        },
    }


def _aws_cli(name: str, script: str, build: ImageBuild, env: Mapping[str, str]) -> dict[str, Any]:
    """Return a container that calls AWS with the service account's role."""
    return {
        **_container(name, AWS_CLI_IMAGE, script, build, env),
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "64Mi"},
            "limits": {"memory": "512Mi", "ephemeral-storage": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "work", "mountPath": _WORK}],
    }


def _build_container(build: ImageBuild) -> dict[str, Any]:
    arguments = [word for name, value in build.arguments.items() for word in ("--opt", f"build-arg:{name}={value}")]
    return {
        **_container("build", BUILDKIT_IMAGE, "build_image.sh", build, _build_env(build)),
        "args": arguments,
        "resources": {
            "requests": {"cpu": "2", "memory": "6Gi", "ephemeral-storage": _DISK},
            "limits": {"memory": "12Gi", "ephemeral-storage": _DISK},
        },
        # BuildKit's documentation for rootless mode (docs/rootless.md): mounts need both profiles.
        "securityContext": {
            "seccompProfile": {"type": "Unconfined"},
            "appArmorProfile": {"type": "Unconfined"},
        },
        "volumeMounts": [
            {"name": "work", "mountPath": _WORK},
            {"name": "layers", "mountPath": "/home/user/.local/share/buildkit"},
        ],
    }


def _container(name: str, image: str, script: str, build: ImageBuild, env: Mapping[str, str]) -> dict[str, Any]:
    text = (SCRIPTS / script).read_text()
    interpreter = text.splitlines()[0].removeprefix("#!")
    return {
        "name": name,
        "image": copy_of(image, build.tools_registry),
        # `-c` takes the text, then the script's name; the container's arguments follow.
        "command": [interpreter, "-c", text, script],
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }


def _report_env(build: ImageBuild) -> dict[str, str]:
    return {"LOG": build.log, **_aws_env(build)}


def _prepare_env(build: ImageBuild) -> dict[str, str]:
    return {
        "REGISTRY": build.registry,
        "REPOSITORY": build.repository,
        "TAG": build.tag,
        "CONTEXT": build.context,
        **_aws_env(build),
    }


def _aws_env(build: ImageBuild) -> dict[str, str]:
    # The AWS CLI needs a writable home directory.
    return {"AWS_REGION": build.region, "WORK": _WORK, "HOME": _WORK}


def _build_env(build: ImageBuild) -> dict[str, str]:
    return {
        "IMAGE": build.image,
        "CACHE": f"{build.registry}/{build.repository}:{CACHE_TAG}",
        "DOCKER_CONFIG": f"{_WORK}/docker",
        # An unprivileged container cannot mount a process table for the sandbox.
        "BUILDKITD_FLAGS": "--oci-worker-no-process-sandbox",
        # Attempts of buildctl-daemonless.sh: the daemon gets 110 seconds to start, not two (moby/buildkit #1423).
        "BUILDCTL_CONNECT_RETRIES_MAX": "100",
        "WORK": _WORK,
    }
