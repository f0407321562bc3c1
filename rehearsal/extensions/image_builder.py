"""Stand in for the Ray image build: put a manifest with the project's own media type into ECR; build no image.

The build's pods run no program in the rehearsal. This module performs the calls of their scripts, with the pods'
variables and the role of their service account: look for the tag, read the context, and push image and cache. If that
fails, it puts the end of the log into S3. A call that the role does not allow fails the pod, as it would fail the
build.

`POST /_rehearsal/image-build/fault` with `{"log": "..."}` makes the following builds fail with this log; `{}` removes
the fault.
"""

import io
import json
import logging
import re
import threading
import zipfile
from collections.abc import Mapping
from typing import Any, Final

from botocore.exceptions import ClientError
from moto.core.exceptions import ServiceException
from urllib3.exceptions import HTTPError
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Request

from config.naming import STAND_IN_IMAGE
from embedded_account.context import Account
from embedded_account.kubernetes.api import STRATEGIC_PATCH, KubernetesClient, KubernetesClientError, Object
from embedded_account.services.iam.pod_role import PodRole, PodRoleError, take_role
from embedded_account.services.s3.keys import default_key, key_context
from embedded_account.services.shared.api_model import client
from k8s_charts.shared.names import IMAGE_BUILD_NAMESPACE

_IMAGE: Final = r"(^|/)moby/buildkit([:@]|$)"
_EVERY_SECONDS: Final = 0.5
_PODS: Final = f"/api/v1/namespaces/{IMAGE_BUILD_NAMESPACE}/pods"
_PULL: Final = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
_PUSH: Final = (*_PULL, "ecr:InitiateLayerUpload", "ecr:UploadLayerPart", "ecr:CompleteLayerUpload", "ecr:PutImage")
_MARK: Final = "[rehearsal: a stand-in of the image build, no image is made]"

_log = logging.getLogger(__name__)


def install(account: Account) -> None:
    """Perform the image builds of all clusters in the background until the account ends."""
    builder = ImageBuilder(account)
    account.played_images.append(_IMAGE)
    account.routes.route("POST", "image-build/fault", lambda request, _: builder.set_fault(request))
    ended = threading.Event()
    account.at_end.callback(ended.set)
    threading.Thread(target=_run, args=(account, builder, ended), name="image-build-stand-in", daemon=True).start()


def _run(account: Account, builder: "ImageBuilder", ended: threading.Event) -> None:
    while not ended.wait(_EVERY_SECONDS):
        for cluster in account.clusters.all():
            try:
                builder.step(cluster.control_plane.api)
            except (KubernetesClientError, HTTPError, OSError, KeyError) as error:
                # The control plane is starting, stopping or busy: retry at the next step.
                _log.debug("image build stand-in: %s", error)


