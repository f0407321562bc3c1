"""`ops kubeconfig`: the entry that kubectl needs, and the files into which it is merged."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from ops.commands.whole import app
from tests.unit.support.fake_apis import Apis, aws_error

OTHER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "other", "cluster": {"server": "https://other"}}],
    "users": [{"name": "other", "user": {"token": "secret"}}],
    "contexts": [{"name": "other", "context": {"cluster": "other", "user": "other"}}],
    "current-context": "other",
    "preferences": {"colors": True},
}


def kubeconfig(*words: str) -> Result:
    return CliRunner().invoke(app, ["kubeconfig", "--env", "dev", *words])


@pytest.fixture
def file(apis: Apis, tmp_path: Path) -> Path:
    certificate = base64.b64encode(b"certificate").decode()
    apis.aws["DescribeEksCluster"]["cluster"]["certificateAuthority"]["data"] = certificate
    return tmp_path / "kube" / "config"


def test_the_entry_gets_tokens_from_the_aws_cli(apis: Apis, file: Path) -> None:
    result = kubeconfig()
    assert result.exit_code == 0, result.output
    printed = yaml.safe_load(result.stdout)
    [cluster], [user], [context] = printed["clusters"], printed["users"], printed["contexts"]
    assert cluster["cluster"]["server"] == apis.endpoint
    words = [user["user"]["exec"]["command"], *user["user"]["exec"]["args"]]
    assert " ".join(words) == "aws eks get-token --region us-west-2 --cluster-name rayhp-dev --output json"
    assert context == {
        "name": "rayhp-dev",
        "context": {"cluster": "rayhp-dev", "user": "rayhp-dev", "namespace": "ray"},
    }


def test_a_new_file_is_for_its_owner_only(file: Path) -> None:
    assert kubeconfig("--file", str(file)).exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(file.read_text())["current-context"] == "rayhp-dev"


def test_other_entries_and_the_current_context_stay(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(OTHER))
    result = kubeconfig("--file", str(file))
    assert result.exit_code == 0, result.output
    merged = yaml.safe_load(file.read_text())
    for key, value in OTHER.items():
        assert (merged[key][:1] if isinstance(value, list) else merged[key]) == value
    assert [each["name"] for each in merged["contexts"]] == ["other", "rayhp-dev"]
    content = file.read_text()
    again = kubeconfig("--file", str(file))
    assert "already had the context" in again.stdout
    assert file.read_text() == content
    assert [each.name for each in file.parent.iterdir()] == ["config"]


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    real = tmp_path / "real"
    real.write_text(yaml.safe_dump(OTHER))
    file.symlink_to(real)
    assert kubeconfig("--file", str(file)).exit_code == 0
    assert file.is_symlink()
    assert "rayhp-dev" in real.read_text()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("clusters: [", "is no kubeconfig"),
        ("- a list", "is no kubeconfig"),
        ("clusters: [{}]", "an entry has no name"),
        (
            yaml.safe_dump({"clusters": [{"name": "rayhp-dev", "cluster": {"server": "https://elsewhere"}}]}),
            "belongs to another server, https://elsewhere",
        ),
    ],
)
def test_a_file_that_cannot_be_merged_is_not_changed(file: Path, content: str, reason: str) -> None:
    file.parent.mkdir()
    file.write_text(content)
    result = kubeconfig("--file", str(file))
    assert result.exit_code == 2
    assert reason in result.stderr
    assert file.read_text() == content


def test_a_folder_that_cannot_be_made_is_named(file: Path) -> None:
    file.parent.write_text("a file")
    result = kubeconfig("--file", str(file))
    assert result.exit_code == 2
    assert "Fix: choose another --file" in result.stderr


def test_without_a_cluster_there_is_no_entry(apis: Apis, file: Path) -> None:
    apis.aws["DescribeEksCluster"] = aws_error("ResourceNotFoundException", "No cluster found.", 404)
    result = kubeconfig("--file", str(file))
    assert result.exit_code == 2
    assert "there is no EKS cluster yet" in result.stderr
    assert not file.exists()
