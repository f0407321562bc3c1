"""Public images, and their copies in the user's registry."""

import pytest
from rich.console import Console
from typer.testing import CliRunner

from config import EksEnvironment, load
from config.facts import charts_lock
from config.facts.charts_lock import Archive, GitFolder
from k8s_charts.helm.images import CHARTS, copy_of, public_images, with_copies
from k8s_charts.helm.kuberay import kuberay_release
from k8s_charts.helm.release import HelmRelease
from ops.commands.whole import app
from ops.mirror.images import table

REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com/mirror"


@pytest.fixture(scope="module")
def closed() -> EksEnvironment:
    return load("closed")


@pytest.mark.parametrize(
    ("image", "copy"),
    [
        ("quay.io/kuberay/operator:v1.2.0", f"{REGISTRY}/kuberay/operator:v1.2.0"),
        ("docker.io/python@sha256:00", f"{REGISTRY}/python@sha256:00"),
        ("host:5000/a/b:1", f"{REGISTRY}/a/b:1"),
    ],
)
def test_a_copy_keeps_path_and_tag_or_digest(image: str, copy: str) -> None:
    assert copy_of(image, REGISTRY) == copy
    assert copy_of(image, None) == image


def test_no_two_images_have_the_same_copy(closed: EksEnvironment) -> None:
    copies = [copy_of(image.image, REGISTRY) for image in public_images(closed)]
    assert sorted(set(copies)) == sorted(copies)


def test_every_image_says_its_registry_and_is_pinned() -> None:
    for image in public_images(load("dev")):
        registry, path = image.image.split("/", 1)
        assert "." in registry
        assert "@sha256:" in path or not path.rsplit(":", 1)[1].startswith("latest")


def test_images_are_those_of_the_locked_charts() -> None:
    locked = charts_lock.locked()
    # The version of HyperPod's chart stays the same while its content changes.
    hyperpod = charts_lock.find("HyperPodHelmChart")
    assert isinstance(hyperpod, GitFolder)
    versions: dict[Archive | GitFolder, str] = {hyperpod: hyperpod.commit}
    assert set(CHARTS) == {(chart.name, versions.get(chart, chart.version)) for chart in locked}


def test_values_of_a_release_name_the_copies_and_keep_their_other_keys(closed: EksEnvironment) -> None:
    values = {"nvidia-device-plugin": {"devicePlugin": {"enabled": True}}}
    release = HelmRelease(chart="HyperPodHelmChart", name="r", namespace="n", values=values)
    copied = with_copies(release, closed).values
    assert copied["nvidia-device-plugin"] == {
        "devicePlugin": {"enabled": True},
        "image": {"repository": f"{REGISTRY}/nvidia/k8s-device-plugin", "tag": "v0.16.1"},
    }
    assert copied["mpi-operator"]["mpiOperator"]["image"]["repository"] == f"{REGISTRY}/mpioperator/mpi-operator"
    assert values == {"nvidia-device-plugin": {"devicePlugin": {"enabled": True}}}
    assert with_copies(release, load("dev")) is release


def test_of_kuberays_versions_only_the_environments_own_is_pulled_and_copied(closed: EksEnvironment) -> None:
    newer = closed.model_copy(update={"kuberay": closed.kuberay.model_copy(update={"version": "1.4.2"})})
    images = [image.image for image in public_images(newer) if "kuberay" in image.image]
    assert images == ["quay.io/kuberay/operator:v1.4.2"]
    release = kuberay_release(version="1.4.2", namespace="kuberay", ray_pods=1)
    copied = with_copies(release, newer).values["image"]
    assert copied == {"repository": f"{REGISTRY}/kuberay/operator", "tag": "v1.4.2"}


def test_plain_list_is_source_and_copy_and_leaves_out_what_no_value_replaces() -> None:
    result = CliRunner().invoke(app, ["images", "--env", "closed", "--plain"])
    assert result.exit_code == 0
    pairs = [line.split("\t") for line in result.stdout.splitlines()]
    assert ["quay.io/kuberay/operator:v1.2.0", f"{REGISTRY}/kuberay/operator:v1.2.0"] in pairs
    assert not any("neuron" in source for source, _ in pairs)


def test_plain_list_without_a_registry_is_refused() -> None:
    result = CliRunner().invoke(app, ["images", "--env", "small", "--plain"])
    assert result.exit_code == 2
    assert "small has no image_registry" in result.stderr


def test_table_names_the_image_that_no_value_replaces() -> None:
    console = Console(width=250)
    with console.capture() as capture:
        console.print(table(load("closed")))
    [line] = [line for line in capture.get().splitlines() if "neuron" in line]
    assert "cannot set it" in line
