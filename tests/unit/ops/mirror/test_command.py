"""`ops mirror` where it needs no registry: what it refuses, and the commands that it prints."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import config
from config.facts import charts_lock
from ops.commands.whole import app
from ops.mirror import crane, login
from ops.mirror.errors import MirrorError
from ops.mirror.plan import ArtifactKind, Copy, CopyState, RequiredCopy, at, images
from ops.mirror.show import data
from tests.unit.support.documented_data import assert_same_shape, documented

REGISTRY = "registry.example.com:5000/mirror"
TOKEN = "QVdTOnRva2Vu"


def mirror(*words: str) -> Result:
    return CliRunner().invoke(app, ["mirror", *words])


def test_printed_commands_copy_every_image_that_can_be_copied() -> None:
    result = mirror("--env", "dev", "--to", REGISTRY, "--print")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert (
        "crane copy quay.io/kuberay/operator:v1.2.0 registry.example.com:5000/mirror/kuberay/operator:v1.2.0" in lines
    )
    assert len(lines) == len(images(config.load("dev"), REGISTRY)) > 5
    assert not [line for line in lines if "neuron" in line]


def test_registry_is_that_of_the_environment_or_must_be_given() -> None:
    assert "111122223333.dkr.ecr.us-west-2.amazonaws.com/mirror/" in mirror("--env", "closed", "--print").stdout
    missing = mirror("--env", "dev", "--print")
    assert missing.exit_code == 2
    assert "dev has no image_registry. Fix: set image_registry, or give --to REGISTRY" in missing.stderr
    wrong = mirror("--env", "dev", "--print", "--to", "https://registry.example.com")
    assert wrong.exit_code == 2
    assert "Allowed: HOST, HOST:PORT or HOST/PATH, without https://" in wrong.stderr


def test_charts_that_were_not_fetched_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(tmp_path))
    result = mirror("--env", "dev", "--to", REGISTRY)
    assert result.exit_code == 2
    assert "kuberay-operator-1.2.0.tgz does not exist. Fix: `ops charts fetch`" in result.stderr


def test_without_go_the_message_names_what_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(crane.CACHE_VARIABLE, str(tmp_path / "programs"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(MirrorError, match=r"Go is not installed.*`make setup`.*`ops mirror --print`") as error:
        crane.ensure()
    assert error.value.code == 2


def test_build_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\necho 'no route to the module proxy' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv(crane.CACHE_VARIABLE, str(tmp_path / "programs"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(MirrorError, match=r"no route to the module proxy\. Fix: check the network and GOPROXY"):
        crane.ensure()
    assert list((tmp_path / "programs").iterdir()) == []


def test_every_module_of_crane_is_pinned_by_its_digest() -> None:
    required = set(re.findall(r"^(?:require |\t)(\S+) (v\S+)", (crane.MODULE / "go.mod").read_text(), re.MULTILINE))
    assert {name for name, _ in required} > {"github.com/google/go-containerregistry"}
    sums = (crane.MODULE / "go.sum").read_text().splitlines()
    assert [name for name, version in required if not any(f"{name} {version} h1:" in line for line in sums)] == []


def test_logins_of_the_caller_stay_and_tokens_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = {
        "auths": {"https://index.docker.io/v1/": {}},
        "credsStore": "desktop",
        "credHelpers": {"quay.io": "quay", "1.ecr": "ecr-login"},
        "proxies": {},
    }
    (tmp_path / "config.json").write_text(json.dumps(own))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with login.logged_in({"1.ecr": TOKEN}) as variables:
        written = Path(variables["DOCKER_CONFIG"], "config.json")
        assert json.loads(written.read_text()) == {
            "auths": {"https://index.docker.io/v1/": {}, "1.ecr": {"auth": TOKEN}},
            "credHelpers": {"https://index.docker.io/v1/": "desktop", "quay.io": "quay", "1.ecr": ""},
            "proxies": {},
        }
    assert not written.parent.exists()
    with login.logged_in({}) as variables:
        assert variables == {}


def test_image_is_named_by_its_digest_whatever_its_registry() -> None:
    assert at("host:5000/a/b:1", "sha256:0") == "host:5000/a/b@sha256:0"
    assert at("docker.io/a@sha256:1", "sha256:0") == "docker.io/a@sha256:0"


def test_data_have_the_documented_shape() -> None:
    copy = Copy(RequiredCopy(ArtifactKind.IMAGE, "a/b:1", "c/b:1"), "sha256:0", CopyState.COPIED)
    assert_same_shape(data(REGISTRY, [copy], ["b"], planned=False), {**documented("mirror"), "repositories": ["b"]})
