"""The options, the shared Python environment, and containers."""

import pytest

from tests.unit.slurm_scripts.node import Node


def with_requirements(node: Node, text: str = "torch==2.6.0 --hash=sha256:0\n") -> Node:
    (node.scripts / "requirements.txt").write_text(text)
    return node


def with_containers(node: Node, *packages: str) -> Node:
    node.option("CONTAINERS", "true")
    (node.scripts / "containers").mkdir()
    for package in packages:
        (node.scripts / "containers" / package).touch()
    return node


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("S3_WRIT", "true", "S3_WRIT=true is invalid: unknown key. Allowed: MOUNT_POINT, S3_BUCKET"),
        ("S3_WRITE", "yes", "S3_WRITE: yes is invalid: it has another form. Allowed: true, false"),
        ("S3_BUCKET", "s3://data", "S3_BUCKET: s3://data is invalid"),
        ("MOUNT_POINT", "fsx", "MOUNT_POINT: fsx is invalid"),
        ("CONTAINERS", '"true"', "Fix: correct it, without quotation marks"),
    ],
)
def test_wrong_option_ends_steps_with_its_line(node: Node, key: str, value: str, message: str) -> None:
    node.option(key, value)
    for step in ("mount_fsx", "install_containers"):
        assert message in node.refuse(f"{step}.sh")
    assert node.asked == []


def test_option_that_is_missing_or_listed_twice_is_refused(node: Node) -> None:
    options = node.scripts / "options"
    kept = options.read_text()
    options.write_text(f"{kept}S3_WRITE=true\n")
    assert "S3_WRITE: true is invalid: is listed twice" in node.refuse("mount_s3.sh")
    options.write_text(kept.replace("S3_WRITE=false", ""))
    assert "S3_WRITE is missing. Fix: copy the line" in node.refuse("mount_s3.sh")


def test_no_environment_is_made_without_requirements(node: Node) -> None:
    assert "no shared environment is made" in node.succeed("install_python.sh")
    assert node.asked == []


def test_environment_is_made_once_from_requirements_with_hashes(node: Node) -> None:
    printed = with_requirements(node).succeed("install_python.sh")
    [pip, venv, install] = node.asked
    assert pip.startswith("python3 -m pip install --quiet --no-deps --require-hashes --target /opt/uv")
    assert venv.startswith("uv venv --quiet --python /usr/bin/python3 /fsx/python/")
    assert install.startswith("uv pip install --quiet --require-hashes --python /fsx/python/")
    assert "activate it with: source /fsx/python/current/bin/activate" in printed
    assert "exists" in node.succeed("install_python.sh")
    assert len(node.asked) == 3


def test_changed_requirements_make_a_second_environment_and_keep_the_first(node: Node) -> None:
    with_requirements(node).succeed("install_python.sh")
    first = (node.root / "fsx/python/current").readlink()
    with_requirements(node, "torch==2.7.0 --hash=sha256:1\n").succeed("install_python.sh")
    assert (node.root / "fsx/python/current").readlink() != first
    assert (node.root / "fsx/python" / first / ".complete").exists()


def test_environment_that_was_interrupted_is_made_again(node: Node) -> None:
    node.environment["UV_FAILS"] = "1"
    with_requirements(node).refuse("install_python.sh")
    assert not (node.root / "fsx/python/current").exists()
    node.environment["UV_FAILS"] = "0"
    assert "made environment" in node.succeed("install_python.sh")


def test_index_that_cannot_be_reached_is_an_error_with_advice(node: Node) -> None:
    node.environment["PIP_FAILS"] = "1"
    assert "uv cannot be installed. Fix: let the nodes reach" in with_requirements(node).refuse("install_python.sh")


def test_containers_are_installed_only_on_demand(node: Node) -> None:
    assert "are not installed" in node.succeed("install_containers.sh")
    assert node.asked == []


def test_containers_are_installed_from_the_packages_beside_the_scripts(node: Node) -> None:
    with_containers(node, "enroot_3.5.0.deb", "nvslurm-plugin-pyxis_0.20.deb").succeed("install_containers.sh")
    docker, packages = (line for line in node.asked if line.startswith("apt-get"))
    assert docker.endswith("install -y docker.io")
    assert [word.rpartition("/")[2] for word in packages.split()[-2:]] == [
        "enroot_3.5.0.deb",
        "nvslurm-plugin-pyxis_0.20.deb",
    ]
    assert node.read("etc/docker/daemon.json") == '{"data-root": "/opt/sagemaker/docker"}\n'
    assert "ENROOT_DATA_PATH /opt/sagemaker/enroot/data/$(id -u)" in node.read(
        "etc/enroot/enroot.conf.d/10-cluster.conf"
    )
    assert node.read("opt/slurm/etc/plugstack.conf") == "include /usr/share/pyxis/pyxis.conf\n"


def test_images_lie_on_the_root_volume_where_there_is_no_other(node: Node) -> None:
    node.program("mountpoint", "exit 1")
    with_containers(node, "enroot.deb", "pyxis.deb").succeed("install_containers.sh")
    assert node.read("etc/docker/daemon.json") == '{"data-root": "/var/lib/docker"}\n'


@pytest.mark.parametrize(("packages", "missing"), [((), "enroot"), (("enroot.deb",), "pyxis")])
def test_missing_package_is_named(node: Node, packages: tuple[str, ...], missing: str) -> None:
    printed = with_containers(node, *packages).refuse("install_containers.sh")
    assert f"CONTAINERS: true is invalid: containers/ has no package of {missing}" in printed
