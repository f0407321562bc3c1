"""Every file that a synthesis opens counts as its input: `ops review` skips environments with unchanged inputs."""

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.checkout import checkout
from config.load import DIRECTORY_VARIABLE
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
