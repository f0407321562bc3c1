"""The synthesis that runs beside the account's start."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_account.machine.isolation import child_environment
from embedded_account.machine.processes import ProcessSupervisor
from rehearsal.report.breakdown import Spans
from rehearsal.run.cdk import Cdk, CommandError


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[ProcessSupervisor]:
    made = ProcessSupervisor(tmp_path)
    yield made
    made.stop_all(gracefully=False)


def make(directory: Path, supervisor: ProcessSupervisor, app: str, spans: Spans) -> Cdk:
    """Make a project whose app is one line of shell."""
    project = directory / "project"
    project.mkdir()
    (project / "cdk.json").write_text(json.dumps({"app": app}))
    env = child_environment(directory, region="us-west-2", account_id="111122223333")
    return Cdk(project, supervisor.logs, env, context={}, echo=print, spans=spans)


def write_assembly(directory: Path, stack: str) -> None:
    """Write the assembly that an app of `cp ../*.json $CDK_OUTDIR` makes: one stack."""
    content = {
        "type": "aws:cloudformation:stack",
        "properties": {"templateFile": "one.json"},
        "environment": "aws://111122223333/us-west-2",
    }
    (directory / "one.json").write_text('{"Resources": {}}')
    (directory / "manifest.json").write_text(json.dumps({"version": "36.0.0", "artifacts": {stack: content}}))


def test_it_leaves_an_assembly_and_its_time_once_it_is_finished(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    spans = Spans()
    cdk = make(tmp_path, supervisor, "cp ../*.json $CDK_OUTDIR", spans)
    written = tmp_path / "project" / "cdk.out" / "manifest.json"
    write_assembly(tmp_path, "first")
    cdk.begin_synthesis(supervisor).finish()
    write_assembly(tmp_path, "second")
    second = cdk.begin_synthesis(supervisor)
    assert cdk("ls", again=True).split() == ["first"]
    second.finish()
    assert cdk("ls", again=True).split() == ["second"]
    (_, _), (began, ended) = spans.syntheses
    assert began < written.stat().st_mtime <= ended
    assert list(supervisor.run.iterdir()) == []


def test_an_app_that_fails_is_a_failure_with_its_words(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    synthesis = make(tmp_path, supervisor, "echo no such chart >&2; exit 2", Spans()).begin_synthesis(supervisor)
    with pytest.raises(CommandError, match=r"(?s)`cdk synth` ended with code 1; its output: \S+\.log.*no such chart"):
        synthesis.finish()
