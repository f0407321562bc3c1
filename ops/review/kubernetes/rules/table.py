"""The rule of each kind."""

from collections.abc import Mapping
from typing import Final

from ops.review.kubernetes.objects import Key
from ops.review.kubernetes.rules.access import review_binding, review_role, review_service_account
from ops.review.kubernetes.rules.configuration import review_config_map, review_secret
from ops.review.kubernetes.rules.context import Rule
from ops.review.kubernetes.rules.definitions import review_admission, review_definition
from ops.review.kubernetes.rules.exposure import review_ingress, review_service
from ops.review.kubernetes.rules.namespaces import (
    review_disruption_budget,
    review_limit_range,
    review_namespace,
    review_priority_class,
    review_quota,
)
from ops.review.kubernetes.rules.network_policies import review_network_policy
from ops.review.kubernetes.rules.ray_clusters import review_ray_cluster
from ops.review.kubernetes.rules.storage import review_claim, review_storage_class, review_volume
from ops.review.kubernetes.rules.workloads import review_driver, review_workload

_ACCESS: Final = "rbac.authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"

_RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "ConfigMap"): review_config_map,
    ("", "LimitRange"): review_limit_range,
    ("", "Namespace"): review_namespace,
    ("", "PersistentVolume"): review_volume,
    ("", "PersistentVolumeClaim"): review_claim,
    ("", "Pod"): review_workload,
    ("", "ResourceQuota"): review_quota,
    ("", "Secret"): review_secret,
    ("", "Service"): review_service,
    ("", "ServiceAccount"): review_service_account,
    (_ACCESS, "ClusterRole"): review_role,
    (_ACCESS, "ClusterRoleBinding"): review_binding,
    (_ACCESS, "Role"): review_role,
    (_ACCESS, "RoleBinding"): review_binding,
    (_ADMISSION, "MutatingWebhookConfiguration"): review_admission,
    (_ADMISSION, "ValidatingAdmissionPolicy"): review_admission,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): review_admission,
    (_ADMISSION, "ValidatingWebhookConfiguration"): review_admission,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): review_definition,
    ("apps", "DaemonSet"): review_workload,
    ("apps", "Deployment"): review_workload,
    ("apps", "ReplicaSet"): review_workload,
    ("apps", "StatefulSet"): review_workload,
    ("batch", "CronJob"): review_workload,
    ("batch", "Job"): review_workload,
    ("networking.k8s.io", "Ingress"): review_ingress,
    ("networking.k8s.io", "NetworkPolicy"): review_network_policy,
    ("policy", "PodDisruptionBudget"): review_disruption_budget,
    ("ray.io", "RayCluster"): review_ray_cluster,
    ("scheduling.k8s.io", "PriorityClass"): review_priority_class,
    ("storage.k8s.io", "CSIDriver"): review_driver,
    ("storage.k8s.io", "StorageClass"): review_storage_class,
}


def rule_of(key: Key) -> Rule | None:
    """Return the rule of an object's kind; None if no rule knows it."""
    return _RULES.get((key[0], key[1]))
