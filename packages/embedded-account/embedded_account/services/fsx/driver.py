"""A stand-in for the FSx CSI driver's controller: create, grow and delete file systems for claims.

The driver's pods run no program in the rehearsal; the stand-in works in their place. It works only while the driver
could: the controller is available and knows its region, STS accepts its service account's token for its IAM role, and
the role's policies allow each call. The account's simulated FSx holds the file systems; nothing is mounted.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from botocore.exceptions import ClientError, ParamValidationError
from moto.core.exceptions import ServiceException
from urllib3.exceptions import HTTPError

from embedded_account.context import Account
from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError, Object
from embedded_account.kubernetes.running import RunningCluster
from embedded_account.services.fsx.driver_controller import Controller, find_controller
from embedded_account.services.fsx.driver_requests import (
    VOLUME_TAG,
    create_request,
    gib,
    rounded_up,
)
from embedded_account.services.fsx.service import KEY_ACTIONS
from embedded_account.services.iam.pod_role import PodRoleError
from embedded_account.services.keys import context_of
from embedded_account.services.shared.api_model import client
from embedded_account.tags import tag_map

DRIVER: Final = "fsx.csi.aws.com"
STAND_IN: Final = {"rehearsal/stand-in": "true"}
_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_SERVICE: Final = "fsx.amazonaws.com"
_EVERY_SECONDS: Final = 0.5

Work = tuple[Object, Callable[[Controller], None]]
"""A claim or volume that needs work, and the function that does the work with the controller."""

_log = logging.getLogger(__name__)


def install(account: Account) -> None:
    """Start to serve the claims of every cluster, in a thread that ends with the account."""
    ended = threading.Event()
    account.at_end.callback(ended.set)
    threading.Thread(target=_run, args=(account, ended), name="fsx-csi-stand-in", daemon=True).start()


def _run(account: Account, ended: threading.Event) -> None:
    drivers: dict[RunningCluster, FsxDriver] = {}
    while not ended.wait(_EVERY_SECONDS):
        clusters = account.clusters.all()
        drivers = {each: drivers.get(each) or FsxDriver(account, each.control_plane.api) for each in clusters}
        for driver in drivers.values():
            try:
                driver.step()
            except (KubernetesClientError, HTTPError, OSError, KeyError) as error:
                # The control plane is starting, stopping or busy: retry at the next step.
                _log.debug("FSx CSI stand-in: %s", error)


class FsxDriver:
    """The driver's work in one cluster; each step lists all claims and volumes again."""

    def __init__(self, account: Account, api: KubernetesClient) -> None:
        self._account = account
        self._api = api
        self._told: dict[str, str] = {}

    def step(self) -> None:
        """Do the work that claims and volumes need and that is possible now. Raises ApiError."""
        volumes = [volume for volume in self._list("/api/v1/persistentvolumes") if _is_ours(volume)]
        classes = {
            item["metadata"]["name"]: item
            for item in self._list("/apis/storage.k8s.io/v1/storageclasses")
            if item["provisioner"] == DRIVER
        }
        if not volumes and not classes:
            return
        claims = self._list("/api/v1/persistentvolumeclaims")
        for item, work in self._work(claims, classes, volumes):
            try:
                controller = find_controller(self._account, self._api)
                if controller:
                    work(controller)
            except (PodRoleError, ServiceException, ClientError, ParamValidationError) as error:
                self._tell(item, str(getattr(error, "message", error)))

    def _work(self, claims: list[Object], classes: Mapping[str, Object], volumes: list[Object]) -> Iterator[Work]:
        by_uid = {claim["metadata"]["uid"]: claim for claim in claims}
        for claim in claims:
            annotations = claim["metadata"].get("annotations", {})
            storage_class = classes.get(claim["spec"].get("storageClassName", ""))
            if storage_class and annotations.get(_PROVISIONER) == DRIVER and not claim["spec"].get("volumeName"):
                yield claim, partial(self._provision, claim, storage_class)
        for volume in volumes:
            bound = by_uid.get(volume["spec"]["claimRef"].get("uid"))
            reclaim = volume["spec"]["persistentVolumeReclaimPolicy"]
            if volume["status"].get("phase") == "Released" and reclaim == "Delete":
                yield volume, partial(self._delete, volume)
            elif bound and _wanted(bound) > gib(volume["spec"]["capacity"]["storage"]):
                yield bound, partial(self._grow, bound, volume)

    def _provision(self, claim: Object, storage_class: Object, by: Controller) -> None:
        name = f"pvc-{claim['metadata']['uid']}"
        by.require("fsx:DescribeFileSystems", "*", {})
        found = [each for each in self._file_systems() if _tags(each).get(VOLUME_TAG) == name]
        if not found:
            self._create(name, claim, storage_class, by)
        elif found[0]["Lifecycle"] == "AVAILABLE":
            self._api.create("/api/v1/persistentvolumes", _volume(name, claim, storage_class, found[0]))
        elif found[0]["Lifecycle"] != "CREATING":
            raise PodRoleError(f"unexpected state for filesystem {found[0]['FileSystemId']}: {found[0]['Lifecycle']}")

    def _create(self, name: str, claim: Object, storage_class: Object, by: Controller) -> None:
        request = create_request(
            storage_class.get("parameters") or {}, volume=name, capacity_gib=_wanted(claim), driver_tags=by.tags
        )
        context = {f"aws:RequestTag/{tag['Key']}": tag["Value"] for tag in request["Tags"]}
        for action in ("fsx:CreateFileSystem", "fsx:TagResource"):
            by.require(action, self._arn("fsx", "file-system/*"), context)
        self._require_key(by, request.get("KmsKeyId", ""))
        # FSx creates its service-linked role with the account's first file system.
        role = f"role/aws-service-role/{_SERVICE}/AWSServiceRoleForAmazonFSx"
        account_wide = f"arn:aws:iam::{self._account.account_id}:{role}"
        by.require("iam:CreateServiceLinkedRole", account_wide, {"iam:AWSServiceName": _SERVICE})
        made = self._fsx.create_file_system(**request)["FileSystem"]["FileSystemId"]
        self._record("made", file_system=made, claim=claim["metadata"]["name"])

    def _require_key(self, by: Controller, key: str) -> None:
        """Raise PodRoleError unless the driver's role may use the key through FSx."""
        for action in KEY_ACTIONS if key else ():
            by.require(action, key, context_of(self._account.account_id, self._account.region, action, "fsx"))

    def _grow(self, claim: Object, volume: Object, by: Controller) -> None:
        identifier, wanted = volume["spec"]["csi"]["volumeHandle"], rounded_up(_wanted(claim))
        system = self._file_system(identifier)
        if system["StorageCapacity"] < wanted:
            by.require("fsx:UpdateFileSystem", system["ResourceARN"], _resource_tags(system))
            self._fsx.update_file_system(FileSystemId=identifier, StorageCapacity=wanted)
        elif system["Lifecycle"] == "AVAILABLE":
            capacity = {"capacity": {"storage": f"{wanted}Gi"}}
            metadata = claim["metadata"]
            self._api.patch(f"/api/v1/persistentvolumes/{volume['metadata']['name']}", {"spec": capacity})
            path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}/status"
            self._api.patch(path, {"status": capacity})
            self._record("grew", file_system=identifier, capacity=wanted)

    def _delete(self, volume: Object, by: Controller) -> None:
        """Delete the file system and the volume; the driver does not wait until the file system is deleted."""
        identifier = volume["spec"]["csi"]["volumeHandle"]
        try:
            system = self._file_system(identifier)
            by.require("fsx:DeleteFileSystem", system["ResourceARN"], _resource_tags(system))
            if system["Lifecycle"] != "DELETING":
                self._fsx.delete_file_system(FileSystemId=identifier)
                self._record("deleted", file_system=identifier)
        except ClientError as error:
            if error.response["Error"]["Code"] != "FileSystemNotFound":
                raise
        self._api.delete(f"/api/v1/persistentvolumes/{volume['metadata']['name']}")

    # ------------------------------------------------ within

    @property
    def _fsx(self) -> Any:
        return client(self._account, "fsx")

    def _file_systems(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._fsx.describe_file_systems()["FileSystems"]
        return found

    def _file_system(self, identifier: str) -> dict[str, Any]:
        found: dict[str, Any] = self._fsx.describe_file_systems(FileSystemIds=[identifier])["FileSystems"][0]
        return found

    def _arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self._account.region}:{self._account.account_id}:{resource}"

    def _list(self, path: str) -> list[Object]:
        items: list[Object] = self._api.get(path)["items"]
        return items

    def _record(self, action: str, **fields: Any) -> None:
        self._account.journal.record("eks", action=f"FSx CSI stand-in {action}", **fields)

    def _tell(self, item: Object, message: str) -> None:
        """Report an error as an event of the claim or volume; skip a message that repeats the last one."""
        metadata = item["metadata"]
        if self._told.get(metadata["uid"]) == message:
            return
        self._told[metadata["uid"]] = message
        self._record("failed", name=metadata["name"], message=message)
        namespace, now = metadata.get("namespace", "default"), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        kind = "PersistentVolumeClaim" if "namespace" in metadata else "PersistentVolume"
        reference = {"kind": kind, "name": metadata["name"], "uid": metadata["uid"], "apiVersion": "v1"}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name']}.", "namespace": namespace, "labels": STAND_IN},
            "involvedObject": reference | ({"namespace": namespace} if "namespace" in metadata else {}),
            "reason": "ProvisioningFailed" if "namespace" in metadata else "VolumeFailedDelete",
            "message": message,
            "type": "Warning",
            "source": {"component": DRIVER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._api.create(f"/api/v1/namespaces/{namespace}/events", event)


def _is_ours(volume: Object) -> bool:
    return bool(volume["metadata"].get("annotations", {}).get(_PROVISIONED_BY) == DRIVER)


def _wanted(claim: Object) -> int:
    return gib(claim["spec"]["resources"]["requests"]["storage"])


def _tags(file_system: Mapping[str, Any]) -> dict[str, str]:
    return tag_map(file_system.get("Tags", []))


def _resource_tags(file_system: Mapping[str, Any]) -> dict[str, str]:
    return {f"aws:ResourceTag/{key}": value for key, value in _tags(file_system).items()}


def _volume(name: str, claim: Object, storage_class: Object, file_system: Mapping[str, Any]) -> Object:
    """Return the volume that the driver's provisioner creates; Kubernetes' own controller binds it."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": STAND_IN, "annotations": {_PROVISIONED_BY: DRIVER}},
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": f"{file_system['StorageCapacity']}Gi"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                **{key: metadata[key] for key in ("namespace", "name", "uid")},
            },
            "csi": {
                "driver": DRIVER,
                "volumeHandle": file_system["FileSystemId"],
                "volumeAttributes": {
                    "dnsname": file_system["DNSName"],
                    "mountname": file_system["LustreConfiguration"]["MountName"],
                },
            },
            "mountOptions": storage_class.get("mountOptions", []),
            "persistentVolumeReclaimPolicy": storage_class["reclaimPolicy"],
            "storageClassName": storage_class["metadata"]["name"],
        },
    }