class ImageBuilder:
    """The build's work. A builder keeps no state of a build: each step reads the pods again."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._fault: str | None = None

    def set_fault(self, request: Request) -> Object:
        """Set or remove the fault and return {}; raise BadRequest if the body is invalid.

        The module's docstring describes the body.
        """
        body = request.get_json(silent=True)
        if not isinstance(body, dict) or body.keys() - {"log"} or not isinstance(body.get("log", ""), str):
            raise BadRequest('the body is invalid: it is not a fault of the image build. Allowed: {} or {"log": TEXT}')
        self._fault = body.get("log")
        return {}

    def step(self, api: KubernetesClient) -> None:
        """Advance the cluster's build pods: run pending ones, remove deleted ones. Raise ApiError."""
        for pod in api.get(_PODS, fieldSelector="spec.nodeName!=")["items"]:
            if not _is_build(pod["spec"]):
                continue
            path = f"{_PODS}/{pod['metadata']['name']}"
            if "deletionTimestamp" in pod["metadata"]:
                api.delete(path, {"gracePeriodSeconds": 0})
            elif pod.get("status", {}).get("phase") == "Pending":
                failed = self._build(api, pod)
                api.patch(f"{path}/status", {"status": _status(pod, failed=failed)}, STRATEGIC_PATCH)

    def _build(self, api: KubernetesClient, pod: Object) -> bool:
        """Perform the build of a pod; return whether it failed."""
        values = _variables(pod)
        try:
            role = take_role(self._account, api, IMAGE_BUILD_NAMESPACE, pod["spec"]["serviceAccountName"])
        except (PodRoleError, ServiceException) as error:
            # Without a role the log cannot be put into S3 either.
            self._record("failed", values, message=str(getattr(error, "message", error)))
            return True
        try:
            self._play(role, values)
        except (PodRoleError, ClientError) as error:
            self._record("failed", values, message=str(error))
            self._report(role, values, str(error))
            return True
        return False

    def _play(self, role: PodRole, values: Mapping[str, str]) -> None:
        repository, tag = values["REPOSITORY"], values["TAG"]
        arn = f"arn:aws:ecr:{self._account.region}:{self._account.account_id}:repository/{repository}"
        role.require("ecr:DescribeImages", arn, {})
        if self._is_there(repository, tag):
            self._record("found the tag", values)
            return
        self._require_context(role, values["CONTEXT"])
        role.require("ecr:GetAuthorizationToken", "*", {})
        if self._fault is not None:
            raise PodRoleError(self._fault)
        for action in _PUSH:
            role.require(action, arn, {})
        cache = values["CACHE"].rpartition(":")[2]
        for pushed in (tag, cache):
            self._put(repository, pushed, {"image": values["IMAGE"], "tag": pushed})
        self._record("put the tag", values)

    def _is_there(self, repository: str, tag: str) -> bool:
        try:
            self._ecr.describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])
        except ClientError as error:
            if error.response["Error"]["Code"] == "ImageNotFoundException":
                return False
            raise
        return True

    def _require_context(self, role: PodRole, address: str) -> None:
        """Read the build context as the container `prepare` does; BuildKit requires a Dockerfile at its root."""
        bucket, key = _split(address)
        role.require("s3:GetObject", f"arn:aws:s3:::{bucket}/{key}", {})
        body = client(self._account, "s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        with zipfile.ZipFile(io.BytesIO(body)) as context:
            if "Dockerfile" not in context.namelist():
                raise PodRoleError(f"{address} has no Dockerfile")

    def _put(self, repository: str, tag: str, annotations: Mapping[str, str]) -> None:
        manifest = {"schemaVersion": 2, "mediaType": STAND_IN_IMAGE, "annotations": {"note": _MARK, **annotations}}
        self._ecr.put_image(
            repositoryName=repository,
            imageManifest=json.dumps(manifest),
            imageManifestMediaType=STAND_IN_IMAGE,
            imageTag=tag,
        )

    def _report(self, role: PodRole, values: Mapping[str, str], log: str) -> None:
        bucket, key = _split(values["LOG"])
        try:
            role.require("s3:PutObject", f"arn:aws:s3:::{bucket}/{key}", {})
            where = self._account.account_id, self._account.region
            if kms_key := default_key(*where, bucket):
                action = "kms:GenerateDataKey"
                role.require(action, kms_key, key_context(*where, bucket, key, action))
            client(self._account, "s3").put_object(Bucket=bucket, Key=key, Body=f"{_MARK}\n{log}\n".encode())
        except (PodRoleError, ClientError) as error:
            self._record("could not report", values, message=str(error))

    @property
    def _ecr(self) -> Any:
        return client(self._account, "ecr")

    def _record(self, action: str, values: Mapping[str, str], **fields: Any) -> None:
        self._account.journal.record("eks", action=f"image build stand-in {action}", image=values["IMAGE"], **fields)


def _is_build(spec: Object) -> bool:
    return any(re.search(_IMAGE, each["image"]) for each in spec["containers"])


def _variables(pod: Object) -> dict[str, str]:
    containers = (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
    return {entry["name"]: entry.get("value", "") for each in containers for entry in each.get("env", ())}


def _split(address: str) -> tuple[str, str]:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return bucket, key


def _status(pod: Object, *, failed: bool) -> Object:
    def ended(container: Object, code: int) -> Object:
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
        own = {"name": container["name"], "image": container["image"], "imageID": ""}
        return own | {"ready": False, "restartCount": 0, "state": state}

    return {
        "phase": "Failed" if failed else "Succeeded",
        "initContainerStatuses": [ended(each, 0) for each in pod["spec"].get("initContainers", ())],
        "containerStatuses": [ended(each, int(failed)) for each in pod["spec"]["containers"]],
    }
