"""The workflows: pinned actions, least permissions, and what a deployment does."""

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.facts import support
from rehearsal.paths import REPOSITORY
from tests import skips

GITHUB = REPOSITORY / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
STEPS = [*WORKFLOWS, *sorted(GITHUB.glob("actions/*/action.yml"))]


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
        if job.get("permissions", {}).get("contents") == "write":
            assert (file.stem, name) == ("release", "publish")
            assert not [step for step in job["steps"] if "uses" in step], (
                "it would run code with a token that may write"
            )
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False, name


def test_a_release_names_its_programs_as_a_rehearsal_takes_them(tmp_path: Path) -> None:
    programs = tmp_path / "served.zip"
    programs.write_bytes(b"programs")
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\necho "$*" >> calls\n[ "$1" != run ] || cp served.zip rehearsal-programs.zip\n')
    gh.chmod(0o755)
    [step] = workflow("release")["jobs"]["publish"]["steps"]
    env = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "GITHUB_RUN_ID": "7",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "company/platform",
        "GITHUB_REF_NAME": "v0.2.0",
    }
    argv = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
    subprocess.run(argv, env=env, cwd=tmp_path, check=True)
    [said] = re.findall(r"export REHEARSAL_PROGRAMS=(\S+)", (tmp_path / "notes.md").read_text())
    url, _, digest = said.partition("#sha256=")
    assert url == "https://github.com/company/platform/releases/download/v0.2.0/rehearsal-programs.zip"
    assert digest == hashlib.sha256(b"programs").hexdigest()
    download, create = (tmp_path / "calls").read_text().splitlines()
    assert download == "run download 7 --repo company/platform --name programs"
    assert create.startswith("release create v0.2.0 rehearsal-programs.zip --repo company/platform --verify-tag ")


def test_what_skips_elsewhere_must_run_in_a_nightly_job() -> None:
    document = workflow("nightly")
    assert document["env"] == {skips.STRICT: "1", support.TODAY_VARIABLE: support.table()["date"]}
    job = document["jobs"]["debian"]
    assert re.fullmatch(r"debian:12@sha256:[0-9a-f]{64}", job["container"]["image"])
    assert "if" not in job
    assert not [step for step in job["steps"] if {"if", "continue-on-error"} & step.keys()]
    assert job["steps"][-1]["run"] == "make test-debian"
    recipe = (REPOSITORY / "Makefile").read_text().partition("\ntest-debian:")[2].partition("\n\n")[0]
    assert recipe.count("TEST_STRICT=1") == recipe.count("-m 'sampled or not sampled'") == 2
    wanted = {each.tests.rstrip("/*") for each in skips.allowed() if "`debian`" in each.why}
    assert wanted == set(re.findall(r" (tests/\S+)", recipe))


