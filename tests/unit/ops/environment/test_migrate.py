"""`ops migrate`: files of earlier schemas become files of the present one, and nothing else in them changes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import config
from config.load import DIRECTORY
from config.model import InstanceGroup
from config.model.environment import every_key
from config.reading import earlier_schemas
from config.reading.strict_yaml import read
from ops.commands.whole import app
from tests.support.generated_environments import read_from

# What a user of the first schema had: every key that was removed since, in the ways to write it.
OLD = """# The trial.
project: rayhp   # prefix
# EKS or nothing
orchestrator: eks   # the only one
account: "111122223333"
region: us-west-2
network:
  zones: [usw2-az2, usw2-az1]
access:
  admins: [arn:aws:iam::111122223333:role/PlatformAdmin]
eks:
  public_access_cidrs: [203.0.113.0/24]
hyperpod:
  cluster_name: ml-cluster
  instance_groups:
    - name: head-group
      instance_type: ml.m5.2xlarge
      # 100 GiB by default
      root_volume_gib: 100
      count: 2
    - root_volume_gib: 200
      name: worker-group-1
      instance_type: ml.p5.48xlarge
      count: 4
    - {name: spare, root_volume_gib: 100, instance_type: ml.g5.8xlarge, count: 1}
    - {root_volume_gib: 100, name: last, instance_type: ml.g5.8xlarge, count: 1}
    - {name: end, instance_type: ml.g5.8xlarge, count: 1, root_volume_gib: 100}
image:
  repository: aws-ray-custom
ray:
  clusters:
    - name: rayml
      head: {instance_group: head-group}
      workers:
        - {name: gpu-group, instance_group: worker-group-1, replicas: 4, min_replicas: 1, max_replicas: 10}
"""
NEW = """# The trial.
project: rayhp   # prefix
# EKS or nothing
account: "111122223333"
region: us-west-2
network:
  zones: [usw2-az2, usw2-az1]
access:
  admins: [arn:aws:iam::111122223333:role/PlatformAdmin]
eks:
  public_access_cidrs: [203.0.113.0/24]
hyperpod:
  cluster_name: ml-cluster
  instance_groups:
    - name: head-group
      instance_type: ml.m5.2xlarge
      # 100 GiB by default
      count: 2
    - name: worker-group-1
      instance_type: ml.p5.48xlarge
      count: 4
    - {name: spare, instance_type: ml.g5.8xlarge, count: 1}
    - {name: last, instance_type: ml.g5.8xlarge, count: 1}
    - {name: end, instance_type: ml.g5.8xlarge, count: 1}
image:
  repository: aws-ray-custom
ray:
  clusters:
    - name: rayml
      head: {instance_group: head-group}
      workers:
        - {name: gpu-group, instance_group: worker-group-1, replicas: 4, min_replicas: 1, max_replicas: 10}
"""


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment of the first schema, in a folder of its own."""
    read_from(tmp_path, monkeypatch)
    file = tmp_path / "trial.yaml"
    file.write_text(OLD)
    return file


