"""`ops review` with a fake CDK CLI that copies templates; tests/synth uses the real CLI."""

import json
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ops.__main__ import app
from ops.review import review
from ops.review.checkouts import templates as review_templates
from ops.review.checkouts.cdk import ReviewError
from tests.support.waiting import PATIENCE

# The fake `synth` waits for the file that templates/<environment>/waits-for names, then copies templates/<environment>/
# to its output, or fails if the template is "broken". It records each call in the checkout's cdk.out.
CDK = """
const fs = require('fs'), path = require('path');
const [verb, ...rest] = process.argv.slice(2);
const after = option => rest[rest.indexOf(option) + 1];
if (verb === 'synth') {
  const context = rest.filter((_, i) => rest[i - 1] === '--context');
  const name = context.find(c => c.startsWith('environment=')).split('=')[1], from = path.join('templates', name);
  fs.mkdirSync('cdk.out', {recursive: true});
  fs.writeFileSync(path.join('cdk.out', name), JSON.stringify(context));
  const awaited = path.join(from, 'waits-for');
  const wait = new Int32Array(new SharedArrayBuffer(4));
  while (fs.existsSync(awaited) && !fs.existsSync(fs.readFileSync(awaited, 'utf8'))) { Atomics.wait(wait, 0, 0, 20); }
  if (fs.existsSync(path.join(from, 'broken'))) { console.error('ConfigError: region: is missing'); process.exit(1); }
  fs.cpSync(from, after('--output'), {recursive: true});
} else {
  console.log('Stack ' + rest[0]);
  console.error('[~] differs from ' + path.basename(path.dirname(after('--template'))));
}
"""


