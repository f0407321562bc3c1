"""`ops review` with a fake CDK CLI that copies templates; tests/synth uses the real CLI."""

import hashlib
import json
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from config.facts import charts_lock
from ops.commands.whole import app
from ops.review import review
from ops.review.assembly import Pair, resource_changes
from ops.review.checkouts import syntheses
from ops.review.checkouts.cdk import ReviewError
from ops.review.checkouts.inputs import fingerprint
from ops.review.data import from_file
from ops.review.model import Change, Effect, EnvironmentVerdict
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.ops.review.checkouts import Checkout


@pytest.fixture
def base(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "base")


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    # The command's own checkout is a default argument, which tests replace: base, head, context.
    monkeypatch.setattr(review.review, "__defaults__", (tmp_path / "head", None))
    monkeypatch.setattr(review, "verdict_on", verdict_on)
    return Checkout(tmp_path / "head")


def verdict_on(pair: Pair) -> EnvironmentVerdict:
    """Return a change for each resource that differs; those of the stack `storage` are replaced."""
    changes = []
    for each in resource_changes(pair):
        effect = Effect.REPLACED if each.stack == "storage" else Effect.IN_PLACE
        what = "created" if each.before is None else "removed" if each.after is None else "changed"
        changes.append(Change(each.stack, each.logical_id, f"{each.type} of {each.stack}", what, effect))
    return EnvironmentVerdict(pair.environment, tuple(sorted(changes, key=lambda change: change.effect.rank)))


# The prefix of a progress line.
SECONDS = re.compile(r"^ *[0-9]+\.[0-9] s  ")


def run(base: Checkout, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["review", str(base.root), *arguments])


