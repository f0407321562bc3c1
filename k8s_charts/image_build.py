"""The Job that builds the Ray image in the cluster and pushes it to ECR, without root and without Docker.

BuildKit in its rootless mode needs user namespaces, hence the profiles that Pod Security calls privileged: the Job
has a namespace of its own, and no other namespace needs to allow them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cdk8s
from constructs import Construct

from config.versions import AWS_CLI_IMAGE, BUILDKIT_IMAGE
from k8s_charts.base import ProjectChart
from k8s_charts.helm import on_system_nodes
from k8s_charts.images import copy_of
from k8s_charts.names import IMAGE_BUILD_NAMESPACE, IMAGE_BUILDER_SERVICE_ACCOUNT

SCRIPTS: Final = Path(__file__).with_name("scripts")
CACHE_TAG: Final = "cache"
_WORK = "/build"
# BuildKit's own user.
_USER: Final = 1000
# The GPU base image unpacks to about 10 GB, torch to as much again, and layers exist as files and as archives.
_DISK: Final = "60Gi"


@dataclass(frozen=True)
class ImageBuild:
    """What to build: `context` is the S3 address of a zip file, `registry` a host, `tag` names the result.

    The tools' images come from `tools_registry`, if there is one, instead of their publishers'.
    """

    registry: str
    repository: str
    tag: str
    base_image: str
    context: str
    region: str
    tools_registry: str | None = None

    @property
    def image(self) -> str:
        """Reference of the result."""
        return f"{self.registry}/{self.repository}:{self.tag}"


class ImageBuildChart(ProjectChart):
    """One build. A Job cannot change, so its name tells both the image's tag and how it is built."""

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


def _job_name(build: ImageBuild) -> str:
    # The context's address follows from the tag, and at synth it can be a placeholder that differs each time.
    recipe = json.dumps(_job_spec(ImageBuild(**{**vars(build), "context": ""})), sort_keys=True)
    return f"ray-image-{build.tag}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"


def _job_spec(build: ImageBuild) -> dict[str, Any]:
    work = {"name": "work", "mountPath": _WORK}
    return {
        "backoffLimit": 2,
        "activeDeadlineSeconds": 2 * 3600,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "serviceAccountName": IMAGE_BUILDER_SERVICE_ACCOUNT,
                "automountServiceAccountToken": False,
                "nodeSelector": on_system_nodes(),
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": _USER,
                    "runAsGroup": _USER,
                    "fsGroup": _USER,
                },
                "initContainers": [
                    {
                        **_container(
                            "prepare", _tool(AWS_CLI_IMAGE, build), "prepare_image_build.sh", _prepare_env(build)
                        ),
                        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                        "volumeMounts": [work],
                    }
                ],
                "containers": [
                    {
                        **_container("build", _tool(BUILDKIT_IMAGE, build), "build_image.sh", _build_env(build)),
                        "resources": {
                            "requests": {"cpu": "2", "memory": "6Gi", "ephemeral-storage": _DISK},
                            "limits": {"memory": "12Gi"},
                        },
                        # BuildKit's documentation for rootless mode (docs/rootless.md): mounting needs both.
                        "securityContext": {
                            "seccompProfile": {"type": "Unconfined"},
                            "appArmorProfile": {"type": "Unconfined"},
                        },
                        "volumeMounts": [work, {"name": "layers", "mountPath": "/home/user/.local/share/buildkit"}],
                    }
                ],
                "volumes": [{"name": "work", "emptyDir": {}}, {"name": "layers", "emptyDir": {}}],
            }
        },
    }


def _tool(image: str, build: ImageBuild) -> str:
    return copy_of(image, build.tools_registry)


def _container(name: str, image: str, script: str, env: Mapping[str, str]) -> dict[str, Any]:
    text = (SCRIPTS / script).read_text()
    interpreter = text.splitlines()[0].removeprefix("#!")
    return {
        "name": name,
        "image": image,
        "command": [interpreter, "-c", text],
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }


def _prepare_env(build: ImageBuild) -> dict[str, str]:
    return {
        "REGISTRY": build.registry,
        "REPOSITORY": build.repository,
        "TAG": build.tag,
        "CONTEXT": build.context,
        "AWS_REGION": build.region,
        "WORK": _WORK,
        # The AWS CLI wants a home that it can write.
        "HOME": _WORK,
    }


def _build_env(build: ImageBuild) -> dict[str, str]:
    return {
        "IMAGE": build.image,
        "CACHE": f"{build.registry}/{build.repository}:{CACHE_TAG}",
        "BASE_IMAGE": build.base_image,
        "DOCKER_CONFIG": f"{_WORK}/docker",
        # Without a privileged container the sandbox's own process table cannot be mounted.
        "BUILDKITD_FLAGS": "--oci-worker-no-process-sandbox",
        "WORK": _WORK,
    }
