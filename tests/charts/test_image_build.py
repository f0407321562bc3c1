"""The build of the Ray image in the cluster."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import cdk8s
import pytest

from config import Environment, versions
from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE
from k8s_charts.assembly import image_build, platform_objects, ray_objects
from k8s_charts.image_build import SCRIPTS, ImageBuild, ImageBuildChart
from k8s_charts.image_context import (
    FURTHER_REQUIREMENTS,
    RAY_IMAGE_DIRECTORY,
    context_files,
    context_tag,
    write_context,
)
from tests.charts.conftest import PLATFORM_FACTS, RAY_FACTS, Object

URI = "444455556666.dkr.ecr.us-west-2.amazonaws.com/ray:2.42.1-1"


def with_image(environment: Environment, **keys: Any) -> Environment:
    return environment.model_copy(update={"image": environment.image.model_copy(update=keys)})


@pytest.fixture
def build(dev: Environment) -> ImageBuild:
    return image_build(dev, context="s3://bucket/context.zip")


def job_of(build: ImageBuild) -> Object:
    [job] = ImageBuildChart(cdk8s.App(), "build", build=build).to_json()
    return dict(job)


@pytest.fixture
def pod(build: ImageBuild) -> Object:
    return dict(job_of(build)["spec"]["template"]["spec"])


def test_tag_names_the_content_of_the_build_context() -> None:
    contexts: list[dict[str, bytes]] = [
        {"Dockerfile": b"FROM x"},
        {"Dockerfile": b"FROM x", "requirements.txt": b""},
        {"Dockerfile": b"FROM x", "other.txt": b""},
    ]
    tags = [context_tag(files, "base:1") for files in contexts]
    assert tags == [context_tag(files, "base:1") for files in contexts]
    assert len({*tags, context_tag(contexts[0], "base:2")}) == 4


def test_context_is_the_folder_of_the_image(tmp_path: Path) -> None:
    write_context(context_files(()), tmp_path)
    shipped = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert shipped == {path.name: path.read_bytes() for path in RAY_IMAGE_DIRECTORY.iterdir()}


def test_further_packages_are_part_of_the_context_and_so_of_the_tag(dev: Environment) -> None:
    further = with_image(dev, pip=("einops==0.8.1", "wandb==0.19.8"))
    assert context_files(further.image.pip)[FURTHER_REQUIREMENTS] == b"einops==0.8.1\nwandb==0.19.8\n"
    assert image_build(further, context="").tag != image_build(dev, context="").tag


class TestAnImageThatExists:
    @pytest.fixture
    def existing(self, dev: Environment) -> Environment:
        return with_image(dev, repository=None, uri=URI)

    def test_is_what_all_ray_pods_run(self, existing: Environment) -> None:
        [cluster] = ray_objects(existing, replace(RAY_FACTS, image_build=None)).clusters["rayml"].to_json()
        spec = cluster["spec"]
        groups = (spec["headGroupSpec"], *spec["workerGroupSpecs"])
        assert {group["template"]["spec"]["containers"][0]["image"] for group in groups} == {URI}

    def test_is_not_built_and_needs_nothing_that_a_build_needs(self, existing: Environment) -> None:
        ray = ray_objects(existing, replace(RAY_FACTS, image_build=None))
        platform = platform_objects(existing, PLATFORM_FACTS)
        assert (ray.image_build, ray.image_builder_account) == (None, None)
        assert (platform.image_build_namespace, platform.image_build_policies) == (None, None)


def test_a_build_without_its_role_and_context_is_no_build(dev: Environment) -> None:
    with pytest.raises(ValueError, match="needs a role and a context"):
        ray_objects(dev, replace(RAY_FACTS, image_build=None))


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
        f"{context_tag(context_files(dev.image.pip), versions.RAY_BASE_IMAGE)}"
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