def verdicts(base: Checkout, *arguments: str) -> dict[str, Any]:
    """Return the environments of the review as JSON, by name in their order."""
    result = run(base, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return {each["name"]: each for each in json.loads(result.stdout)["environments"]}


def changes(verdict: Any) -> list[str]:
    return [f"{change['title']}: {change['what']}: {change['effect']}" for change in verdict["changes"]]


def test_changed_new_and_removed_stacks_are_reviewed(base: Checkout, head: Checkout) -> None:
    base.environment("dev", network={"a": 1}, storage={"a": 1}, old={"a": 1})
    head.environment("dev", network={"a": 2}, storage={"a": 1}, new={"a": 1})
    head.write("app.py", "changed")
    assert changes(verdicts(base)["dev"]) == [
        "AWS::X::Y of network: changed: in place",
        "AWS::X::Y of old: removed: in place",
        "AWS::X::Y of new: created: in place",
    ]


def test_the_worst_environment_comes_first(base: Checkout, head: Checkout) -> None:
    for name, stack in (("a", "ray"), ("b", "storage"), ("c", "ray")):
        base.environment(name, **{stack: {"a": 1}})
        head.environment(name, **{stack: {"a": 2}})
    head.write("app.py", "changed")
    assert list(verdicts(base)) == ["b", "a", "c"]


def test_added_and_removed_environments_are_reviewed(base: Checkout, head: Checkout) -> None:
    base.environment("old", network={})
    head.environment("new", network={})
    found = verdicts(base)
    assert changes(found["new"]) == ["AWS::X::Y of network: created: in place"]
    [removed] = found["old"]["changes"]
    assert removed["effect"] == "kept, but no longer managed"
    assert removed["action"] == (
        "Operator, before the deployment: run `ops destroy --env old` from a checkout that has its file."
    )
    assert len(removed["digest"]) == 64
    base.write("environments/old.yaml", "# another")
    assert verdicts(base)["old"]["changes"][0]["digest"] != removed["digest"]


def test_verdict_names_what_was_compared(base: Checkout, head: Checkout) -> None:
    for checkout in (base, head):
        checkout.environment("dev", network={"a": checkout.root.name})
        checkout.environment("prod", network={})
    compared = json.loads(run(base, "--json", "-c", "charts=stand-in").stdout)["compared"]
    assert compared == {
        "base": fingerprint(base.root),
        "head": fingerprint(head.root),
        "context": {"charts": "stand-in"},
        "every_environment": True,
    }
    assert json.loads(run(base, "--json", "--env", "dev").stdout)["compared"]["every_environment"] is False


def test_env_limits_the_review(base: Checkout, head: Checkout) -> None:
    for name in ("dev", "prod", "small"):
        base.environment(name, network={"a": 1})
        head.environment(name, network={"a": 2})
    head.write("app.py", "changed")
    assert list(verdicts(base, "--env", "dev", "--env", "prod.yaml")) == ["dev", "prod"]
    assert head.synthesised().keys() == {"dev", "prod"}


def test_an_environment_that_no_checkout_has_is_refused(base: Checkout, head: Checkout) -> None:
    for checkout in (base, head):
        checkout.environment("dev", network={})
    result = run(base, "--env", "prdo")
    assert result.exit_code == 2
    assert result.stderr == ("error: no checkout has the environment prdo. Allowed: dev. Fix: correct --env\n")


def test_context_reaches_both_syntheses(base: Checkout, head: Checkout) -> None:
    for checkout in (base, head):
        checkout.environment("dev", network={})
        checkout.write("app.py", checkout.root.name)
    assert run(base, "-c", "charts=stand-in").exit_code == 0
    for checkout in (base, head):
        assert checkout.synthesised() == {"dev": ["environment=dev", "charts=stand-in"]}


LOCK = "charts:\n  - {{name: alone, version: {version}, url: 'https://charts.example.com/a.tgz', sha256: {digest}}}\n"


@pytest.fixture
def charts(base: Checkout, head: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of charts; both sides have an environment that differs and lock one chart."""
    for checkout in (base, head):
        checkout.environment("dev", network={"a": checkout.root.name})
        checkout.write("environments/dev.yaml", f"project: {checkout.root.name}\n")
        lock_chart(checkout, "1.0.0")
    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(tmp_path / "charts"))
    monkeypatch.delenv(charts_lock.STAND_IN_VARIABLE, raising=False)
    (tmp_path / "charts").mkdir()
    return tmp_path / "charts"


def lock_chart(checkout: Checkout, version: str) -> None:
    digest = hashlib.sha256(version.encode()).hexdigest()
    checkout.write("config/facts/charts.lock.yaml", LOCK.format(version=version, digest=digest))


def test_missing_charts_are_one_message_before_anything_is_synthesised(
    base: Checkout, head: Checkout, charts: Path
) -> None:
    result = run(base)
    assert (result.exit_code, result.stdout) == (2, "")
    named = f"Helm charts are missing or altered in {charts}: alone 1.0.0"
    fix = f"run `cd {head.root} && .venv/bin/ops charts fetch`"
    assert result.stderr == f"error: {named}. Fix: {fix}\n"
    assert not (head.root / "cdk.out").exists()


def test_both_sides_are_named_if_their_locks_differ(base: Checkout, head: Checkout, charts: Path) -> None:
    lock_chart(base, "0.9.0")
    stderr = run(base).stderr
    fetches = " and ".join(f"`cd {side.root} && .venv/bin/ops charts fetch`" for side in (base, head))
    assert stderr == (
        f"error: Helm charts are missing or altered in {charts}: alone 0.9.0, alone 1.0.0. Fix: run {fetches}\n"
    )


def test_charts_that_nothing_synthesises_are_not_required(
    base: Checkout, head: Checkout, charts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(base, "-c", "charts=stand-in").exit_code == 0
    monkeypatch.setenv(charts_lock.STAND_IN_VARIABLE, str(charts))
    assert run(base).exit_code == 0
    monkeypatch.delenv(charts_lock.STAND_IN_VARIABLE)
    for checkout in (base, head):
        checkout.write("environments/dev.yaml", f"project: {checkout.root.name}\nslurm: {{}}\n")
    assert run(base).exit_code == 0


@pytest.mark.parametrize("lock", ["form: other\n", "charts: [{name: alone, tree: new}]\n"])
def test_a_lock_of_another_form_is_left_to_its_checkout(
    base: Checkout, head: Checkout, charts: Path, lock: str
) -> None:
    for checkout in (base, head):
        checkout.write("config/facts/charts.lock.yaml", lock)
    assert run(base).exit_code == 0


def test_fetched_charts_are_enough(base: Checkout, charts: Path) -> None:
    (charts / "alone-1.0.0.tgz").write_text("1.0.0")
    assert run(base).exit_code == 0


def test_an_environment_without_a_changed_input_is_not_synthesised(base: Checkout, head: Checkout) -> None:
    for checkout in (base, head):
        for name in ("dev", "prod"):
            checkout.environment(name, network={})
    head.write("environments/prod.yaml", "# another")
    result = run(base)
    assert base.synthesised().keys() == head.synthesised().keys() == {"prod"}
    unchanged = "**nothing**<br>Costs are unchanged. | nobody |"
    assert f"| prod | **nothing that runs** | {unchanged}" in result.stdout
    assert f"| dev | **nothing: no input of the synthesis differs** | {unchanged}" in result.stdout


def test_both_sides_are_synthesised_at_once(base: Checkout, head: Checkout) -> None:
    """Each synthesis waits until the other has started."""
    for checkout, other in ((base, head), (head, base)):
        checkout.environment("dev", network={"a": checkout.root.name})
        checkout.write("templates/dev/waits-for", str(other.root / "cdk.out" / "dev"))
    result = run(base)
    assert result.exit_code == 0, result.output
    assert "**AWS::X::Y of network**: changed" in result.stdout


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
    assert sorted(others) == sorted([*synthesised, "dev: compared", "prod: compared"])
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
    with suppress(ReviewError), syntheses.worker_threads(1) as workers:
        running = workers.submit(waiting.wait, PATIENCE_SECONDS)
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


def differing(base: Checkout, head: Checkout) -> None:
    for checkout in (base, head):
        checkout.environment("dev", network={"a": checkout.root.name})
    head.write("app.py", "changed")


def test_one_run_writes_each_format(base: Checkout, head: Checkout, tmp_path: Path) -> None:
    differing(base, head)
    files = {suffix: tmp_path / f"review.{suffix}" for suffix in ("html", "md", "json")}
    result = run(base, "--comment", *(part for file in files.values() for part in ("--out", str(file))))
    assert result.exit_code == 0, result.output
    assert f"Full report: `{files['html']}`" in result.stdout
    assert files["html"].read_text().startswith("<!doctype html>")
    assert files["md"].read_text().startswith("## What this changes")
    assert [each.name for each in from_file(files["json"]).environments] == ["dev"]


@pytest.mark.parametrize(
    ("format_", "start"), [("markdown", "## What"), ("html", "<!doctype"), ("json", "{"), ("terminal", "This pull")]
)
def test_format_chooses_the_output(base: Checkout, head: Checkout, format_: str, start: str) -> None:
    differing(base, head)
    assert run(base, "--format", format_).stdout.startswith(start)


def test_full_report_is_linked_in_a_comment(base: Checkout, head: Checkout) -> None:
    differing(base, head)
    text = run(base, "--comment", "--full-report", "https://example.com/1#artifacts").stdout
    assert "Full report: [the full report](https://example.com/1#artifacts)" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--json", "--comment"), "--json and --comment exclude each other. Fix: give one of them"),
        (("--json", "--format", "html"), "--json and --format html exclude each other. Fix: give one of them"),
        (("--out", "a.txt"), "--out: a.txt is invalid. Allowed: a file that ends with .md, .html, .json"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    base: Checkout, head: Checkout, arguments: tuple[str, ...], message: str
) -> None:
    differing(base, head)
    result = run(base, *arguments)
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")


def test_a_file_that_cannot_be_written_is_named(base: Checkout, head: Checkout, tmp_path: Path) -> None:
    differing(base, head)
    result = run(base, "--out", str(tmp_path / "nowhere" / "review.html"))
    assert result.exit_code == 2
    assert "review.html cannot be written: No such file or directory. Fix: name a file" in result.stderr


def test_an_interrupted_review_has_no_verdict(base: Checkout, head: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(pair: Pair) -> EnvironmentVerdict:
        raise KeyboardInterrupt

    differing(base, head)
    monkeypatch.setattr(review, "verdict_on", interrupt)
    result = run(base, "--json")
    assert (result.exit_code, result.stdout) == (130, "")
    assert "error: interrupted: no verdict. Fix: rerun `ops review`" in result.stderr
