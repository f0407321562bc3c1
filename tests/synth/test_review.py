"""`ops review` with the real CDK CLI, as in a pull request."""

import copy
import json
import subprocess
import sys
from pathlib import Path

from bench.checkout import checkout
from config import load
from embedded_account.cloudformation.templates.resource_types import resource_types
from ops.render import manifests
from ops.review.losses import losses
from rehearsal.paths import NODE_MODULES
from tests.support.waiting import REHEARSAL_PATIENCE
from tests.synth.support.synthesis import Assembly, write_empty_charts


def change(file: Path, before: str, after: str) -> None:
    """Edit a file as a user would."""
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))


def test_every_declared_setting_that_replaces_the_file_system_is_warned_of(dev: Assembly, tmp_path: Path) -> None:
    """CloudFormation's resource specification lists these settings; the file system's type has no key."""
    [(name, resource)] = dev.templates["storage"].all("AWS::FSx::FileSystem").items()
    kind = resource_types(NODE_MODULES).get("AWS::FSx::FileSystem")
    assert kind
    lustre = resource_types(NODE_MODULES).definition(kind.properties["LustreConfiguration"].type["reference"]["$ref"])
    warned = 0
    for path, known in (((), kind.properties), (("LustreConfiguration",), lustre)):
        before, after = copy.deepcopy(resource), copy.deepcopy(resource)
        settings = after["Properties"]
        for part in path:
            settings = settings[part]
        for key in [key for key in settings if known[key].replacement == "yes" and key != "FileSystemType"]:
            kept, settings[key] = settings[key], "another"
            for folder, body in (("base", before), ("head", after)):
                (tmp_path / folder).mkdir(exist_ok=True)
                (tmp_path / folder / "s.template.json").write_text(json.dumps({"Resources": {name: body}}))
            [warning] = losses(tmp_path / "base", tmp_path / "head", "dev")
            assert f"**File system {name} is replaced** ({key})" in warning
            settings[key] = kept
            warned += 1
    assert warned == 5


def test_a_pull_request_shows_a_changed_count_and_its_stale_manifest(tmp_path: Path) -> None:
    write_empty_charts(tmp_path / "charts")
    base, head = (checkout(tmp_path / side, ["dev"]) for side in ("base", "head"))
    for side in (base, head):
        manifests.write(load("dev"), side / "manifests")
    change(head / "environments" / "dev.yaml", "count: 4", "count: 5")
    change(head / "environments" / "dev.yaml", "replicas: 4", "replicas: 5")

    context = ["-c", "charts=stand-in", "-c", f"stand-in-charts={tmp_path / 'charts'}"]
    command = [sys.executable, "-m", "ops", "review", str(base), "--json", *context]
    result = subprocess.run(command, cwd=head, capture_output=True, text=True, check=False, timeout=REHEARSAL_PATIENCE)

    assert result.returncode == 0, result.stderr
    verdict = json.loads(result.stdout)
    [dev] = verdict["environments"]
    assert {each["stack"] for each in dev["changes"]} == {"hyperpod", "ray"}
    [note] = verdict["notes"]
    assert note.startswith("manifests/ is stale, this review ignores it: dev/ray/clusters/rayml.yaml. Fix: ")
