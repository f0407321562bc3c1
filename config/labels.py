"""Node labels that more than one part of the project reads or writes."""

from typing import Final

# Set by the managed node group on its nodes: the place of operators, the CSI controller and the image build.
SYSTEM_NODE_LABEL: Final = "ray-on-hyperpod/node-role"
SYSTEM_NODE_ROLE: Final = "system"

# Set by HyperPod on its nodes (AWS docs: sagemaker-hyperpod-eks-resiliency-node-labels). A replaced node comes back
# under another name, so pods find their place by the instance group.
INSTANCE_GROUP_LABEL: Final = "sagemaker.amazonaws.com/instance-group-name"
NODE_HEALTH_LABEL: Final = "sagemaker.amazonaws.com/node-health-status"
NODE_SCHEDULABLE: Final = "Schedulable"
DEEP_HEALTH_LABEL: Final = "sagemaker.amazonaws.com/deep-health-check-status"
DEEP_HEALTH_PASSED: Final = "Passed"

# Of a Ray pod: the template that it was made from. Of a RayCluster, as an annotation: all of its templates.
TEMPLATE_LABEL: Final = "ray-on-hyperpod/template"
