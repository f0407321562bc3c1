"""The workflows: pinned actions, least permissions, and the issue that drift opens."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.paths import REPOSITORY

GITHUB = REPOSITORY / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
STEPS = [*WORKFLOWS, *sorted(GITHUB.glob("actions/*/action.yml"))]
GH = """#!{python}
import json, os, sys
from pathlib import Path
file = Path(os.environ["ISSUES"])
issues = json.loads(file.read_text())
command, arguments = sys.argv[1:3], sys.argv[3:]
def option(name):
    return arguments[arguments.index(name) + 1]
match command:
    case ["issue", "list"]:
        print(json.dumps([issue for issue in issues if issue["open"] and option("--label") in issue["labels"]]))
    case ["issue", "create"]:
        body = Path(option("--body-file")).read_text()
        issue = {{"title": option("--title"), "labels": [option("--label")], "body": body, "open": True}}
        issues.append(issue | {{"number": len(issues) + 1}})
    case ["issue", "edit"]:
        issues[int(arguments[0]) - 1]["body"] = Path(option("--body-file")).read_text()
    case ["issue", "close"]:
        issues[int(arguments[0]) - 1]["open"] = False
    case ["label", "create"]:
        assert "--force" in arguments, "GitHub refuses a label that exists"
    case other:
        sys.exit(f"gh: {{other}} is unknown")
file.write_text(json.dumps(issues))
"""
"""GitHub's command line, with the issues in a file."""


def workflow(name: str) -> Any:
    return yaml.safe_load((GITHUB / "workflows" / f"{name}.yml").read_text())


def triggers(document: Any) -> Any:
    # YAML 1.1 reads the key `on` as true.
    return document[True]


@pytest.mark.parametrize("file", STEPS, ids=lambda file: str(file.relative_to(GITHUB)))
def test_every_action_is_pinned_by_a_digest_with_its_version(file: Path) -> None:
    used = re.findall(r"uses: (\S+)(?: +# *(\S+))?$", file.read_text(), re.MULTILINE)
    for action, version in used:
        if not action.startswith("./"):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
            assert re.fullmatch(r"v\d+\.\d+\.\d+", version), action


def test_an_action_has_one_version_everywhere() -> None:
    used = {found for file in STEPS for found in re.findall(r"uses: ([\w./-]+)@(\w+)", file.read_text())}
    assert len({action for action, _ in used}) == len(used)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_job_has_only_the_permissions_that_it_names(file: Path) -> None:
    document = workflow(file.stem)
    assert document["permissions"] == {}
    assert "pull_request_target" not in triggers(document), "it would run a fork's code with this repository's token"
    for name, job in document["jobs"].items():
        assert job.get("timeout-minutes"), name
        assert job.get("permissions", {}).get("contents") != "write", name
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False, name


def test_only_jobs_in_an_environment_get_credentials_of_aws() -> None:
    with_token = {
        (file.stem, name): job
        for file in WORKFLOWS
        for name, job in workflow(file.stem)["jobs"].items()
        if "id-token" in job.get("permissions", {})
    }
    assert {key: job["environment"] for key, job in with_token.items()} == {
        ("deploy", "plan"): "${{ inputs.environment }}-read",
        ("deploy", "deploy"): "${{ inputs.environment }}",
        ("drift", "drift"): "${{ matrix.environment }}-read",
    }
    texts = "".join(file.read_text() for file in WORKFLOWS)
    assert "secrets." not in texts, "OIDC needs no secret"


def test_a_deployment_is_never_cancelled_and_excludes_others_of_its_environment() -> None:
    document = workflow("deploy")
    assert document["concurrency"] == {"group": "deploy-${{ inputs.environment }}", "cancel-in-progress": False}
    assert list(triggers(document)) == ["workflow_dispatch"]
    assert document["jobs"]["inputs"]["if"] == "github.ref_name == github.event.repository.default_branch"
    assert document["jobs"]["plan"]["needs"] == "inputs"
    assert document["jobs"]["deploy"]["needs"] == "plan"


def test_a_deployment_does_what_was_approved_and_verifies_it() -> None:
    steps = workflow("deploy")["jobs"]["deploy"]["steps"]
    scripts = "\n".join(step.get("run", step.get("uses", "")) for step in steps)
    order = [
        "ops check",
        "ops charts fetch",
        "cdk synth",
        "configure-aws-credentials",
        "--expect",
        "cdk deploy",
        "ops wait",
        "ops isolation-check",
    ]
    places = [scripts.index(each) for each in order]
    assert places == sorted(places)
    [compare] = [step for step in steps if "--expect" in step.get("run", "")]
    assert compare["env"] == {"DIGEST": "${{ needs.plan.outputs.digest }}"}
    # The same folder is planned and deployed.
    assert "--app cdk.out" in scripts


@pytest.mark.parametrize(
    ("name", "accepted"),
    [("dev", True), ("other", False), ("../dev", False), ("dev; id", False), ("$(id)", False), ("", False)],
)
def test_a_wrong_name_of_an_environment_starts_nothing(name: str, accepted: bool, tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "dev.yaml").touch()
    [step] = [step for step in workflow("deploy")["jobs"]["inputs"]["steps"] if "run" in step]
    argv = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
    done = subprocess.run(argv, cwd=tmp_path, env=os.environ | {"ENVIRONMENT": name}, check=False, capture_output=True)
    assert (done.returncode == 0) is accepted


class Issues:
    """The issues of a repository, and the script that keeps the one of an environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "issues.json"
        self.file.write_text("[]")
        program = directory / "gh"
        program.write_text(GH.format(python=sys.executable))
        program.chmod(0o755)

    def report(self, environment: str, *details: str) -> list[tuple[str, bool]]:
        """Run the script with this drift; return the title of every issue, and whether it is open."""
        drift = [{"kind": "Helm release", "name": "a/b", "detail": detail} for detail in details]
        (self.directory / "drift.json").write_text(json.dumps({"environment": environment, "drift": drift}))
        script = GITHUB / "drift-issue.sh"
        env = os.environ | {"PATH": f"{self.directory}:{os.environ['PATH']}", "ISSUES": str(self.file)}
        subprocess.run([script, environment, self.directory / "drift.json"], env=env, check=True)
        return [(issue["title"], issue["open"]) for issue in self.all()]

    def all(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.file.read_text())
        return found


def test_drift_has_one_issue_for_each_environment_until_it_is_gone(tmp_path: Path) -> None:
    issues = Issues(tmp_path)
    assert issues.report("dev") == [], "no drift, no issue"
    assert issues.report("dev", "first") == [("Drift in dev", True)]
    assert issues.report("dev", "second") == [("Drift in dev", True)], "updated, not opened again"
    assert "second" in issues.all()[0]["body"]
    assert issues.report("prod", "third") == [("Drift in dev", True), ("Drift in prod", True)]
    assert issues.report("dev") == [("Drift in dev", False), ("Drift in prod", True)]
    assert issues.report("dev", "again")[-1] == ("Drift in dev", True)


def test_what_the_account_says_stays_code_in_the_issue(tmp_path: Path) -> None:
    issues = Issues(tmp_path)
    issues.report("dev", "~~~~\n@everyone [link](x)", "x" * 70_000)
    [issue] = issues.all()
    assert len(issue["body"]) < 65_536
    assert issue["body"].count("~~~~") == 2, "the text can end no fence"
