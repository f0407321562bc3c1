"""Every image that the project pulls from a public registry, and its copy in the environment's own registry.

With `image_registry` each image is pulled from there: `docker.io/moby/buildkit:v1` becomes
`<image_registry>/moby/buildkit:v1`. Images of EKS's add-ons and of the health monitoring agent are not copied: they
come from AWS's own registries in the region, which a closed network reaches through its ECR endpoints.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from config import EksEnvironment, Environment
from config.facts import versions
from k8s_charts.helm import kuberay
from k8s_charts.helm.release import HelmRelease


@dataclass(frozen=True)
class ChartImage:
    """An image of a locked chart; `values` is the path of the `{repository, tag}` in the chart's values.

    Without `values` the image is fixed in the chart's templates and cannot be replaced.
    """

    image: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublicImage:
    """An image that an environment pulls; `copied` says whether it can come from the environment's registry."""

    image: str
    used_by: str
    copied: bool = True


CHARTS: Final[Mapping[tuple[str, str], tuple[ChartImage, ...]]] = {
    **{
        (kuberay.CHART, version): (ChartImage(f"quay.io/kuberay/operator:v{version}", ("image",)),)
        for version in versions.KUBERAY_VERSIONS
    },
    ("aws-fsx-csi-driver", "1.17.0"): (
        ChartImage("public.ecr.aws/fsx-csi-driver/aws-fsx-csi-driver:v1.9.0", ("image",)),
        ChartImage(
            "public.ecr.aws/csi-components/livenessprobe:v2.18.0-eksbuild.3", ("sidecars", "livenessProbe", "image")
        ),
        ChartImage(
            "public.ecr.aws/csi-components/csi-node-driver-registrar:v2.16.0-eksbuild.3",
            ("sidecars", "nodeDriverRegistrar", "image"),
        ),
        ChartImage(
            "public.ecr.aws/csi-components/csi-provisioner:v6.2.0-eksbuild.2", ("sidecars", "provisioner", "image")
        ),
        ChartImage("public.ecr.aws/csi-components/csi-resizer:v2.1.0-eksbuild.3", ("sidecars", "resizer", "image")),
    ),
    ("HyperPodHelmChart", "011ca927123e02b35a399935bbb3ab1905fe33c7"): (
        ChartImage("nvcr.io/nvidia/k8s-device-plugin:v0.16.1", ("nvidia-device-plugin", "image")),
        # This registry's region is fixed; a closed network in another region cannot reach it.
        ChartImage(
            "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.13",
            ("aws-efa-k8s-device-plugin", "image"),
        ),
        ChartImage("docker.io/kubeflow/training-operator:v1-855e096", ("training-operators", "image")),
        ChartImage("docker.io/mpioperator/mpi-operator:0.5", ("mpi-operator", "mpiOperator", "image")),
        ChartImage("public.ecr.aws/neuron/neuron-device-plugin:2.19.16.0"),
    ),
}
"""Images by chart and by its version or commit in config/facts/charts.lock.yaml, from its values and templates."""

BUILD_TOOLS: Final = (versions.BUILDKIT_IMAGE, versions.AWS_CLI_IMAGE)
"""Images of the image build, beside its base image; an environment with an existing Ray image needs none."""


def copy_of(image: str, registry: str | None) -> str:
    """Return where `image` (registry/path:tag or @digest) is pulled from: its copy in `registry`, if given."""
    return f"{registry}/{image.split('/', 1)[1]}" if registry else image


def pulled(image: str, environment: EksEnvironment) -> str:
    """Return where the environment pulls `image` from."""
    return copy_of(image, environment.image_registry)


def pushed_copy(image: str, registry: str) -> str:
    """Return where the copy of `image` is pushed to: by its tag, because a registry may drop what has none."""
    return copy_of(image, registry).split("@")[0]


def own_repository(image: str, environment: Environment) -> str | None:
    """Return the ECR repository of `image` if it is in the environment's own account and region, else None."""
    registry = f"{environment.account}.dkr.ecr.{environment.region}.amazonaws.com/"
    return image.removeprefix(registry).split("@")[0].split(":")[0] if image.startswith(registry) else None


def with_copies(release: HelmRelease, environment: EksEnvironment) -> HelmRelease:
    """Return the release with the images of the environment's registry in its values; unchanged without a registry."""
    if environment.image_registry is None:
        return release
    values = _copy(release.values)
    for (chart, version), images in CHARTS.items():
        for image in images if chart == release.chart and release.version in (None, version) else ():
            if image.values:
                repository, tag = pulled(image.image, environment).rsplit(":", 1)
                _at(values, image.values).update(repository=repository, tag=tag)
    return replace(release, values=values)


def public_images(environment: EksEnvironment) -> Iterator[PublicImage]:
    """Yield each image that the environment pulls from a public registry unless it sets `image_registry`."""
    for (chart, version), images in CHARTS.items():
        for image in images if chart != kuberay.CHART or version == environment.kuberay_version else ():
            yield PublicImage(image.image, chart, copied=bool(image.values))
    yield PublicImage(versions.PYTHON_IMAGE, "controllers")
    if environment.observability.in_cluster:
        yield PublicImage(versions.PROMETHEUS_IMAGE, "observability")
        yield PublicImage(versions.GRAFANA_IMAGE, "observability")
    if environment.observed_gpu_groups:
        yield PublicImage(versions.DCGM_EXPORTER_IMAGE, "observability")
    if environment.alertmanager:
        yield PublicImage(versions.ALERTMANAGER_IMAGE, "observability")
    if environment.image.uri is None:
        base = environment.version_set.base_image
        yield from (PublicImage(image, "image build") for image in (base, *BUILD_TOOLS))


def _copy(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in values.items()}


def _at(values: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return the mapping at `path`; create missing levels."""
    for key in path:
        values = values.setdefault(key, {})
    return values
