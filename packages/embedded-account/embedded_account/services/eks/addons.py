"""Keep EKS's records of add-ons, and create stand-ins for their objects in the cluster.

The stand-ins have the names, labels, requests and tolerations of EKS's own objects. Their pods therefore occupy the
same nodes and resources as on EKS; nothing runs in the pods.
"""

import json
import re
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from embedded_account.context import Account
from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError, Object
from embedded_account.services.eks.add_ons.configurations import check_configuration
from embedded_account.services.eks.add_ons.stand_ins import SERVICE_ACCOUNTS, STAND_INS
from embedded_account.services.eks.errors import in_use, invalid_parameter, not_found
from embedded_account.services.eks.records import ClusterRecords
from embedded_account.services.iam.access import find_role

DEFAULT_ADDONS: Final = ("vpc-cni", "kube-proxy", "coredns")
"""The add-ons that EKS installs, unmanaged, in every new cluster, unless the request declines them."""
_VERSION = re.compile(r"v\d+\.\d+\.\d+-eksbuild\.\d+")
_RESOLVE_CONFLICTS = ("NONE", "OVERWRITE", "PRESERVE")
_APPLY = "application/apply-patch+yaml"
_PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "DaemonSet": "daemonsets",
    "Deployment": "deployments",
    "Service": "services",
}

Addon = dict[str, Any]
"""An Addon in the API's shape."""


class Addons:
    """The managed add-ons of all clusters."""

    def __init__(self, account: Account, records: ClusterRecords) -> None:
        self._account = account
        self._records = records
        self._lock = threading.Lock()
        self._addons: dict[str, dict[str, Addon]] = {}

    def forget(self, cluster_name: str) -> None:
        """Forget the add-ons of a cluster that is deleted."""
        self._addons.pop(cluster_name, None)

    def names(self, cluster_name: str) -> list[str]:
        """Return the names of a cluster's managed add-ons, sorted."""
        self._records.cluster(cluster_name)
        return sorted(self._addons.get(cluster_name, {}))

    def get(self, cluster_name: str, name: str) -> Addon:
        """Return one add-on; raise EKS's error if it does not exist."""
        self._records.cluster(cluster_name)
        found = self._addons.get(cluster_name, {}).get(name)
        if found is None:
            raise not_found(f"No addon: {name} found in cluster: {cluster_name}")
        return found

    def create(self, cluster_name: str, request: Mapping[str, Any]) -> Addon:
        """Carry out a CreateAddon request; the add-on is ACTIVE at once, even if no node can run its pods."""
        cluster, name = self._records.active_cluster(cluster_name), request["addonName"]
        if name not in STAND_INS:
            raise invalid_parameter(
                f"Addon {name} specified is not supported in {cluster.version} kubernetes version by this "
                f"rehearsal; it has {', '.join(sorted(STAND_INS))}"
            )
        configuration = self._check(name, request)
        with self._lock:
            addons = self._addons.setdefault(cluster_name, {})
            if name in addons:
                raise in_use("Addon already exists.")
            now = self._account.clock.now()
            addons[name] = _record(self._account, cluster_name, request, now)
        self.apply_stand_in(cluster_name, name, configuration)
        return addons[name]

    def update(self, cluster_name: str, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out an UpdateAddon request and return its Update."""
        addon, configuration = self.get(cluster_name, name), self._check(name, request)
        for key in ("addonVersion", "serviceAccountRoleArn", "configurationValues"):
            if request.get(key):
                addon[key] = request[key]
        addon["modifiedAt"] = self._account.clock.now()
        self.apply_stand_in(cluster_name, name, configuration)
        return self._records.updates.record(cluster_name, "AddonUpdate")

    def delete(self, cluster_name: str, name: str, *, preserve: bool = False) -> Addon:
        """Delete an add-on and, unless `preserve` is set, its objects; return it with the status DELETING."""
        addon = self.get(cluster_name, name)
        if not preserve:
            api = self._account.clusters.get(cluster_name).control_plane.api
            for item in reversed(STAND_INS[name]({})):
                _delete(api, item)
        del self._addons[cluster_name][name]
        return addon | {"status": "DELETING"}

    def apply_stand_in(self, cluster_name: str, name: str, configuration: Mapping[str, Any] | None = None) -> None:
        """Create or update the add-on's objects in the cluster. Raises ApiError."""
        api = self._account.clusters.get(cluster_name).control_plane.api
        for item in STAND_INS[name](configuration or {}):
            api.patch(f"{_path(item)}?fieldManager=eks&force=true", item, _APPLY)

    def _check(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Raise EKS's error for an invalid request; return the parsed configuration values."""
        version, role = request.get("addonVersion"), request.get("serviceAccountRoleArn")
        if version and not _VERSION.fullmatch(version):
            raise invalid_parameter(f"Addon version specified is not supported: {version}")
        found = find_role(self._account, role) if role else None
        if role and not found:
            raise invalid_parameter(f"The role {role} does not exist")
        subject = SERVICE_ACCOUNTS.get(name)
        if found and subject and subject not in json.dumps(_document(found.assume_role_policy_document)):
            # EKS would accept it, and the add-on's pods would get no credentials.
            raise invalid_parameter(f"The role {role} cannot be assumed by {subject}, the add-on's service account")
        resolve = request.get("resolveConflicts", "NONE")
        if resolve not in _RESOLVE_CONFLICTS:
            raise invalid_parameter(f"resolveConflicts {resolve} is invalid. Allowed: {', '.join(_RESOLVE_CONFLICTS)}")
        text = request.get("configurationValues") or "{}"
        try:
            configuration = json.loads(text)
        except ValueError as error:
            raise invalid_parameter(f"ConfigurationValue provided is not valid JSON: {error}") from error
        if not isinstance(configuration, dict):
            raise invalid_parameter("ConfigurationValue provided is not a JSON object")
        check_configuration(self._account, name, configuration)
        return configuration


def _document(policy: Any) -> Any:
    return json.loads(policy) if isinstance(policy, str) else policy


def _record(account: Account, cluster_name: str, request: Mapping[str, Any], now: datetime) -> Addon:
    name = request["addonName"]
    arn = f"arn:aws:eks:{account.region}:{account.account_id}:addon/{cluster_name}/{name}/{now:%Y%m%d%H%M%S}"
    given = ("addonVersion", "serviceAccountRoleArn", "configurationValues")
    return {
        "addonName": name,
        "clusterName": cluster_name,
        "status": "ACTIVE",
        "health": {"issues": []},
        "addonArn": arn,
        "createdAt": now,
        "modifiedAt": now,
        "tags": dict(request.get("tags") or {}),
        **{key: request[key] for key in given if request.get(key)},
    }


def _path(item: Object) -> str:
    group = item["apiVersion"]
    root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    metadata = item["metadata"]
    if item["kind"] == "Namespace":
        return f"{root}/namespaces/{quote(metadata['name'])}"
    return f"{root}/namespaces/{metadata['namespace']}/{_PLURALS[item['kind']]}/{quote(metadata['name'])}"


def _delete(api: KubernetesClient, item: Object) -> None:
    try:
        api.delete(_path(item), {"propagationPolicy": "Background"})
    except KubernetesClientError as error:
        if error.status != 404:
            raise
