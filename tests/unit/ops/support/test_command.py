"""`ops support-bundle` where parts of the environment cannot be read."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ops.commands.whole import app
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis, aws_error


def bundle(*words: str) -> Result:
    return CliRunner().invoke(app, ["support-bundle", "--env", "dev", *words])


def test_without_credentials_it_holds_what_this_machine_knows(no_aws: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_aws.chdir(tmp_path)
    result = bundle()
    assert result.exit_code == 0, result.output
    [written] = tmp_path.glob("*.tar.gz")
    assert result.stdout.endswith(f"written: {written.name}\n")
    for part in ("versions.json", "environment/dev.yaml", "logs: head", "there are no AWS credentials"):
        assert part in result.stdout


def test_refused_part_is_named_with_the_action(apis: Apis, tmp_path: Path) -> None:
    apis.aws["ListClusterNodes"] = aws_error("AccessDeniedException", "not you")
    result = bundle("--dry-run", "-o", "json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert_same_shape(shown, documented("support-bundle"))
    reasons = {each["part"]: each["reason"] for each in shown["missing"]}
    assert "not you" in reasons["HyperPod cluster"]
    assert "no pod ray.io/cluster" in reasons["logs/head"]
    read = {each["file"] for each in shown["files"]}
    assert {"status.json", "hyperpod/cluster.json", "kubernetes/nodes.json", "kubernetes/ray/rayclusters.json"} <= read


def test_existing_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_text("mine")
    result = bundle("--out", str(tmp_path / "b.tar.gz"))
    assert result.exit_code == 2
    assert "exists. Fix: remove it, or choose another file" in result.stderr
    assert (tmp_path / "b.tar.gz").read_text() == "mine"
