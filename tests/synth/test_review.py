"""`ops review` with the real CDK CLI, as in a pull request."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.checkout import checkout
from config import naming
from embedded_account.cloudformation.templates.resource_types import resource_types
from ops.review.assembly import Assembly as Sides
from ops.review.assembly import Pair, resource_changes
from ops.review.cloudformation.changes import changes
from ops.review.model import Change, Danger, Effect
from ops.review.report.approvals import entries
from rehearsal.paths import NODE_MODULES
from tests.support.approving import accepted
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS
from tests.synth.support.synthesis import Assembly, write_empty_charts


def change(file: Path, before: str, after: str) -> None:
    """Edit a file as a user would."""
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))


def test_every_declared_setting_that_replaces_the_file_system_loses_its_data(dev: Assembly, tmp_path: Path) -> None:
    """CloudFormation's resource specification lists these settings; the file system's type has no key."""
    kind = resource_types(NODE_MODULES).get("AWS::FSx::FileSystem")
    assert kind
    lustre = resource_types(NODE_MODULES).definition(kind.properties["LustreConfiguration"].type["reference"]["$ref"])
    base = Sides(dev.directory)
    shutil.copytree(dev.directory, tmp_path / "head", ignore=shutil.ignore_patterns("asset.*"))
    file = tmp_path / "head" / f"{naming.stack(dev.environment, 'storage')}.template.json"
    reviewed = 0
    for path, known in (((), kind.properties), (("LustreConfiguration",), lustre)):
        template = json.loads(file.read_text())
        [resource] = [each for each in template["Resources"].values() if each["Type"] == kind.name]
        settings = resource["Properties"]
        for part in path:
            settings = settings[part]
        for key in [key for key in settings if known[key].replacement == "yes" and key != "FileSystemType"]:
            kept, settings[key] = settings[key], "another"
            file.write_text(json.dumps(template))
            pair = Pair("dev", base, Sides(tmp_path / "head"))
            found = changes(pair, list(resource_changes(pair)))
            assert Effect.DATA_LOST in {each.effect for each in found if each.resource.startswith(kind.name)}, key
            settings[key] = kept
            reviewed += 1
        file.write_text(json.dumps(template))
    assert reviewed == 5


def test_a_pull_request_shows_a_changed_count(tmp_path: Path) -> None:
    write_empty_charts(tmp_path / "charts")
    base, head = (checkout(tmp_path / side, ["dev"]) for side in ("base", "head"))
    change(head / "environments" / "dev.yaml", "count: 4", "count: 5")
    change(head / "environments" / "dev.yaml", "replicas: 4", "replicas: 5")

    context = ["-c", "charts=stand-in", "-c", f"stand-in-charts={tmp_path / 'charts'}"]
    command = [sys.executable, "-m", "ops", "review", str(base), "--json", *context]
    result = subprocess.run(
        command, cwd=head, capture_output=True, text=True, check=False, timeout=REHEARSAL_PATIENCE_SECONDS
    )

    assert result.returncode == 0, result.stderr
    verdict = json.loads(result.stdout)
    [dev] = verdict["environments"]
    assert {each["stack"] for each in dev["changes"]} == {"hyperpod", "ray"}
    assert verdict["notes"] == []


@pytest.mark.long
def test_base_stops_a_pull_request_that_opens_its_own_gate(tmp_path: Path) -> None:
    """It synthesises four times; tests/unit/ops/gate/test_heads.py decides with a fake CDK CLI."""
    write_empty_charts(tmp_path / "charts")
    base, head = (checkout(tmp_path / side, ["dev"]) for side in ("base", "head"))
    change(head / "environments" / "dev.yaml", "mbps_per_tib: 250", "mbps_per_tib: 500")
    change(head / "ops" / "gate" / "decision.py", "return not self.stops and not self.errors", "return True")
    context = ["-c", "charts=stand-in", "-c", f"stand-in-charts={tmp_path / 'charts'}"]
    command = [sys.executable, "-m", "ops", "gate", ".", "--head", "../head", "-o", "json", *context]

    def decided() -> tuple[int, Any]:
        result = subprocess.run(
            command, cwd=base, capture_output=True, text=True, check=False, timeout=REHEARSAL_PATIENCE_SECONDS
        )
        assert result.stdout, result.stderr
        return result.returncode, json.loads(result.stdout)

    code, decision = decided()
    assert code == 1
    stopped = decision["stopped"]
    assert Danger.DATA_LOSS in {danger for each in stopped for danger in each["dangers"]}
    lines = [
        line
        for each in stopped
        for line in entries(
            Change(each["stack"], each["resource"], "", "", Effect.DATA_LOST, digest=each["digest"]),
            [Danger(danger) for danger in each["dangers"]],
        )
    ]
    approvals = head / "environments" / "approvals" / "dev.yaml"
    approvals.parent.mkdir()
    approvals.write_text(accepted("\n".join(["approvals:", *lines])))
    # The second syntheses give the same digests.
    code, decision = decided()
    assert (code, decision["opens"]) == (0, True)