def migrate(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(app, ["migrate", *arguments], input=answer)


def test_former_keys_are_removed_and_all_else_stays(old: Path) -> None:
    old.chmod(0o640)
    result = migrate("--yes")
    assert result.exit_code == 0, result.output
    assert old.read_text() == NEW
    assert old.stat().st_mode & 0o777 == 0o640
    assert list(old.parent.iterdir()) == [old]
    assert config.examine("trial").errors == []
    assert migrate("--yes").stdout.endswith("trial.yaml: nothing to migrate\n")


def test_line_ends_and_a_byte_order_mark_stay(old: Path) -> None:
    moved = OLD.removeprefix("# The trial.\n").replace("orchestrator: eks   # the only one\n", "")
    content = ("\ufefforchestrator: eks\n" + moved).replace("\n", "\r\n")
    old.write_bytes(content.encode())
    assert migrate("--yes").exit_code == 0
    expected = "\ufeff" + NEW.removeprefix("# The trial.\n")
    assert old.read_bytes() == expected.replace("\n", "\r\n").encode()


def test_the_difference_is_shown_with_reasons_before_the_question(old: Path, terminal: None) -> None:
    result = migrate("--env", "trial", answer="n\n")
    assert result.exit_code == 1
    shown, _, question = result.output.partition("Write ")
    assert "\n-orchestrator: eks   # the only one\n" in shown
    assert "orchestrator: every cluster is orchestrated by EKS (since version 0.2.0)" in shown
    assert "not confirmed. Fix: answer y, or give --yes" in question
    assert old.read_text() == OLD
    assert migrate("--env", "trial", answer="y\n").exit_code == 0
    assert old.read_text() == NEW


def test_without_a_terminal_the_question_is_refused(old: Path) -> None:
    result = migrate("--env", "trial", answer="y\n")
    assert result.exit_code == 1
    assert result.stderr.endswith("standard input is no terminal. Fix: give --yes\n")
    assert old.read_text() == OLD


def test_a_dry_run_shows_the_same_and_writes_nothing(old: Path) -> None:
    result = migrate("--dry-run")
    assert result.exit_code == 0
    assert "\n-      root_volume_gib: 100\n" in result.stdout
    assert "Write" not in result.stdout
    assert old.read_text() == OLD


def test_a_file_that_would_be_invalid_is_not_written(old: Path) -> None:
    old.write_text(OLD.replace("count: 4", "count: many"))
    result = migrate("--yes")
    assert result.exit_code == 2
    line = OLD.splitlines().index("      count: 4") + 1
    assert f"trial.yaml:{line} hyperpod.instance_groups.1 (worker-group-1).count: 'many' is invalid" in result.stderr
    assert "was not changed: it has other errors. Fix: " in result.stderr
    assert "many" in old.read_text()


def test_an_unreadable_file_is_explained(old: Path) -> None:
    old.write_text("project: [\n")
    result = migrate("--yes")
    assert result.exit_code == 2
    assert "trial.yaml:2: the syntax is invalid" in result.stderr


def test_an_environment_of_the_present_schema_is_left_alone() -> None:
    before = {file: file.read_bytes() for file in DIRECTORY.glob("*.yaml")}
    result = migrate()
    assert result.exit_code == 0
    assert result.stdout.count("nothing to migrate") == len(before)
    assert {file: file.read_bytes() for file in before} == before


def test_an_unknown_environment_is_named() -> None:
    result = migrate("--env", "nowhere")
    assert result.exit_code == 2
    assert "there is no such file" in result.stderr


def test_the_error_of_a_former_key_names_the_command(old: Path) -> None:
    found = {each.key: each for each in config.examine("trial").errors}
    assert len(found) == 6
    assert {each.fix for each in found.values()} == {"run `ops migrate`"}
    assert found["orchestrator"].reason == "version 0.2.0 removed it: every cluster is orchestrated by EKS"


@pytest.mark.parametrize(
    "document", [{}, {"hyperpod": []}, {"hyperpod": {"instance_groups": [1]}}, {"orchestrator": 1}]
)
def test_documents_without_former_keys_have_nothing_to_migrate(document: object) -> None:
    assert earlier_schemas.removals(document) == []


@pytest.mark.parametrize("key", ["hang_detection", "metrics"])
def test_a_feature_that_could_not_be_on_is_removed(key: str) -> None:
    document = {"aws_ray": {key: False, "tiered_checkpoints": True}}
    assert [each.place for each in earlier_schemas.removals(document)] == [("aws_ray", key)]


def test_no_former_key_is_a_key_again(old: Path) -> None:
    """A name with two meanings could not be told apart by the keys of a file."""
    for removal in earlier_schemas.removals(read(old).values):
        assert removal.place[-1] not in every_key().model_fields
        assert removal.place[-1] not in InstanceGroup.model_fields


def test_help_has_examples() -> None:
    said = " ".join(migrate("-h").stdout.replace("│", " ").split())
    assert "ops migrate --dry-run" in said
    assert "0: done, or nothing to do" in said
