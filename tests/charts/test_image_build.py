"""The build of the Ray image in the cluster."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import cdk8s
import pytest

from config import EksEnvironment
from config.facts.versions import SETS
from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE
from k8s_charts.image_build.context import (
    FURTHER_REQUIREMENTS,
    LIBRARY,
    RAY_IMAGE_DIRECTORY,
    build_arguments,
    context_files,
    context_tag,
    write_context,
)
from k8s_charts.image_build.job import SCRIPTS, ImageBuild, ImageBuildChart
from k8s_charts.platform_objects import platform_objects
from k8s_charts.ray_objects import image_build, ray_objects
from tests.charts.support.facts import PLATFORM_FACTS, RAY_FACTS, Object
from tests.support.waiting import PATIENCE_SECONDS, wait_until

URI = "444455556666.dkr.ecr.us-west-2.amazonaws.com/ray:2.42.1-1"


def with_image(environment: EksEnvironment, **keys: Any) -> EksEnvironment:
    return environment.model_copy(update={"image": environment.image.model_copy(update=keys)})


@pytest.fixture
def build(dev: EksEnvironment) -> ImageBuild:
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
    arguments = {"BASE_IMAGE": "base:1", "OTHER": "1"}
    tags = [context_tag(files, arguments) for files in contexts]
    assert tags == [context_tag(files, dict(reversed(arguments.items()))) for files in contexts]
    assert len({*tags, *(context_tag(contexts[0], arguments | {name: "2"}) for name in arguments)}) == 5


def test_context_is_the_folder_of_the_image_and_the_training_library(tmp_path: Path) -> None:
    write_context(context_files(SETS["walkthrough"], ()), tmp_path)
    shipped = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert shipped == {path.name: path.read_bytes() for path in RAY_IMAGE_DIRECTORY.iterdir() if path.is_file()}
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [LIBRARY.name]
    context = tmp_path / LIBRARY.name
    code = {path.relative_to(LIBRARY) for path in LIBRARY.glob("ray_resume/**/*") if path.suffix in {".py", ".typed"}}
    library = {path.relative_to(context) for path in context.rglob("*") if path.is_file()}
    assert library == code | {Path("LICENSE"), Path("README.md"), Path("pyproject.toml")}


@pytest.mark.parametrize("name", SETS)
def test_each_set_of_versions_is_built_from_its_own_base_image_and_lock(dev: EksEnvironment, name: str) -> None:
    chosen = SETS[name]  # type: ignore[index]
    ray = dev.ray.model_copy(update={"version": None})
    environment = dev.model_copy(update={"versions": name, "ray": ray})
    built = image_build(environment, context="")
    assert built.arguments["BASE_IMAGE"] == chosen.base_image
    locked = context_files(environment.version_set, ())["requirements.txt"].decode()
    assert f"\nray=={chosen.ray} " in locked
    assert (built.tag == image_build(dev, context="").tag) == (name == dev.versions)


def test_library_in_the_context_can_be_installed(tmp_path: Path) -> None:
    write_context(context_files(SETS["walkthrough"], ()), tmp_path)
    source, target = tmp_path / LIBRARY.name, tmp_path / "installed"
    uv = Path(sys.executable).with_name("uv")
    how = ("--quiet", "--no-deps", "--no-build-isolation", "--python", sys.executable)
    argv = [str(word) for word in (uv, "pip", "install", *how, "--target", target, source)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (target / "ray_resume" / "py.typed").exists()


def test_further_packages_are_part_of_the_context_and_so_of_the_tag(dev: EksEnvironment) -> None:
    further = with_image(dev, pip=("einops==0.8.1", "wandb==0.19.8"))
    assert (
        context_files(further.version_set, further.image.pip)[FURTHER_REQUIREMENTS] == b"einops==0.8.1\nwandb==0.19.8\n"
    )
    assert image_build(further, context="").tag != image_build(dev, context="").tag


class TestAnImageThatExists:
    @pytest.fixture
    def existing(self, dev: EksEnvironment) -> EksEnvironment:
        return with_image(dev, repository=None, uri=URI)

    def test_is_what_all_ray_pods_run(self, existing: EksEnvironment) -> None:
        [cluster] = ray_objects(existing, replace(RAY_FACTS, image_build=None)).clusters["rayml"].to_json()
        spec = cluster["spec"]
        groups = (spec["headGroupSpec"], *spec["workerGroupSpecs"])
        assert {group["template"]["spec"]["containers"][0]["image"] for group in groups} == {URI}

    def test_is_not_built_and_needs_nothing_that_a_build_needs(self, existing: EksEnvironment) -> None:
        ray = ray_objects(existing, replace(RAY_FACTS, image_build=None))
        platform = platform_objects(existing, PLATFORM_FACTS)
        assert (ray.image_build, ray.image_builder_account) == (None, None)
        assert (platform.image_build_namespace, platform.image_build_policies) == (None, None)


def test_a_build_without_its_role_and_context_is_no_build(dev: EksEnvironment) -> None:
    with pytest.raises(ValueError, match="needs a role and a context"):
        ray_objects(dev, replace(RAY_FACTS, image_build=None))


def test_ray_clusters_run_the_image_that_the_job_builds(dev: EksEnvironment, build: ImageBuild) -> None:
    [cluster] = ray_objects(dev, RAY_FACTS).clusters["rayml"].to_json()
    spec = cluster["spec"]
    images = {
        group["template"]["spec"]["containers"][0]["image"]
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])
    }
    assert images == {build.image}
    assert build.image == (
        f"111122223333.dkr.ecr.us-west-2.amazonaws.com/aws-ray-custom:"
        f"{context_tag(context_files(dev.version_set, dev.image.pip), build_arguments(dev.version_set))}"
    )


def test_job_is_named_after_the_tag_and_after_how_it_is_built(build: ImageBuild) -> None:
    """A Job is immutable: another recipe needs another name, another location of the same context does not."""
    name = job_of(build)["metadata"]["name"]
    assert build.tag in name
    assert job_of(replace(build, context="s3://elsewhere/context.zip"))["metadata"]["name"] == name
    assert job_of(replace(build, region="us-east-1"))["metadata"]["name"] != name


def test_build_runs_on_system_nodes_as_an_ordinary_user(pod: Object) -> None:
    assert pod["nodeSelector"] == {SYSTEM_NODE_LABEL: SYSTEM_NODE_ROLE}
    assert pod["securityContext"]["runAsNonRoot"]
    containers = [*pod["initContainers"], *pod["containers"]]
    assert not any(container["securityContext"].get("privileged") for container in containers)


def test_build_states_the_disk_that_it_takes_and_is_ended_when_it_takes_more(pod: Object) -> None:
    """A node that runs out of disk space would evict the pods beside the build."""
    [build] = pod["containers"]
    disk = "ephemeral-storage"
    assert build["resources"]["requests"][disk] == build["resources"]["limits"][disk] == "60Gi"
    for container in pod["initContainers"]:
        assert disk in container["resources"]["requests"].keys() & container["resources"]["limits"].keys()
    limits = {volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"]}
    assert limits == {"layers": "56Gi", "work": "1Gi"}


def test_report_starts_before_the_other_containers_and_ends_after_them(pod: Object) -> None:
    """Kubernetes starts a sidecar first and ends it last, however the pod ends."""
    report, prepare = pod["initContainers"]
    assert (report["name"], report["restartPolicy"]) == ("report", "Always")
    assert "restartPolicy" not in prepare
    assert pod["terminationGracePeriodSeconds"] >= 30


def test_only_the_build_itself_is_without_the_runtimes_seccomp_profile(pod: Object) -> None:
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["initContainers"]:
        security = container["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"]
        assert not security["allowPrivilegeEscalation"]
        assert "seccompProfile" not in security


def test_builds_daemon_has_a_minute_to_start_on_a_busy_node(pod: Object) -> None:
    """buildctl-daemonless.sh sleeps 100 ms before its second attempt, and 20 ms more before each further one."""
    [build] = pod["containers"]
    [retries] = [int(each["value"]) for each in build["env"] if each["name"] == "BUILDCTL_CONNECT_RETRIES_MAX"]
    assert sum(0.1 + 0.02 * trial for trial in range(retries + 1)) >= 60


def test_dockerfile_gets_every_argument_that_it_asks_for_and_no_other(dev: EksEnvironment, pod: Object) -> None:
    asked = set(re.findall(r"^ARG (\w+)$", (RAY_IMAGE_DIRECTORY / "Dockerfile").read_text(), re.MULTILINE))
    given = {word.removeprefix("build-arg:").split("=")[0] for word in pod["containers"][0]["args"][1::2]}
    assert asked == given == build_arguments(dev.version_set).keys()


def test_log_of_a_failed_build_has_a_place_of_its_own_in_the_data_bucket(build: ImageBuild) -> None:
    assert build.log == f"s3://rayhp-dev-data-111122223333-us-west-2/image-build/{build.tag}.log"


def test_build_gets_an_aws_identity_and_no_token_for_the_kubernetes_api(pod: Object) -> None:
    assert pod["serviceAccountName"] == "image-builder"
    assert pod["automountServiceAccountToken"] is False


def test_job_ends_by_itself(build: ImageBuild) -> None:
    spec = job_of(build)["spec"]
    assert spec["activeDeadlineSeconds"] <= 4 * 3600
    assert spec["backoffLimit"] <= 3


def test_every_variable_of_the_scripts_is_given(pod: Object) -> None:
    for container in (*pod["initContainers"], *pod["containers"]):
        script = container["command"][2]
        used = set(re.findall(r"\$\{?([A-Z_]+)", script))
        assert used <= {item["name"] for item in container["env"]}


def test_kubernetes_finds_nothing_to_expand_in_the_scripts(pod: Object) -> None:
    """Kubernetes replaces $(NAME) of a container's variables in its command; the shell's $(command) stays."""
    for container in (*pod["initContainers"], *pod["containers"]):
        assert not any(f"$({item['name']})" in container["command"][2] for item in container["env"])


AWS = """#!/bin/bash
case "$1 $2" in
  "ecr describe-images") echo "$DESCRIBE_ERROR" >&2; exit "$DESCRIBE_STATUS" ;;
  "s3 cp") if [ "$4" = - ]; then cat >"$WORK/uploaded"; else echo zip >"$WORK/context.zip"; fi; echo "$*" ;;
  "ecr get-login-password") echo secret ;;
  *) exit 9 ;;
