"""The checks of `ops preflight`, in the order of the table."""

from typing import Final

from config import Environment
from config.model.environment import types_taken
from ops.preflight import (
    account,
    charts,
    container_insights,
    demands,
    existing_cluster,
    existing_network,
    names,
    training_plans,
    zones,
)
from ops.preflight.check import Check

CHECKS: Final = (
    Check("credentials", account.credentials),
    Check("region", account.region),
    Check("endpoint", account.endpoints),
    Check("chart", charts.charts),
    Check("CDK bootstrap", account.bootstrap),
    Check("stack", names.stacks),
    Check("service-linked role", account.service_linked_roles),
    Check("KMS key", account.key),
    Check("zone", zones.zones),
    Check("instance type", zones.instance_types),
    Check("quota", demands.hyperpod),
    Check("quota", demands.network),
    Check("quota", demands.file_system),
    Check("quota", demands.eks),
    Check("quota", demands.system_nodes),
    Check("training plan", training_plans.training_plans),
    Check("VPC", existing_network.vpc),
    Check("subnet", existing_network.subnets),
    Check("route", existing_network.routes),
    Check("EKS cluster", existing_cluster.cluster),
    Check("EKS add-on", existing_cluster.add_on),
    Check("EKS add-on", existing_cluster.installed_add_ons),
    Check("Kubernetes API", existing_cluster.kubeflow),
    Check("HyperPod's EKS cluster", names.orchestrator),
    Check("name of the HyperPod cluster", names.cluster),
    Check("names of the EKS cluster and its log group", names.eks),
    Check("names of Container Insights' log groups", container_insights.log_groups),
    Check("names of the buckets", names.buckets),
    Check("name of the repository", names.repository),
)


def checks_of(environment: Environment) -> tuple[Check, ...]:
    """Return the checks that the environment's orchestrator needs."""
    return tuple(check for check in CHECKS if isinstance(environment, types_taken(check.inspect)))
