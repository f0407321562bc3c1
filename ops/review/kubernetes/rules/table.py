"""The rule of each kind."""

from collections.abc import Mapping
from typing import Final

from ops.review.kubernetes.objects import Key
from ops.review.kubernetes.rules.access import judge_binding, judge_role, judge_service_account
from ops.review.kubernetes.rules.configuration import judge_config_map, judge_secret
from ops.review.kubernetes.rules.context import Rule
from ops.review.kubernetes.rules.definitions import judge_admission, judge_definition
from ops.review.kubernetes.rules.exposure import judge_ingress, judge_service
from ops.review.kubernetes.rules.namespaces import (
    judge_disruption_budget,
    judge_limit_range,
    judge_namespace,
    judge_priority_class,
    judge_quota,
)
from ops.review.kubernetes.rules.network_policies import judge_network_policy
from ops.review.kubernetes.rules.ray_clusters import judge_ray_cluster
from ops.review.kubernetes.rules.storage import judge_claim, judge_storage_class, judge_volume
from ops.review.kubernetes.rules.workloads import judge_driver, judge_workload

_ACCESS: Final = "rbac.authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"

_RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "ConfigMap"): judge_config_map,
    ("", "LimitRange"): judge_limit_range,
    ("", "Namespace"): judge_namespace,
    ("", "PersistentVolume"): judge_volume,
    ("", "PersistentVolumeClaim"): judge_claim,
    ("", "Pod"): judge_workload,
    ("", "ResourceQuota"): judge_quota,
    ("", "Secret"): judge_secret,
    ("", "Service"): judge_service,
    ("", "ServiceAccount"): judge_service_account,
    (_ACCESS, "ClusterRole"): judge_role,
    (_ACCESS, "ClusterRoleBinding"): judge_binding,
    (_ACCESS, "Role"): judge_role,
    (_ACCESS, "RoleBinding"): judge_binding,
    (_ADMISSION, "MutatingWebhookConfiguration"): judge_admission,
    (_ADMISSION, "ValidatingAdmissionPolicy"): judge_admission,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): judge_admission,
    (_ADMISSION, "ValidatingWebhookConfiguration"): judge_admission,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): judge_definition,
    ("apps", "DaemonSet"): judge_workload,
    ("apps", "Deployment"): judge_workload,
    ("apps", "ReplicaSet"): judge_workload,
    ("apps", "StatefulSet"): judge_workload,
    ("batch", "CronJob"): judge_workload,
    ("batch", "Job"): judge_workload,
    ("networking.k8s.io", "Ingress"): judge_ingress,
    ("networking.k8s.io", "NetworkPolicy"): judge_network_policy,
    ("policy", "PodDisruptionBudget"): judge_disruption_budget,
    ("ray.io", "RayCluster"): judge_ray_cluster,
    ("scheduling.k8s.io", "PriorityClass"): judge_priority_class,
    ("storage.k8s.io", "CSIDriver"): judge_driver,
    ("storage.k8s.io", "StorageClass"): judge_storage_class,
}


def rule_of(key: Key) -> Rule | None:
    """Return the rule of an object's kind; None if no rule knows it."""
    return _RULES.get((key[0], key[1]))
