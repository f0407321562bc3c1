"""EKS's REST API: the operations that replace moto's or that moto lacks.

moto's own operations check little, and moto lacks access entries, add-ons, pod identity associations and updates. An
operation that neither this module nor moto implements answers with status 501.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moto.core.responses import ActionResult
from moto.eks import urls
from moto.eks.responses import EKSResponse
from moto.sts.models import sts_backends

from embedded_account.context import Account
from embedded_account.services.eks.access.entries import AccessEntry
from embedded_account.services.eks.access.policies import ARN_PREFIX, POLICY_NAMES
from embedded_account.services.eks.add_ons.stand_ins import STAND_INS
from embedded_account.services.eks.service import EksService
from embedded_account.services.iam.access import backend_of

_CLUSTER = "{0}/clusters/(?P<name>[^/]+)"
_PATHS = (
    _CLUSTER + "/access-entries$",
    _CLUSTER + "/access-entries/(?P<principalArn>.+)$",
    _CLUSTER + "/addons$",
    _CLUSTER + "/addons/(?P<addonName>[^/]+)$",
    _CLUSTER + "/addons/(?P<addonName>[^/]+)/update$",
    _CLUSTER + "/pod-identity-associations$",
    _CLUSTER + "/pod-identity-associations/(?P<associationId>[^/]+)$",
    _CLUSTER + "/updates$",
    _CLUSTER + "/updates/(?P<updateId>[^/]+)$",
    "{0}/access-policies$",
    "{0}/addons/supported-versions$",
)


@dataclass(frozen=True)
class EksCall:
    """A request: its path parameters, body and query string, and the principal that sends it."""

    path: Mapping[str, str]
    body: Mapping[str, Any]
    query: Mapping[str, list[str]]
    creator_arn: str | None

    @property
    def cluster(self) -> str:
        """Return the cluster's name from the path."""
        return self.path["name"]

    @property
    def principal(self) -> str:
        """Return the principal's ARN from the path."""
        return self.path["principalArn"]


def install(account: Account, service: EksService) -> None:
    """Add the operations and their paths to moto's EKS."""
    operations = {
        **_cluster_operations(service),
        **_node_group_operations(service),
        **_entry_operations(service),
        **_policy_operations(service),
        **_addon_operations(service),
        **_pod_identity_operations(service),
    }
    for name, operation in operations.items():
        setattr(EKSResponse, name, _method(account, operation))
    for path in _PATHS:
        urls.url_paths[path] = urls.response.dispatch


def _method(account: Account, operation: Callable[[EksCall], Any]) -> Callable[[Any], Any]:
    def answer(response: Any) -> Any:
        call = EksCall(
            path=response.uri_match,
            body=json.loads(response.body) if response.body else {},
            query=response.querystring,
            creator_arn=_principal(account, response.access_key),
        )
        return ActionResult(operation(call))

    return answer


def _principal(account: Account, access_key_id: str) -> str | None:
    """Return the ARN of the role or user that owns an access key; None for the operator's own credentials."""
    session = sts_backends[account.account_id]["aws"].get_assumed_role_from_access_key(access_key_id)
    if session:
        return str(session.role_arn)
    user = backend_of(account).get_user_from_access_key_id(access_key_id)
    return str(user.arn) if user else None


def _cluster_operations(service: EksService) -> dict[str, Callable[[EksCall], Any]]:
    def describe_update(call: EksCall) -> Any:
        return {"update": service.records.updates.get(call.cluster, call.path["updateId"])}

    return {
        "create_cluster": lambda call: {"cluster": service.create_cluster(call.body, call.creator_arn)},
        "describe_cluster": lambda call: {"cluster": service.records.cluster(call.cluster)},
        "delete_cluster": lambda call: {"cluster": service.delete_cluster(call.cluster)},
        "update_cluster_config": lambda call: {"update": service.update_config(call.cluster, call.body)},
        "update_cluster_version": lambda call: {"update": service.update_version(call.cluster, call.body["version"])},
        "describe_update": describe_update,
        "list_updates": lambda call: {"updateIds": service.records.updates.ids(call.cluster)},
    }