esac
"""
BUILDCTL = """#!/bin/sh
printf '%s\\n' "$@" >"$WORK/arguments"
echo "building"
echo "the reason" >&2
exit "$BUILD_STATUS"
"""
UNZIP = """#!/bin/sh
echo FROM >"$WORK/context/Dockerfile"
"""


def shell(directory: Path, script: str, **environment: str) -> list[str]:
    """Return a function that runs a script with a PATH of fake programs."""
    for name, text in (("aws", AWS), ("buildctl-daemonless.sh", BUILDCTL), ("unzip", UNZIP)):
        program = directory / name
        program.write_text(text)
        program.chmod(0o755)
    text = (SCRIPTS / script).read_text()
    env = {"PATH": f"{directory}:/usr/bin:/bin", "WORK": str(directory), **environment}
    return [
        "/usr/bin/env",
        "-i",
        *(f"{key}={value}" for key, value in env.items()),
        text.splitlines()[0][2:],
        "-c",
        text,
    ]


def run(command: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, "script", *arguments], check=False, capture_output=True, text=True)


def prepare(directory: Path, *, status: int, error: str) -> subprocess.CompletedProcess[str]:
    """Run the preparation with a fake `aws` that gives this answer about the tag."""
    environment = {
        "REGISTRY": "registry",
        "REPOSITORY": "repository",
        "TAG": "tag",
        "CONTEXT": "s3://bucket/context.zip",
        "DESCRIBE_STATUS": str(status),
        "DESCRIBE_ERROR": error,
    }
    return run(shell(directory, "prepare_image_build.sh", **environment))


def test_preparation_notes_that_the_registry_has_the_tag(tmp_path: Path) -> None:
    assert prepare(tmp_path, status=0, error="").returncode == 0
    assert (tmp_path / "done").exists()
    assert not (tmp_path / "context.zip").exists()


def test_preparation_fetches_the_context_and_a_password_that_only_the_builder_reads(tmp_path: Path) -> None:
    assert prepare(tmp_path, status=254, error="An error occurred (ImageNotFoundException)").returncode == 0
    assert (tmp_path / "context.zip").exists()
    config = tmp_path / "docker" / "config.json"
    assert config.read_text() == '{"auths": {"registry": {"auth": "QVdTOnNlY3JldA=="}}}\n'
    assert config.stat().st_mode & 0o077 == 0
    assert "secret" not in (tmp_path / "log").read_text()


def test_preparation_fails_with_the_registrys_error(tmp_path: Path) -> None:
    result = prepare(tmp_path, status=254, error="An error occurred (AccessDeniedException)")
    assert result.returncode != 0
    assert "AccessDeniedException" in result.stdout
    assert "AccessDeniedException" in (tmp_path / "log").read_text()
    assert not (tmp_path / "done").exists()


def build_script(directory: Path, *arguments: str, status: int) -> subprocess.CompletedProcess[str]:
    environment = {
        "IMAGE": "registry/repository:tag",
        "CACHE": "registry/repository:cache",
        "BUILD_STATUS": str(status),
    }
    return run(shell(directory, "build_image.sh", **environment), *arguments)


def test_build_pushes_the_tag_and_keeps_its_cache_where_tags_may_move(tmp_path: Path) -> None:
    assert build_script(tmp_path, "--opt", "build-arg:A=1 2", status=0).returncode == 0
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert "type=image,name=registry/repository:tag,push=true" in arguments
    assert "type=registry,ref=registry/repository:cache" in arguments
    assert arguments[-2:] == ["--opt", "build-arg:A=1 2"]
    assert (tmp_path / "done").exists()


def test_build_that_fails_says_so_and_leaves_its_log(tmp_path: Path) -> None:
    result = build_script(tmp_path, status=1)
    assert result.returncode != 0
    assert (tmp_path / "log").read_text() == result.stdout == "building\nthe reason\n"
    assert not (tmp_path / "done").exists()


def test_build_of_an_existing_tag_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "done").touch()
    assert build_script(tmp_path, status=1).returncode == 0
    assert not (tmp_path / "arguments").exists()


def test_terminated_build_leaves_the_rest_of_the_grace_period_to_the_report(tmp_path: Path) -> None:
    """As PID 1 of a container, the script gets only signals that it traps, and returns an exit code of its own."""
    command = shell(tmp_path, "build_image.sh", IMAGE="registry/repository:tag", CACHE="registry/repository:cache")
    (tmp_path / "buildctl-daemonless.sh").write_text('#!/bin/sh\ntouch "$WORK/builds"\nexec sleep 600\n')
    with subprocess.Popen([*command, "script"], stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            wait_until((tmp_path / "builds").exists, "its build")
            process.terminate()
            assert process.wait(timeout=PATIENCE_SECONDS) == 143
            assert not (tmp_path / "done").exists()
        finally:
            # Kill the child that the script waited for: the kubelet ends all processes of a container.
            os.killpg(process.pid, signal.SIGKILL)


def report(directory: Path) -> None:
    """Start the report as a sidecar, and end it as the kubelet does."""
    command = shell(directory, "report_image_build.sh", LOG="s3://bucket/image-build/tag.log")
    with subprocess.Popen([*command, "script"], stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            wait_until(children.read_text, "its sleep, which comes after its trap")
            assert process.poll() is None
            process.terminate()
            assert process.wait(timeout=PATIENCE_SECONDS) == 0
        finally:
            # Kill the report's sleeping child: the kubelet ends all processes of a container.
            os.killpg(process.pid, signal.SIGKILL)


def test_report_uploads_the_end_of_the_log_when_there_is_no_image(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(1000)))
    report(tmp_path)
    uploaded = (tmp_path / "uploaded").read_text().splitlines()
    assert (len(uploaded), uploaded[-1]) == (200, "line 999")


def test_report_uploads_nothing_when_there_is_an_image(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("line\n")
    (tmp_path / "done").touch()
    report(tmp_path)
    assert not (tmp_path / "uploaded").exists()
