"""Every version that the project pins outside the lock files, each in one place."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

# HyperPod's list of Kubernetes versions (AWS docs: sagemaker-hyperpod-eks-prerequisites, "supports Kubernetes versions
# 1.30, 1.31, 1.32, 1.33, 1.34, and 1.35"), each with the layer that brings kubectl and Helm to a deployment.
# aws-cdk-lib offers versions that HyperPod refuses. kubectl may be one minor version older or newer than the API server
# (Kubernetes' version skew policy), so one layer serves three. Helm is 3 in the layer of 1.31, 4 in the later ones.
KUBECTL_LAYERS: Final = {"1.30": "v31", "1.31": "v31", "1.32": "v33", "1.33": "v33", "1.34": "v35", "1.35": "v35"}
KUBERNETES_VERSIONS: Final = tuple(KUBECTL_LAYERS)
KUBERNETES_DEFAULT: Final = "1.35"

# The EKS add-on vpc-cni, a build that EKS offers for 1.32 to 1.36 (EKS user guide, "Amazon VPC CNI versions", read in
# November 2026). v1.22.0 to v1.22.3 hand a HyperPod node's own address to a pod (amazon-vpc-cni-k8s #3753); #3754 and
# #3756 fix it in 1.23.0 and 1.22.4. HyperPod requires 1.18.3 or newer.
VPC_CNI: Final = "v1.22.4-eksbuild.3"
VPC_CNI_OLDEST: Final = (1, 18, 3)
VPC_CNI_BROKEN: Final = ((1, 22, 0), (1, 22, 3))

# KubeRay's versions that an environment can choose; their charts are in charts.lock.yaml. Each has the feature gates
# that its operator knows: the operator exits at start if a gate is unknown (ray-operator/pkg/features/features.go of
# each tag). docs/operate/kuberay.md describes the other differences.
KUBERAY: Final = "1.2.0"
KUBERAY_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    KUBERAY: ("RayClusterStatusConditions",),
    "1.2.2": ("RayClusterStatusConditions",),
    "1.3.2": ("RayClusterStatusConditions", "RayJobDeletionPolicy"),
    "1.4.2": ("RayClusterStatusConditions", "RayJobDeletionPolicy"),
    "1.6.2": (
        *("RayClusterStatusConditions", "RayJobDeletionPolicy", "RayMultiHostIndexing"),
        *("RayServiceIncrementalUpgrade", "RayCronJob", "AsyncJobInfoQuery"),
    ),
}


class VersionSet(NamedTuple):
    """Versions of the Ray image that go together. Its lock, `requirements`, has those of PyTorch and CUDA, too."""

    ray: str
    kuberay: str
    """The operator's version unless `kuberay.version` states another."""
    python: str
    """CPython of the image, in which jobs and the training library run."""
    requirements: str
    """The lock, below `ray_image/`."""
    gains: str
    """What an environment gains by it, as a sentence."""
    proof: Mapping[str, str]
    """How each component was proven: `ran`, `resolved` (a resolver accepted it), or `unverified`."""

    @property
    def base_image(self) -> str:
        """rayproject/ray's tag: Ray's version, CPython's version, CUDA user space."""
        return f"docker.io/rayproject/ray:{self.ray}-py{self.python.replace('.', '')}-gpu"


# Each component of a row: `ran` in this project's tests, or what stood in for it.
_PROOF: Final = {
    "Ray": "ran",
    "CPython": "ran",
    "PyTorch": "ran",
    "CUDA": "resolved",
    "base image": "unverified",
    "EFA installer": "unverified",
    # Module 1.2.1 stands in for 1.2.0, which the Go module proxy does not serve.
    "KubeRay": "ran as 1.2.1",
}
SetName = Literal["walkthrough", "fixed", "current"]
# PyTorch of `current` is not the newest: this project can run this build on GPUs (`make test-gpu`). Its CUDA 13.0 needs
# NVIDIA's driver 580 or newer, which every supported AMI of HyperPod has (SageMaker AI developer guide, HyperPod AMI
# support policy: 1.0 to 1.3 have 580.126 to 580.167).
# `fixed` is newer than Ray 2.52, which mends the exploited flaw: 2.54 and 2.56 mend others (support.yaml), and Ray 2.49
# to 2.54 run code that a Parquet file brings (CVE-2026-41486).
SETS: Final[Mapping[SetName, VersionSet]] = {
    "walkthrough": VersionSet(
        ray="2.42.1",
        kuberay=KUBERAY,
        python="3.10",
        requirements="requirements.txt",
        gains="AWS's walkthrough has these versions.",
        proof=_PROOF,
    ),
    "fixed": VersionSet(
        ray="2.56.1",
        kuberay=KUBERAY,
        python="3.10",
        requirements="fixed/requirements.txt",
        gains="Ray with the known flaws of 2.42.1 mended. All else is the walkthrough's, except FastAPI.",
        proof=_PROOF,
    ),
    "current": VersionSet(
        ray="2.60.0",
        kuberay="1.6.2",
        python="3.12",
        requirements="current/requirements.txt",
        gains="The newest Ray and KubeRay, a supported CPython, and a CUDA that computes on Blackwell GPUs.",
        # KubeRay's own version is what the module proxy serves.
        proof=_PROOF | {"KubeRay": "ran"},
    ),
}
SET_DEFAULT: Final = "walkthrough"
# The oldest CPython of a Ray image: jobs and the training library must run on it.
RAY_PYTHON: Final = "3.10"

