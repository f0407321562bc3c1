"""`ops mirror` between real registries: crane's own, on loopback addresses, one of them played as ECR."""

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from config import load
from config.facts import charts_lock
from config.facts.charts_lock import Archive, GitFolder
from embedded_account.context import Account
from embedded_account.machine import isolation
from embedded_account.testing.clients import ACCOUNT_ID, REGION, Clients
from k8s_charts.helm.images import PublicImage
from ops.commands.whole import app
from ops.mirror import crane, plan
from ops.policy.role import PersonRole
from rehearsal import paths
from tests.support import assumed_role, people, registries
from tests.support.registries import Gate, Registry

pytestmark = pytest.mark.product

SMALL = load("small")
ECR = f"{ACCOUNT_ID}.dkr.ecr.{REGION}.amazonaws.com"
IMAGES = ("ray/base:2.42.1", "tools/build:v1")
PUBLISHED = b"a published chart"
ARCHIVE = Archive(
    name="Published",
    version="1.0.0",
    url="https://charts.example.com/published-1.0.0.tgz",
    sha256=hashlib.sha256(PUBLISHED).hexdigest(),
)


@pytest.fixture(scope="module")
def program() -> Path:
    """The pinned crane, built once for all runs of the tests."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(crane.CACHE_VARIABLE, str(paths.CACHE / "programs"))
        return crane.ensure()


@pytest.fixture
def publisher(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry with two images, which are all that the environment pulls."""
    with registries.serve(program, tmp_path / "publisher") as registry:
        images = [PublicImage(registry.publish(name, name, tmp_path), "test") for name in IMAGES]
        monkeypatch.setattr(plan, "public_images", lambda _: iter(images))
        yield registry


@pytest.fixture
def private(program: Path, tmp_path: Path) -> Iterator[Registry]:
    """An empty registry, for the copies."""
    with registries.serve(program, tmp_path / "private") as registry:
        yield registry


@pytest.fixture
def gate(private: Registry, tmp_path: Path) -> Iterator[Gate]:
    """The private registry as ECR: it takes the login that the embedded account gives."""
    certificate = registries.certificate(ECR, tmp_path / "ecr.pem")
    made = Gate(private, registries.login_of("AWS", f"{ACCOUNT_ID}-auth-token"), certificate)
    yield made
    made.close()


@pytest.fixture
def charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Archive, GitFolder]:
    """A lock of an archive, and of a folder with a program and a link; both are in the cache."""
    cache = tmp_path / "charts"
    folder = cache / "Folder-000000000000"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: Folder\nversion: 0.1.0\n")
    (folder / "templates" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "templates" / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("templates/run.sh")
    (cache / ARCHIVE.file_name).write_bytes(PUBLISHED)
    locked = GitFolder(
        name="Folder",
        version="0.1.0",
        repository="https://git.example.com/charts.git",
        commit="0" * 40,
        path="Folder",
        tree=charts_lock.git_tree(folder),
        dependencies=(ARCHIVE,),
    )
    monkeypatch.setattr(charts_lock, "locked", lambda: (locked,))
    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(cache))
    return ARCHIVE, locked


@pytest.fixture
def ops(
    account: Account, clients: Clients, charts: object, program: Path, tmp_path: Path
) -> Iterator[Callable[..., Result]]:
    """Run a command of `ops` in this process, as an administrator of an environment whose registry is ECR.

    The test fails if the administrator was refused something.
    """
    since = len(account.journal.entries())
    administered = SMALL.model_copy(update={"image_registry": f"{ECR}/mirror"})
    keys = assumed_role.credentials(clients, people.make_role(clients, administered, PersonRole.ADMIN))

    def run(*words: str, **variables: str) -> Result:
        environment = isolation.child_environment(
            tmp_path / "caller",
            endpoint=account.endpoint,
            region=REGION,
            account_id=ACCOUNT_ID,
            extra={
                **keys,
                crane.CACHE_VARIABLE: str(program.parent),
                **variables,
            },
        )
        return CliRunner(env=environment).invoke(app, list(words))

    yield run
    assert people.refusals(account, since) == []