class Checkout:
    """A directory that `ops review` accepts as a checkout of the project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("node_modules/aws-cdk/bin/cdk", CDK)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def environment(self, name: str, **stacks: dict[str, Any]) -> None:
        self.write(f"environments/{name}.yaml", "")
        for stack, template in stacks.items():
            self.write(f"templates/{name}/{stack}.template.json", json.dumps(template))

    def synthesised(self) -> dict[str, list[str]]:
        """Return the context of each synthesis by environment."""
        return {path.name: json.loads(path.read_text()) for path in (self.root / "cdk.out").glob("*")}


@pytest.fixture
def base(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "base")


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    # The command's own checkout is a default argument, which tests replace: base, head, context.
    monkeypatch.setattr(review.review, "__defaults__", (tmp_path / "head", None))
    return Checkout(tmp_path / "head")


# The prefix of a progress line.
SECONDS = re.compile(r"^ *[0-9]+\.[0-9] s  ")


def run(base: Checkout, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["review", str(base.root), *arguments])


def test_changed_new_and_removed_stacks_are_reported(base: Checkout, head: Checkout) -> None:
    base.environment("dev", network={"a": 1}, storage={"a": 1}, old={"a": 1})
    head.environment("dev", network={"a": 2}, storage={"a": 1}, new={"a": 1})
    result = run(base)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "## What this changes\n\n### dev\n\n<details open><summary>CloudFormation</summary>"
    )
    assert "Stack network\n[~] differs from base" in result.stdout
    assert "Stack new is new" in result.stdout
    assert "Stack old is removed" in result.stdout
    assert "storage" not in result.stdout


def hyperpod(**counts: int) -> dict[str, Any]:
    """Return a template with a HyperPod cluster of these groups."""
    groups = [{"InstanceGroupName": name, "InstanceCount": count} for name, count in counts.items()]
    return {"Resources": {"Cluster": {"Type": "Custom::HyperPodCluster", "Properties": {"InstanceGroups": groups}}}}


def test_removing_nodes_is_warned_of_with_the_command_that_drains_them(base: Checkout, head: Checkout) -> None:
    base.environment("dev", hyperpod=hyperpod(head=1, workers=4, spare=2))
    head.environment("dev", hyperpod=hyperpod(head=1, workers=2))
    text = run(base).stdout
    assert "> [!WARNING]\n> **Instance group workers goes from 4 to 2 nodes.**" in text
    assert "first run `ops scale workers 2 --env dev`" in text
    assert "nodes outside the stack, the deployment is refused" in text
    assert "**Instance group spare is removed with its 2 nodes**" in text
    assert text.count("[!WARNING]") == 2


def test_more_nodes_and_new_groups_are_no_warning(base: Checkout, head: Checkout) -> None:
    base.environment("dev", hyperpod=hyperpod(workers=4))
    head.environment("dev", hyperpod=hyperpod(workers=5, spare=2))
    assert "WARNING" not in run(base).stdout


def storage(*, throughput: int = 250, **lustre: Any) -> dict[str, Any]:
    """Return a template with a file system of these settings."""
    properties = {
        "SubnetIds": ["subnet-1"],
        "StorageCapacity": lustre.pop("capacity", 1200),
        "LustreConfiguration": {"PerUnitStorageThroughput": throughput, "DataCompressionType": "LZ4", **lustre},
    }
    return {"Resources": {"Shared": {"Type": "AWS::FSx::FileSystem", "Properties": properties}}}


def test_a_file_system_that_would_be_replaced_is_warned_of_with_what_replaces_it(
    base: Checkout, head: Checkout
) -> None:
    base.environment("dev", storage=storage(throughput=250))
    head.environment("dev", storage=storage(throughput=500))
    text = run(base).stdout
    assert "> [!WARNING]\n> **File system Shared is replaced** (PerUnitStorageThroughput)" in text
    assert "refuses this while the ray stack uses the old file system" in text
    assert text.count("[!WARNING]") == 1


def test_efa_of_an_existing_file_system_is_warned_of(base: Checkout, head: Checkout) -> None:
    base.environment("dev", storage=storage())
    head.environment("dev", storage=storage(EfaEnabled=True))
    text = run(base).stdout
    assert "> [!WARNING]\n> **File system Shared changes EfaEnabled**" in text
    assert text.count("[!WARNING]") == 1


def test_growth_compression_and_a_first_file_system_are_no_warning(base: Checkout, head: Checkout) -> None:
    base.environment("dev", storage=storage())
    head.environment("dev", storage=storage(capacity=2400, DataCompressionType="NONE"))
    base.environment("other", storage={"Resources": {}})
    head.environment("other", storage=storage(EfaEnabled=True))
    assert "WARNING" not in run(base).stdout


def test_manifests_are_compared_line_by_line(base: Checkout, head: Checkout) -> None:
    for checkout, replicas in ((base, 4), (head, 5)):
        checkout.environment("dev", network={})
        checkout.write("manifests/dev/ray/clusters/rayml.yaml", f"kind: RayCluster\nreplicas: {replicas}\n")
    base.write("manifests/dev/ray/gone.yaml", "kind: Job\n")
    text = run(base).stdout
    assert "--- a/ray/clusters/rayml.yaml\n+++ b/ray/clusters/rayml.yaml" in text
    assert "-replicas: 4\n+replicas: 5" in text
    assert "-kind: Job" in text


def test_added_and_removed_environments_are_reported(base: Checkout, head: Checkout) -> None:
    base.environment("old", network={})
    head.environment("new", network={})
    text = run(base).stdout
    assert "### new" in text
    assert "Stack network is new" in text
    assert "### old\n\n**The environment is removed**" in text


def test_context_reaches_both_syntheses(base: Checkout, head: Checkout) -> None:
    for checkout in (base, head):
        checkout.environment("dev", network={})
        checkout.write("app.py", checkout.root.name)
    assert run(base, "-c", "charts=stand-in").exit_code == 0
    for checkout in (base, head):
        assert checkout.synthesised() == {"dev": ["environment=dev", "charts=stand-in"]}


def test_an_environment_without_a_changed_input_is_not_synthesised(base: Checkout, head: Checkout) -> None:
    for checkout in (base, head):
        for name in ("dev", "prod"):
            checkout.environment(name, network={})
    head.write("environments/prod.yaml", "# another")
    result = run(base)
    assert base.synthesised().keys() == head.synthesised().keys() == {"prod"}
    assert "### dev\n\n**CloudFormation**: Unchanged: no input of its synthesis changed.\n" in result.stdout
    assert "### prod\n\n**CloudFormation**: No stack changes.\n" in result.stdout


def test_both_sides_are_synthesised_at_once(base: Checkout, head: Checkout) -> None:
    """Each synthesis waits until the other has started."""
    for checkout, other in ((base, head), (head, base)):
        checkout.environment("dev", network={"a": checkout.root.name})
        checkout.write("templates/dev/waits-for", str(other.root / "cdk.out" / "dev"))
    result = run(base)
    assert result.exit_code == 0, result.output
    assert "Stack network\n[~] differs from base" in result.stdout


def test_progress_is_plain_lines_on_stderr(base: Checkout, head: Checkout) -> None:
    for checkout in (base, head):
        checkout.environment("dev", network={"a": checkout.root.name})
        checkout.environment("prod", network={})
        checkout.write("environments/prod.yaml", "")
    result = run(base)
    lines = result.stderr.splitlines()
    assert all(SECONDS.match(line) for line in lines)
    first, *others = [SECONDS.sub("", line) for line in lines]
    assert first == "environments with changed inputs: dev, prod; unchanged: 0"
    synthesised = [f"{name}: {side} synthesised" for name in ("dev", "prod") for side in ("base", "head")]
    assert sorted(others) == sorted([*synthesised, "network: compared"])
    assert result.stdout.startswith("## What this changes\n")
    assert "synthesised" not in result.stdout


def test_a_checkout_that_does_not_synthesise_is_named_with_its_error(base: Checkout, head: Checkout) -> None:
    base.environment("dev", network={})
    head.environment("dev", network={})
    head.write("templates/dev/broken", "")
    result = run(base)
    assert result.exit_code == 2
    assert f"`cdk synth` in {head.root} failed. Fix: the cause" in result.stderr
    assert "that it names last:\nConfigError: region: is missing" in result.stderr
    assert "Traceback" not in result.output


def test_an_error_on_the_base_alone_names_the_base_and_prints_no_review(base: Checkout, head: Checkout) -> None:
    base.environment("dev", network={})
    head.environment("dev", network={})
    base.write("templates/dev/broken", "")
    result = run(base)
    assert result.exit_code == 2
    assert f"`cdk synth` in {base.root} failed. Fix: the cause" in result.stderr
    assert "that it names last:\nConfigError: region: is missing" in result.stderr
    assert "head synthesised" in result.stderr
    assert "base synthesised" not in result.stderr
    assert result.stdout == ""


def test_after_an_error_no_further_program_begins() -> None:
    waiting = threading.Event()
    with suppress(ReviewError), review_templates.worker_threads(1) as workers:
        running = workers.submit(waiting.wait, PATIENCE)
        queued = workers.submit(str)
        queued.add_done_callback(lambda _: waiting.set())
        raise ReviewError
    assert running.result()
    assert queued.cancelled()


def test_a_checkout_that_was_not_set_up_is_named(base: Checkout, head: Checkout) -> None:
    for checkout in (base, head):
        checkout.environment("dev", network={})
    (base.root / "node_modules/aws-cdk/bin/cdk").unlink()
    result = run(base)
    assert result.exit_code == 2
    assert result.stderr == f"error: {base.root} has no CDK CLI. Fix: run `./setup.sh runtime` there\n"


def test_a_directory_that_is_no_checkout_is_refused(head: Checkout, tmp_path: Path) -> None:
    result = run(Checkout(tmp_path / "empty"))
    assert result.exit_code == 2
    assert result.stderr == f"error: {tmp_path / 'empty'} has no environments/. Allowed: a checkout of this project\n"


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["review", str(tmp_path / "nowhere")])
    assert result.exit_code == 2
    assert "does not exist" in " ".join(result.stderr.replace("│", " ").split())


def test_a_context_without_a_value_is_refused(base: Checkout, head: Checkout) -> None:
    result = run(base, "-c", "charts")
    assert result.exit_code == 2
    assert result.stderr == "error: --context: 'charts' is invalid. Allowed: KEY=VALUE\n"


def test_a_long_review_is_cut_to_what_a_comment_holds(base: Checkout, head: Checkout) -> None:
    for checkout, letter in ((base, "a"), (head, "b")):
        checkout.environment("dev", network={})
        checkout.write("manifests/dev/big.yaml", f"{letter}\n" * 40_000)
    whole = run(base).stdout
    assert whole.count("\n+b") == 40_000
    text = run(base, "--comment").stdout
    assert len(text) < 65_536
    assert text.endswith("_Cut here: `ops review BASE` shows all of it._\n")
    assert text.count("<details") == text.count("</details>")