@pytest.mark.parametrize(
    ("code", "said", "green"),
    [(0, "real Slurm 22.05.8", True), (0, "NOT RUN real Slurm: this machine", False), (1, "real Slurm 22.05.8", False)],
)
def test_nightly_rehearsal_without_real_slurm_fails(code: int, said: str, green: bool, tmp_path: Path) -> None:
    [step] = [step for step in workflow("nightly")["jobs"]["debian"]["steps"] if "rehearse" in step.get("run", "")]
    program = tmp_path / "make"
    program.write_text(f"#!/bin/sh\necho '{said}'\nexit {code}\n")
    program.chmod(0o755)
    env = os.environ | {"RUNNER_TEMP": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = [step["shell"], "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    assert (subprocess.run(argv, env=env, check=False, capture_output=True).returncode == 0) is green


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


def test_base_judges_a_pull_request() -> None:
    """A pull request may change `ops gate`, so its own must not decide. The attacks: test_pull_request_attacks.py."""
    document = workflow("ci")
    assert {"pull_request", "merge_group"} < triggers(document).keys()
    jobs = document["jobs"]
    assert jobs["gate"]["if"] == jobs["synthesis"]["if"] == "github.event_name != 'push'"
    assert jobs["gate"]["needs"] == "synthesis"
    steps = {step.get("name"): step for step in jobs["gate"]["steps"]}
    assert steps["Take the base out of the merge commit"]["env"]["BASE"] == (
        "${{ github.event.merge_group.base_sha || 'HEAD^1' }}"
    )
    assert not {"if", "continue-on-error"} & steps["Judge"].keys()
    assert sum(file.read_text().count("ops.gate.pull_request") for file in WORKFLOWS) == 1, "no other job decides"


@pytest.mark.parametrize("code", [0, 1, 2])
def test_verdict_of_the_base_is_the_jobs(code: int, tmp_path: Path) -> None:
    program = tmp_path / "base" / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho "$*"\nexit {code}\n')
    program.chmod(0o755)
    [step] = [step for step in workflow("ci")["jobs"]["gate"]["steps"] if step.get("name") == "Judge"]
    argv = ["bash", "-e", "-c", step["run"]]
    cwd, env = tmp_path / step["working-directory"], os.environ | {"RUNNER_TEMP": "/t"}
    done = subprocess.run(argv, cwd=cwd, env=env, check=False, capture_output=True, text=True)
    stop, said, resume = done.stdout.splitlines()
    assert (done.returncode, said) == (code, "-m ops.gate.pull_request ../head /t/assemblies /t/report")
    assert stop.removeprefix("::stop-commands") == resume.removesuffix("::")
    assert len(resume) > 36, "nobody can guess it"


@pytest.mark.parametrize(
    ("event", "tiers", "gate", "green"),
    [
        ("pull_request", "success", "success", True),
        ("pull_request", "success", "failure", False),
        ("pull_request", "success", "skipped", False),
        ("pull_request", "success", "cancelled", False),
        ("pull_request", "failure", "success", False),
        ("merge_group", "success", "skipped", False),
        ("push", "success", "skipped", True),
        ("push", "success", "failure", False),
        ("push", "failure", "skipped", False),
        ("push", "skipped", "skipped", False),
    ],
)
def test_required_check_needs_the_tiers_and_the_gate(event: str, tiers: str, gate: str, green: bool) -> None:
    job = workflow("ci")["jobs"]["green"]
    assert set(job["needs"]) == {"tier", "gate"}
    [step] = job["steps"]
    results = {"github.event_name": event, "needs.gate.result": gate, "needs.tier.result": tiers}
    env = {name: results[text.strip("${ }")] for name, text in step["env"].items()}
    argv = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
    assert (subprocess.run(argv, env=os.environ | env, check=False).returncode == 0) is green


def test_a_deployment_is_never_cancelled_and_excludes_others_of_its_environment() -> None:
    document = workflow("deploy")
    assert document["concurrency"] == {"group": "deploy-${{ inputs.environment }}", "cancel-in-progress": False}
    assert list(triggers(document)) == ["workflow_dispatch"]
    only = "github.ref == format('refs/heads/{0}', github.event.repository.default_branch)"
    assert document["jobs"]["inputs"]["if"] == only, "a tag may have the branch's name"
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
        "ops smoke",
    ]
    places = [scripts.index(each) for each in order]
    assert places == sorted(places)
    [compare] = [step for step in steps if "--expect" in step.get("run", "")]
    assert compare["env"] == {"DIGEST": "${{ needs.plan.outputs.digest }}"}
    # The same folder is planned and deployed; one stack after another would take 13 minutes more.
    assert "--app cdk.out --concurrency 3" in scripts


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


def test_plan_of_a_deployment_is_handed_on_by_its_digest(tmp_path: Path) -> None:
    [step] = [step for step in workflow("deploy")["jobs"]["plan"]["steps"] if step.get("id") == "plan"]
    program = tmp_path / ".venv" / "bin" / "ops"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nprintf 'stack  change\\nrayhp-dev-eks  add\\ndigest: 5d41\\n'\n")
    program.chmod(0o755)
    written = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    env = os.environ | {"ENVIRONMENT": "dev", "RUNNER_TEMP": str(tmp_path)} | {k: str(v) for k, v in written.items()}
    argv = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
    subprocess.run(argv, cwd=tmp_path, env=env, check=True)
    assert written["GITHUB_OUTPUT"].read_text() == "digest=5d41\n"
    assert "rayhp-dev-eks  add" in written["GITHUB_STEP_SUMMARY"].read_text()