def test_copies_have_the_digests_of_their_sources_and_a_rerun_skips_them(
    ops: Callable[..., Result], publisher: Registry, private: Registry
) -> None:
    to = f"{private.host}/mirror"
    planned = json.loads(ops("mirror", "--env", "small", "--to", to, "--dry-run", "-o", "json").stdout)
    assert {each["state"] for each in planned["copies"]} == {"missing"}
    assert private("catalog", private.host) == ""

    copied = ops("mirror", "--env", "small", "--to", to)
    assert copied.exit_code == 0, copied.output
    assert re.search(rf"^\[1/4\] {re.escape(to)}/{IMAGES[0]}: copied in \d+ s$", copied.stdout, re.MULTILINE)
    for name in IMAGES:
        assert private.digest(f"mirror/{name}") == publisher.digest(name)
        platforms = json.loads(private("manifest", f"{to}/{name}"))["manifests"]
        assert [each["platform"]["architecture"] for each in platforms] == ["amd64", "arm64"]

    (private.disk / "sha256").chmod(0o500)
    again = json.loads(ops("mirror", "--env", "small", "--to", to, "-o", "json").stdout)
    assert {each["state"] for each in again["copies"]} == {"present"}
    assert [each["digest"] for each in again["copies"]] == [each["digest"] for each in planned["copies"]]


def test_interrupted_run_is_resumed(ops: Callable[..., Result], publisher: Registry, private: Registry) -> None:
    private("copy", f"{publisher.host}/{IMAGES[0]}", f"{private.host}/m/{IMAGES[0]}")
    result = ops("mirror", "--env", "small", "--to", f"{private.host}/m")
    assert result.exit_code == 0, result.output
    assert f"[1/4] {private.host}/m/{IMAGES[0]}: present" in result.stdout
    assert f"[2/4] {private.host}/m/{IMAGES[1]}: copied" in result.stdout


def test_charts_come_back_from_the_registry_as_the_lock_wants_them(
    ops: Callable[..., Result],
    private: Registry,
    charts: tuple[Archive, GitFolder],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive, folder = charts
    monkeypatch.setattr(plan, "public_images", lambda _: iter(()))
    assert ops("mirror", "--env", "small", "--to", private.host).exit_code == 0
    layer = json.loads(private("manifest", f"{private.host}/charts/published:1.0.0"))["layers"][0]
    assert layer["digest"] == f"sha256:{archive.sha256}"

    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(tmp_path / "empty"))
    fetched = ops("charts", "fetch", "--mirror", f"oci://{private.host}")
    assert fetched.exit_code == 0, fetched.output
    assert fetched.stdout.count("fetched and verified") == 2
    assert charts_lock.git_tree(tmp_path / "empty" / folder.file_name) == folder.tree

    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(tmp_path / "another"))
    lost = ops("charts", "fetch", "--mirror", f"oci://{private.host}/elsewhere")
    assert lost.exit_code == 2
    assert "elsewhere/charts/published:1.0.0" in lost.stderr


