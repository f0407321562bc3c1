"""The build of the Ray image in the cluster."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import cdk8s
import pytest

from config import Environment, versions
from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE
from k8s_charts.assembly import RAY_IMAGE_DIRECTORY, image_build, ray_objects
from k8s_charts.image_build import SCRIPTS, ImageBuild, ImageBuildChart, context_tag
from tests.charts.conftest import RAY_FACTS, Object


@pytest.fixture
def build(dev: Environment) -> ImageBuild:
    return image_build(dev, context="s3://bucket/context.zip")


def job_of(build: ImageBuild) -> Object:
    [job] = ImageBuildChart(cdk8s.App(), "build", build=build).to_json()
    return dict(job)


@pytest.fixture
def pod(build: ImageBuild) -> Object:
    return dict(job_of(build)["spec"]["template"]["spec"])


def test_tag_names_the_content_of_the_build_context(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x")
    first = context_tag(tmp_path, "base:1")
    assert first == context_tag(tmp_path, "base:1")
    (tmp_path / "requirements.txt").write_text("")
    second = context_tag(tmp_path, "base:1")
    (tmp_path / "requirements.txt").rename(tmp_path / "other.txt")
    third = context_tag(tmp_path, "base:1")
    assert len({first, second, third, context_tag(tmp_path, "base:2")}) == 4


def test_ray_clusters_run_the_image_that_the_job_builds(dev: Environment, build: ImageBuild) -> None:
    [cluster] = ray_objects(dev, RAY_FACTS).clusters["rayml"].to_json()
    spec = cluster["spec"]
    images = {
        group["template"]["spec"]["containers"][0]["image"]
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])
    }
    assert images == {build.image}
    assert build.image == (
        f"111122223333.dkr.ecr.us-west-2.amazonaws.com/aws-ray-custom:"
        f"{context_tag(RAY_IMAGE_DIRECTORY, versions.RAY_BASE_IMAGE)}"
    )


def test_job_is_named_after_the_tag_and_after_how_it_is_built(build: ImageBuild) -> None:
    """A Job cannot change: another build recipe needs another name, another place of the same context does not."""
    name = job_of(build)["metadata"]["name"]
    assert build.tag in name
    assert job_of(replace(build, context="s3://elsewhere/context.zip"))["metadata"]["name"] == name
    assert job_of(replace(build, region="us-east-1"))["metadata"]["name"] != name


def test_build_runs_on_system_nodes_as_an_ordinary_user(pod: Object) -> None:
    assert pod["nodeSelector"] == {SYSTEM_NODE_LABEL: SYSTEM_NODE_ROLE}
    assert pod["securityContext"]["runAsNonRoot"]
    containers = [*pod["initContainers"], *pod["containers"]]
    assert not any(container["securityContext"].get("privileged") for container in containers)


def test_build_gets_an_aws_identity_and_no_token_for_the_kubernetes_api(pod: Object) -> None:
    assert pod["serviceAccountName"] == "image-builder"
    assert pod["automountServiceAccountToken"] is False


def test_job_ends_by_itself(build: ImageBuild) -> None:
    spec = job_of(build)["spec"]
    assert spec["activeDeadlineSeconds"] <= 4 * 3600
    assert spec["backoffLimit"] <= 3


def test_every_variable_of_the_scripts_is_given(pod: Object) -> None:
    for container in (*pod["initContainers"], *pod["containers"]):
        script = container["command"][-1]
        used = set(re.findall(r"\$\{?([A-Z_]+)", script))
        assert used <= {item["name"] for item in container["env"]}


def test_kubernetes_finds_nothing_to_expand_in_the_scripts(pod: Object) -> None:
    """Kubernetes replaces $(NAME) of a container's variables in its command; the shell's $(command) stays."""
    for container in (*pod["initContainers"], *pod["containers"]):
        assert not any(f"$({item['name']})" in container["command"][-1] for item in container["env"])


AWS = """#!/bin/bash
case "$1 $2" in
  "ecr describe-images") echo "$DESCRIBE_ERROR" >&2; exit "$DESCRIBE_STATUS" ;;
  "s3 cp") echo zip > "${@: -1}" ;;
  "ecr get-login-password") echo secret ;;
  *) exit 9 ;;
esac
"""


def prepare(directory: Path, *, status: int, error: str) -> subprocess.CompletedProcess[str]:
    """Run the preparation with an `aws` whose answer about the tag is given."""
    program = directory / "aws"
    program.write_text(AWS)
    program.chmod(0o755)
    environment = {
        "PATH": f"{directory}:/usr/bin:/bin",
        "REGISTRY": "registry",
        "REPOSITORY": "repository",
        "TAG": "tag",
        "CONTEXT": "s3://bucket/context.zip",
        "WORK": str(directory),
        "DESCRIBE_STATUS": str(status),
        "DESCRIBE_ERROR": error,
    }
    script = ["/bin/bash", "-c", (SCRIPTS / "prepare_image_build.sh").read_text()]
    return subprocess.run(script, env=environment, check=False, capture_output=True, text=True)


def test_preparation_notes_that_the_registry_has_the_tag(tmp_path: Path) -> None:
    assert prepare(tmp_path, status=0, error="").returncode == 0
    assert (tmp_path / "exists").exists()
    assert not (tmp_path / "context.zip").exists()


def test_preparation_fetches_the_context_and_a_password_that_only_the_builder_reads(tmp_path: Path) -> None:
    assert prepare(tmp_path, status=254, error="An error occurred (ImageNotFoundException)").returncode == 0
    assert (tmp_path / "context.zip").exists()
    config = tmp_path / "docker" / "config.json"
    assert config.read_text() == '{"auths": {"registry": {"auth": "QVdTOnNlY3JldA=="}}}\n'
    assert config.stat().st_mode & 0o077 == 0


def test_preparation_fails_with_the_registrys_words_when_it_cannot_tell(tmp_path: Path) -> None:
    result = prepare(tmp_path, status=254, error="An error occurred (AccessDeniedException)")
    assert result.returncode != 0
    assert "AccessDeniedException" in result.stderr
