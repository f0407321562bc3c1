"""Names of Kubernetes objects that other parts of the project refer to."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SYSTEM_NAMESPACE: Final = "kube-system"
HYPERPOD_NAMESPACE: Final = "aws-hyperpod"
IMAGE_BUILD_NAMESPACE: Final = "image-build"
# The namespace of the walkthrough's kube-prometheus stack (release name `prometheus`).
PROMETHEUS_NAMESPACE: Final = "prometheus-system"
# Of the exporters on nodes with GPUs: their pods may do what Pod Security refuses elsewhere.
GPU_METRICS_NAMESPACE: Final = "gpu-metrics"
# Of the exporters on nodes with EFA, which read a folder of the node, but have no further right.
EFA_METRICS_NAMESPACE: Final = "efa-metrics"
# The names that this stack gives to its Services.
PROMETHEUS_SERVICE: Final = "prometheus-kube-prometheus-prometheus"
GRAFANA_SERVICE: Final = "prometheus-grafana"
# Alertmanager's Service, service account and other objects.
ALERTMANAGER: Final = "alertmanager"

FSX_CSI_SERVICE_ACCOUNT: Final = "fsx-csi-controller-sa"
FSX_CSI_DRIVER: Final = "fsx.csi.aws.com"
# The name in the walkthrough.
FSX_STORAGE_CLASS: Final = "fsx-sc"
IMAGE_BUILDER_SERVICE_ACCOUNT: Final = "image-builder"
RAY_SERVICE_ACCOUNT: Final = "ray"
# The reaper's Deployment, service account and other objects, in the operator's namespace.
REAPER: Final = "ray-reaper"
# ConfigMaps of the controllers' code. Their names differ from those of the controllers, because earlier deployments
# created ConfigMaps under the controllers' names, and Helm would refuse to take them over (docs/adr/0042).
REAPER_CODE: Final = f"{REAPER}-code"
# The Deployment, service account and other objects of the program that lets instance groups sleep, there too.
SLEEPER: Final = "sleeper"
SLEEPER_CODE: Final = f"{SLEEPER}-code"

# The job supervisors' service account, Role and template, in Ray's namespace.
JOB_SUPERVISOR: Final = "job-supervisor"
JOB_SUPERVISOR_CODE: Final = f"{JOB_SUPERVISOR}-code"
# The template of the pods that submit a RayJob's job, in Ray's namespace.
RAYJOB_SUBMITTER: Final = "rayjob-submitter"
RAYJOB_SUBMITTER_CODE: Final = f"{RAYJOB_SUBMITTER}-code"

# The container of Prometheus' pod that exports what Leases and nodes say, and the ConfigMap of its code.
EXPORTER: Final = "exporter"
EXPORTER_CODE: Final = "exporter-code"

# NVIDIA's exporter, under which name Prometheus' job and the pods' label know it, too.
DCGM_EXPORTER: Final = "dcgm-exporter"
EFA_EXPORTER: Final = "efa-exporter"

# Prefix in the data bucket that the Ray pods read and write.
RAY_DATA_PREFIX: Final = "ray"
# Prefix in the data bucket of jobs' working directories, which the Ray pods only read.
RAY_PACKAGES_PREFIX: Final = f"{RAY_DATA_PREFIX}/packages"
# Prefix in the data bucket of the artifacts of MLflow's runs.
MLFLOW_PREFIX: Final = "mlflow"
# Directory at the file system's root that belongs to Ray's user.
RAY_DIRECTORY: Final = "ray"
# Prefix of the name of the Job that sets this owner.
RAY_DIRECTORY_JOB: Final = "ray-directory-"
# Prefix in the data bucket to which the image build writes the end of a failed build's log.
IMAGE_BUILD_LOGS: Final = "image-build"

# Ports of Ray's dashboard and job API, metadata store and client server: each runs the code that it receives.
DASHBOARD_PORT: Final = 8265
GCS_PORT: Final = 6379
CLIENT_PORT: Final = 10001
# Port on which Ray's pods, KubeRay and the reaper serve metrics.
METRICS_PORT: Final = 8080
PROMETHEUS_PORT: Final = 9090
DCGM_PORT: Final = 9400
GRAFANA_PORT: Final = 3000
ALERTMANAGER_PORT: Final = 9093
# HyperPod's checkpoint daemons, as `amzn-sagemaker-checkpointing` 1.1.3 calls them.
CHECKPOINTS_PORT: Final = 9200
CHECKPOINTS_HOST: Final = "ai-toolkit-gossip-headless.aws-hyperpod.svc.cluster.local"
MEMORY_TIER: Final = f"http://{CHECKPOINTS_HOST}:{CHECKPOINTS_PORT}"
# What the training library reads it from (packages/ray-resume/ray_resume/runs.py).
MEMORY_TIER_VARIABLE: Final = "RUN_MEMORY_TIER"

# KubeRay's label of every pod of a RayCluster.
RAY_NODE: Final[Mapping[str, str]] = MappingProxyType({"ray.io/is-ray-node": "yes"})
# A pod of Ray's namespace with this label may submit jobs to a head's port 8265.
SUBMITTER_LABEL: Final = "ray-on-hyperpod/submitter"
# Pods of RayJobs and PyTorchJobs with this label may reach each other.
RAYJOB_LABEL: Final = "ray-on-hyperpod/rayjob"

# Labels of a run's Job: the run's name, and its RayCluster.
RUN_LABEL: Final = "ray-on-hyperpod/run"
RUN_CLUSTER_LABEL: Final = "ray-on-hyperpod/cluster"
# Annotation of the Job that requests the end of the run, and annotation of the Lease of the same name with the
# supervisor's state in JSON.
RUN_STOP: Final = "ray-on-hyperpod/stop"
RUN_STATE: Final = "ray-on-hyperpod/state"
# Message of a supervisor's lines that say at which position of the job's output its log continues.
OUTPUT_MARK: Final = "output"


def submitters_group(namespace: str) -> str:
    """Return the Kubernetes group whose members may submit jobs to the RayClusters of a namespace."""
    return f"{namespace}-submitters"


def viewers_group(namespace: str) -> str:
    """Return the Kubernetes group whose members may read the environment with this Ray namespace."""
    return f"{namespace}-viewers"
