"""Node labels that more than one part of the project reads or writes."""

from typing import Final

# The managed node group sets it on its nodes, where operators, the CSI controller and the image build run.
SYSTEM_NODE_LABEL: Final = "ray-on-hyperpod/node-role"
SYSTEM_NODE_ROLE: Final = "system"

# Kubernetes' well-known label of a node's instance type.
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"

# HyperPod sets these on its nodes (AWS docs: sagemaker-hyperpod-eks-resiliency-node-labels). A replaced node gets
# another name, so pods select nodes by the instance group.
INSTANCE_GROUP_LABEL: Final = "sagemaker.amazonaws.com/instance-group-name"
NODE_HEALTH_LABEL: Final = "sagemaker.amazonaws.com/node-health-status"
NODE_SCHEDULABLE: Final = "Schedulable"
DEEP_HEALTH_LABEL: Final = "sagemaker.amazonaws.com/deep-health-check-status"
DEEP_HEALTH_PASSED: Final = "Passed"

# On a Ray pod, a label: the template that the pod was made from. On a RayCluster, an annotation: all its templates.
TEMPLATE_LABEL: Final = "ray-on-hyperpod/template"

# On a RayCluster and on a node, an annotation: `ops pause` suspended or cordoned it, and `ops resume` reverts that.
PAUSED: Final = "ray-on-hyperpod/paused"

# On a RayCluster, an annotation for each instance group that `ops wake` or `ops sleep` names; the group's name follows
# a slash. The sleeper acts on it and removes it.
HAND: Final = "hand.ray-on-hyperpod"

# Beginning of an annotation on a node: `ops node shell` has a shell open there. The value says until when, and whose.
SHELL: Final = "ray-on-hyperpod/shell-"