# What Ray's pods set from each version of Ray on, so that it behaves as before; Ray 2.60.0 still has both ways. The
# training library needs Ray Train V1 for elastic runs: V2 asks no Stopper. Exported by OpenTelemetry, a gauge that is
# set once, such as the library's, is in one scrape only. From 2.59 on, a head wants a token as soon as one is in its
# home directory (Ray docs, token authentication): supervisors have none. Network policies keep others away, as before.
RAY_AS_BEFORE: Final[Mapping[str, Mapping[str, str]]] = {
    "2.51.0": {"RAY_TRAIN_V2_ENABLED": "0", "RAY_enable_open_telemetry": "0"},
    "2.59.0": {"RAY_AUTH_MODE": "disabled"},
}


def as_before(ray: str) -> dict[str, str]:
    """Return the variables by which this version of Ray behaves as before."""
    changes = (switches for since, switches in RAY_AS_BEFORE.items() if number(ray) >= number(since))
    return {name: value for switches in changes for name, value in switches.items()}


def number(version: str) -> tuple[int, ...]:
    """Return a version as numbers, which can be compared."""
    return tuple(map(int, version.split(".")))


# The installer of EFA's user space: libfabric, and aws-ofi-nccl, through which NCCL uses EFA. It must support the base
# image's Ubuntu 22.04. AWS publishes its checksum (EC2 user guide, "Verify the EFA installer using a checksum", EFA
# 1.47.0).
EFA_INSTALLER: Final = "1.47.0"
EFA_INSTALLER_SHA256: Final = "2df4201e046833c7dc8160907bee7f52b76ff80ed147376a2d0ed8a0dd66b2db"

# The image build's tools. BuildKit's digest is of the image for all platforms, as public repositories pin it (read in
# November 2026). The AWS CLI's could not be looked up: docs/unverified-on-aws.md says how to pin it.
BUILDKIT_IMAGE: Final = (
    "docker.io/moby/buildkit:v0.32.2-rootless@sha256:504731e577c20559c00f968f33219f30115e70be29ab96728d1d06e963fc494b"
)
AWS_CLI_IMAGE: Final = "public.ecr.aws/aws-cli/aws-cli:2.27.0"

# The image that the controllers run in. Its digest is to be pinned in the first account, too.
CONTROLLERS_PYTHON: Final = "3.12"
PYTHON_IMAGE: Final = f"public.ecr.aws/docker/library/python:{CONTROLLERS_PYTHON}.11-slim-bookworm"

# Prometheus, Grafana and Alertmanager of `observability.in_cluster`. The digests are of the images for all platforms,
# as public repositories pin them (three for Prometheus, five for Grafana, ten for Alertmanager, read in November 2026).
PROMETHEUS_IMAGE: Final = (
    "quay.io/prometheus/prometheus:v3.5.0@sha256:63805ebb8d2b3920190daf1cb14a60871b16fd38bed42b857a3182bc621f4996"
)
GRAFANA_IMAGE: Final = (
    "docker.io/grafana/grafana:12.1.0@sha256:6ac590e7cabc2fbe8d7b8fc1ce9c9f0582177b334e0df9c927ebd9670469440f"
)
ALERTMANAGER_IMAGE: Final = (
    "quay.io/prometheus/alertmanager:v0.28.1@sha256:27c475db5fb156cab31d5c18a4251ac7ed567746a2483ff264516437a39b15ba"
)

# NVIDIA's exporter of the GPUs' metrics, which `observability.in_cluster` runs. The digest is of the image for both
# platforms, as public repositories pin it (six, read in November 2026).
DCGM_EXPORTER_IMAGE: Final = (
    "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless"
    "@sha256:60d3b00ac80b4ae77f94dae2f943685605585ad9e92fdccda3154d009ae317cc"
)

# The Lambda runtime that the handlers are written for.
LAMBDA_PYTHON: Final = "3.13"

# The system's Python on HyperPod's Slurm nodes: Ubuntu 22.04's.
SLURM_PYTHON: Final = "3.10"

# The Lustre version that Amazon Linux 2023 clients speak. Always sent: CloudFormation's default falls back to an
# older one for some deployment types.
LUSTRE: Final = "2.15"