def test_ecr_is_logged_in_to_by_a_file_and_gets_repositories(
    ops: Callable[..., Result],
    publisher: Registry,
    gate: Gate,
    clients: Clients,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[tuple[Any, Any]] = []
    run = subprocess.run

    def recorded(command: Any, **options: Any) -> Any:
        # The test's own calls of crane have no environment of their own.
        if "env" in options:
            configuration = Path(options["env"]["DOCKER_CONFIG"])
            assert (configuration / "config.json").stat().st_mode & 0o777 == 0o600
            assert configuration.stat().st_mode & 0o777 == 0o700
            started.append((command, configuration))
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", recorded)
    # A helper of the caller's own configuration must not be asked: it does not exist.
    own = gate.certificate.parent / "own"
    own.mkdir()
    (own / "config.json").write_text('{"credsStore": "nowhere"}')
    variables = {
        "HTTPS_PROXY": f"http://{gate.host}",
        "NO_PROXY": "127.0.0.1",
        "SSL_CERT_FILE": str(gate.certificate),
        "DOCKER_CONFIG": str(own),
    }
    words = ("mirror", "--env", "small", "--to", f"{ECR}/mirror")
    planned = ops(*words, "--dry-run", **variables)
    assert planned.exit_code == 0, planned.output
    assert clients("ecr").describe_repositories()["repositories"] == []
    assert "repository  mirror/tools/build" in planned.stdout

    unasked = ops(*words, **variables)
    assert unasked.exit_code == 1
    assert "Fix: give --yes" in unasked.stderr
    assert clients("ecr").describe_repositories()["repositories"] == []

    result = ops(*words, "--yes", **variables)
    assert result.exit_code == 0, result.output
    made = clients("ecr").describe_repositories()["repositories"]
    assert {each["repositoryName"] for each in made} == {
        f"mirror/{name}" for name in ("charts/folder", "charts/published", "ray/base", "tools/build")
    }
    assert {each["imageTagMutability"] for each in made} == {"IMMUTABLE"}
    assert {each["imageScanningConfiguration"]["scanOnPush"] for each in made} == {True}
    assert gate.registry.digest(f"mirror/{IMAGES[0]}") == publisher.digest(IMAGES[0])
    token = registries.login_of("AWS", f"{ACCOUNT_ID}-auth-token")
    assert started
    assert not [command for command, _ in started if token in " ".join(command)]
    assert not [folder for _, folder in started if folder.exists()]
    assert token not in result.output


def test_moved_tag_is_refused_and_nothing_is_overwritten(
    ops: Callable[..., Result], publisher: Registry, private: Registry, tmp_path: Path
) -> None:
    to = private.host
    assert ops("mirror", "--env", "small", "--to", to).exit_code == 0
    before = private.digest(IMAGES[1])
    publisher.publish(IMAGES[1], "another content", tmp_path)
    result = ops("mirror", "--env", "small", "--to", to)
    assert result.exit_code == 1
    says = f"error: {to}/{IMAGES[1]}: the copy is {before}, but {publisher.host}/{IMAGES[1]} is sha256:"
    assert result.stderr.startswith(says)
    assert result.stderr.count("\n") == 1
    assert private.digest(IMAGES[1]) == before


def test_broken_copy_is_found(ops: Callable[..., Result], publisher: Registry, private: Registry) -> None:
    assert ops("mirror", "--env", "small", "--to", private.host).exit_code == 0
    manifest = json.loads(private("manifest", "--platform", "linux/arm64", f"{private.host}/{IMAGES[0]}"))
    [layer] = manifest["layers"]
    (private.disk / layer["digest"].replace(":", "/")).unlink()
    result = ops("mirror", "--env", "small", "--to", private.host)
    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: {private.host}/{IMAGES[0]}: the copy is broken: ")
    assert "layer does not exist" in result.stderr
    assert f"Fix: delete {private.host}/{IMAGES[0]} in its registry, then rerun" in result.stderr
    assert result.stderr.count("\n") == 1


def test_registry_that_cannot_be_used_is_named_once(
    ops: Callable[..., Result], publisher: Registry, gate: Gate
) -> None:
    unreachable = ops("mirror", "--env", "small", "--to", "127.0.0.1:1")
    assert unreachable.exit_code == 2
    assert "connection refused" in unreachable.stderr
    assert unreachable.stderr.endswith("Fix: check the network to 127.0.0.1:1, then rerun to resume\n")
    assert unreachable.stderr.count("\n") == 1

    unauthorised = ops("mirror", "--env", "small", "--to", gate.host)
    assert unauthorised.exit_code == 2
    assert unauthorised.stderr.endswith(f"Fix: log in to {gate.host} with rights for it (`docker login`)\n")
    assert unauthorised.stderr.count("\n") == 1


def test_source_without_the_image_is_named(
    ops: Callable[..., Result], publisher: Registry, private: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = f"{publisher.host}/lost:1"
    monkeypatch.setattr(plan, "public_images", lambda _: iter([PublicImage(lost, "test")]))
    result = ops("mirror", "--env", "small", "--to", private.host)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {lost}: the registry has no such image.")