def _node_group_operations(service: EksService) -> dict[str, Callable[[EksCall], Any]]:
    groups = service.node_groups
    return {
        "create_nodegroup": lambda call: {"nodegroup": groups.create(call.cluster, call.body)},
        "describe_nodegroup": lambda call: {"nodegroup": groups.get(call.cluster, call.path["nodegroupName"])},
        "delete_nodegroup": lambda call: {"nodegroup": groups.delete(call.cluster, call.path["nodegroupName"])},
        "update_nodegroup_config": lambda call: {
            "update": groups.update_config(call.cluster, call.path["nodegroupName"], call.body)
        },
        "list_nodegroups": lambda call: {"nodegroups": sorted(service.records.cluster(call.cluster).nodegroups)},
    }


def _entry_operations(service: EksService) -> dict[str, Callable[[EksCall], Any]]:
    entries = service.entries

    def delete(call: EksCall) -> Any:
        entries.delete(call.cluster, call.principal)
        return {}

    def update(call: EksCall) -> Any:
        return {"accessEntry": _described(entries.update(call.cluster, call.principal, call.body))}

    return {
        "create_access_entry": lambda call: {"accessEntry": _described(entries.create(call.cluster, call.body))},
        "describe_access_entry": lambda call: {"accessEntry": _described(entries.get(call.cluster, call.principal))},
        "update_access_entry": update,
        "delete_access_entry": delete,
        "list_access_entries": lambda call: {
            "accessEntries": sorted(entry.principal_arn for entry in entries.all(call.cluster))
        },
    }


def _policy_operations(service: EksService) -> dict[str, Callable[[EksCall], Any]]:
    entries = service.entries

    def associate(call: EksCall) -> Any:
        policy = entries.associate(call.cluster, call.principal, call.body["policyArn"], call.body["accessScope"])
        return {
            "clusterName": call.cluster,
            "principalArn": call.principal,
            "associatedAccessPolicy": policy,
        }

    def disassociate(call: EksCall) -> Any:
        entries.disassociate(call.cluster, call.principal, call.path["policyArn"])
        return {}

    def list_associated(call: EksCall) -> Any:
        entry = entries.get(call.cluster, call.principal)
        policies = [entries.policy_of(entry, arn) for arn in sorted(entry.policies)]
        return {
            "clusterName": call.cluster,
            "principalArn": call.principal,
            "associatedAccessPolicies": policies,
        }

    known = [{"name": name, "arn": ARN_PREFIX + name} for name in sorted(POLICY_NAMES)]
    return {
        "associate_access_policy": associate,
        "disassociate_access_policy": disassociate,
        "list_associated_access_policies": list_associated,
        "list_access_policies": lambda _call: {"accessPolicies": known},
    }


def _addon_operations(service: EksService) -> dict[str, Callable[[EksCall], Any]]:
    addons = service.addons

    def delete(call: EksCall) -> Any:
        preserve = call.query.get("preserve", ["false"])[0] == "true"
        return {"addon": addons.delete(call.cluster, call.path["addonName"], preserve=preserve)}

    return {
        "create_addon": lambda call: {"addon": addons.create(call.cluster, call.body)},
        "describe_addon": lambda call: {"addon": addons.get(call.cluster, call.path["addonName"])},
        "update_addon": lambda call: {"update": addons.update(call.cluster, call.path["addonName"], call.body)},
        "delete_addon": delete,
        "list_addons": lambda call: {"addons": addons.names(call.cluster)},
        "describe_addon_versions": lambda _call: {
            "addons": [{"addonName": name, "owner": "aws", "addonVersions": []} for name in sorted(STAND_INS)]
        },
    }


def _pod_identity_operations(service: EksService) -> dict[str, Callable[[EksCall], Any]]:
    associations = service.pod_identities
    return {
        "create_pod_identity_association": lambda call: {"association": associations.create(call.cluster, call.body)},
        "describe_pod_identity_association": lambda call: {
            "association": associations.get(call.cluster, call.path["associationId"])
        },
        "update_pod_identity_association": lambda call: {
            "association": associations.update(call.cluster, call.path["associationId"], call.body)
        },
        "delete_pod_identity_association": lambda call: {
            "association": associations.delete(call.cluster, call.path["associationId"])
        },
        "list_pod_identity_associations": lambda call: {"associations": associations.all(call.cluster)},
    }


def _described(entry: AccessEntry) -> dict[str, Any]:
    return {
        "clusterName": entry.cluster_name,
        "principalArn": entry.principal_arn,
        "kubernetesGroups": entry.kubernetes_groups,
        "accessEntryArn": entry.arn,
        "createdAt": entry.created_at,
        "modifiedAt": entry.modified_at,
        "tags": entry.tags,
        "username": entry.username,
        "type": entry.type,
    }
