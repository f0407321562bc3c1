"""Every file that a synthesis opens counts as its input: `ops review` skips environments with unchanged inputs."""

import importlib.util
import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from bench.checkout import checkout
from config.load import DIRECTORY_VARIABLE
from ops.review.checkouts.cdk import ReviewError, synthesise
from ops.review.checkouts.inputs import NOT_READ
from tests.synth.support.synthesis import context, write_empty_charts

# Runs the app, and records each file that Python opens. Node opens only the asset folders that Python names.
_AUDITED = """
import runpy, sys
opened = open(sys.argv[1], "w", buffering=1)
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        opened.write(arguments[0] + "\\n")
sys.addaudithook(note)
sys.path.insert(0, "")
runpy.run_path("app.py", run_name="__main__")
"""


def test_a_synthesis_opens_no_file_that_is_not_counted(tmp_path: Path) -> None:
    write_empty_charts(tmp_path / "charts")
    stand_ins = {"charts": "stand-in", "stand-in-charts": str(tmp_path / "charts")}
    project = checkout(tmp_path / "project", ["dev"])
    inherited = {name: value for name, value in os.environ.items() if name != DIRECTORY_VARIABLE}
    env = inherited | {
        "CDK_CONTEXT_JSON": json.dumps(context() | stand_ins | {"environment": "dev"}),
        "CDK_OUTDIR": str(tmp_path / "cdk.out"),
        "CDK_VALIDATION": "false",
    }
    argv = [sys.executable, "-c", _AUDITED, str(tmp_path / "opened")]
    subprocess.run(argv, cwd=project, env=env, check=True, capture_output=True)

    paths = {(project / line).resolve() for line in (tmp_path / "opened").read_text().splitlines()}
    own = [path.relative_to(project) for path in paths if path.is_relative_to(project)]
    assert {path.parts[0] for path in own} >= {"app.py", "config", "environments", "handlers", "k8s_charts", "stacks"}
    assert [str(path) for path in own if path.parts[0] in NOT_READ] == []
    assert [str(path) for path in own if path.parts[0] == "environments"] == ["environments/dev.yaml"]


def _poison(module: Path, line: str) -> None:
    """Write bytecode of other code for the module, which Python runs without a look at the source (PEP 552)."""
    file = Path(importlib.util.cache_from_source(str(module)))
    file.parent.mkdir(exist_ok=True)
    other = module.with_name("other.py")
    other.write_text(f"{module.read_text()}\n{line}\n")
    py_compile.compile(str(other), str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    other.unlink()


def test_a_synthesis_of_a_review_runs_no_bytecode_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The app and each of its packages could be replaced: one of each is tried, and that the poison works elsewhere."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    write_empty_charts(tmp_path / "charts")
    stand_ins = {"charts": "stand-in", "stand-in-charts": str(tmp_path / "charts")}
    project = checkout(tmp_path / "project", ["dev"])
    for module in ("config/naming.py", "stacks/ray/stack.py", "k8s_charts/__init__.py"):
        _poison(project / module, f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    argv = [sys.executable, "-c", "import config.naming"]
    subprocess.run(argv, cwd=project, check=True)
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()
    before = sorted(project.rglob("*.pyc"))

    assembly = synthesise(project, "dev", tmp_path / "out", stand_ins)
    assert (assembly / "manifest.json").is_file()
    assert not (tmp_path / "ran").exists()
    assert sorted(project.rglob("*.pyc")) == before


def test_a_synthesis_of_a_review_opens_no_file_that_is_no_input(tmp_path: Path) -> None:
    """A first pull request lets the app read a page, a second one changes the page: nothing would count as changed."""
    project = checkout(tmp_path / "project", ["dev"])
    (project / "docs").mkdir()
    (project / "docs" / "settings.json").write_text("{}")
    app = project / "app.py"
    app.write_text(f"from pathlib import Path\nPath('docs/settings.json').read_text()\n{app.read_text()}")
    with pytest.raises(ReviewError, match=r"docs/settings.json: the synthesis reads it, but a review counts it as no"):
        synthesise(project, "dev", tmp_path / "out", {})
