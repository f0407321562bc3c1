"""The synthesis that runs beside the account's start."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_account.machine.isolation import child_environment
from embedded_account.machine.processes import Supervisor
from rehearsal.report.breakdown import Spans
from rehearsal.run.cdk import Cdk, CommandError, Synthesis


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path)
    yield made
    made.stop_all(gracefully=False)


def begin(directory: Path, supervisor: Supervisor, app: str, spans: Spans) -> Synthesis:
    """Begin the synthesis of a project whose app is one line of shell."""
    project = directory / "project"
    project.mkdir()
    (project / "cdk.json").write_text(json.dumps({"app": app}))
    env = child_environment(directory, region="us-west-2", account_id="111122223333")
    cdk = Cdk(project, supervisor.logs, env, context={}, echo=print, spans=spans)
    return cdk.begin_synthesis(supervisor)


def test_it_leaves_an_assembly_and_its_time(tmp_path: Path, supervisor: Supervisor) -> None:
    stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "one.json"}}
    stack["environment"] = "aws://111122223333/us-west-2"
    (tmp_path / "one.json").write_text('{"Resources": {}}')
    (tmp_path / "manifest.json").write_text(json.dumps({"version": "36.0.0", "artifacts": {"one": stack}}))
    spans = Spans()
    begin(tmp_path, supervisor, "cp ../*.json $CDK_OUTDIR", spans).finish()
    written = tmp_path / "project" / "cdk.out" / "manifest.json"
    assert json.loads(written.read_text())["artifacts"] == {"one": stack}
    [(began, ended)] = spans.syntheses
    assert began < written.stat().st_mtime <= ended
    assert list(supervisor.run.iterdir()) == []


def test_an_app_that_fails_is_a_failure_with_its_words(tmp_path: Path, supervisor: Supervisor) -> None:
    synthesis = begin(tmp_path, supervisor, "echo no such chart >&2; exit 2", Spans())
    with pytest.raises(CommandError, match=r"(?s)`cdk synth` ended with code 1; its output: \S+\.log.*no such chart"):
        synthesis.finish()
