"""Names of Kubernetes objects that other parts of the project refer to."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SYSTEM_NAMESPACE: Final = "kube-system"
# HyperPod's own, and that of its observability add-on.
HYPERPOD_NAMESPACE: Final = "aws-hyperpod"
OBSERVABILITY_NAMESPACE: Final = "hyperpod-observability"
IMAGE_BUILD_NAMESPACE: Final = "image-build"
# Where the walkthrough's kube-prometheus stack lives (release name `prometheus`).
PROMETHEUS_NAMESPACE: Final = "prometheus-system"

FSX_CSI_SERVICE_ACCOUNT: Final = "fsx-csi-controller-sa"
FSX_CSI_DRIVER: Final = "fsx.csi.aws.com"
# The walkthrough's name.
FSX_STORAGE_CLASS: Final = "fsx-sc"
IMAGE_BUILDER_SERVICE_ACCOUNT: Final = "image-builder"
RAY_SERVICE_ACCOUNT: Final = "ray"
# Deployment, service account and the rest of the reaper, in the operator's namespace.
REAPER: Final = "ray-reaper"
# ConfigMaps of the controllers' code: other names than those of the controllers, under which earlier deployments made
# ConfigMaps that Helm would refuse to take over (docs/adr/0042).
REAPER_CODE: Final = f"{REAPER}-code"

# Account, role and template of the job supervisors, in Ray's namespace.
JOB_SUPERVISOR: Final = "job-supervisor"
JOB_SUPERVISOR_CODE: Final = f"{JOB_SUPERVISOR}-code"

# Prefix of the data bucket that the Ray pods read and write.
RAY_DATA_PREFIX: Final = "ray"
# Directory at the file system's root that belongs to Ray's user.
RAY_DIRECTORY: Final = "ray"
# What the name of the Job begins with that makes it so.
RAY_DIRECTORY_JOB: Final = "ray-directory-"
# Prefix of the data bucket that the image build writes the end of a failed build's log to.
IMAGE_BUILD_LOGS: Final = "image-build"

# Ray's dashboard and job API, its metadata store, its client server: each runs what it is sent.
DASHBOARD_PORT: Final = 8265
GCS_PORT: Final = 6379
CLIENT_PORT: Final = 10001
# Where Ray's pods, KubeRay and the reaper serve their metrics.
METRICS_PORT: Final = 8080
# HyperPod's job monitoring agent on each node, as `toolkit-for-ray-on-sagemaker-ai` 1.0.4 calls it, and its checkpoint
# daemons, as `amzn-sagemaker-checkpointing` 1.1.3 does.
JOB_MONITORING_PORT: Final = 8889
CHECKPOINTS_PORT: Final = 9200
CHECKPOINTS_HOST: Final = "ai-toolkit-gossip-headless.aws-hyperpod.svc.cluster.local"

# KubeRay's label of every pod of a RayCluster.
RAY_NODE: Final[Mapping[str, str]] = MappingProxyType({"ray.io/is-ray-node": "yes"})
# A pod of Ray's namespace that carries this label may submit jobs to a head's port 8265.
SUBMITTER_LABEL: Final = "ray-on-hyperpod/submitter"

# On the Job of a run, with the run's name, and with the RayCluster that it runs on.
RUN_LABEL: Final = "ray-on-hyperpod/run"
RUN_CLUSTER_LABEL: Final = "ray-on-hyperpod/cluster"
# Annotation of the Job: the run shall end; and of the Lease of the same name: how far its supervisor is, in JSON.
RUN_STOP: Final = "ray-on-hyperpod/stop"
RUN_STATE: Final = "ray-on-hyperpod/state"


def submitters_group(namespace: str) -> str:
    """The Kubernetes group of who may submit jobs to the RayClusters of a namespace."""
    return f"{namespace}-submitters"
