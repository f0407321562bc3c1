"""Attacks of a pull request on the jobs that review it, typed as the workflow types them."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.paths import REPOSITORY
from tests.support import pull_requests
from tests.support.pull_requests import PullRequest, commit, git
from tests.unit.ops.review.checkouts import Checkout

BUCKET = "AWS::S3::Bucket"
JOBS = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
DRAWN = pytest.mark.sampled(8, of="attacks")
"""A run draws eight: each types whole jobs. Those without the marker always run."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pull_requests.origin(tmp_path_factory.mktemp("attacks") / "origin").root


@pytest.fixture
def attack(tmp_path: Path, template: Path) -> PullRequest:
    """Return a pull request that loses data."""
    made = PullRequest(tmp_path, template)
    bucket(made.author, "after")
    return made


def bucket(checkout: Checkout, name: str) -> None:
    checkout.environment("dev", BUCKET, storage={"BucketName": name})


def handed_over(attack: PullRequest, name: str) -> list[tuple[str, bytes]]:
    """Return an assembly with this bucket."""
    made = Checkout.__new__(Checkout)
    made.root = attack.directory / "handed-over"
    bucket(made, name)
    folder = made.root / "templates"
    return [(each.relative_to(folder).as_posix(), each.read_bytes()) for each in folder.rglob("*.json")]


def runner_commands(log: str) -> list[str]:
    """Return the commands that GitHub's runner would obey: at the start of a line, or older ones anywhere."""
    stopped, found = "", []
    for line in log.splitlines():
        for each in re.findall(r"^\s*::([\w-]+)(?: .*?)?::(.*)|##\[([\w-]+)", line):
            command = each[0] or each[2]
            if stopped:
                stopped = "" if command == stopped else stopped
            elif command == "stop-commands":
                stopped = each[1]
            else:
                found.append(line)
    return found


def test_the_gate_of_the_head_does_not_judge(attack: PullRequest) -> None:
    attack.author.write("ops/gate/decision.py", "raise SystemExit(0)\n")
    attack.author.write("ops/gate/pull_request.py", "raise SystemExit(0)\n")
    attack.author.write("ops/gate/comment.py", "raise SystemExit(0)\n")
    assert attack.run() == 1
    assert "STOPPED   dev: bucket Thing" in attack.log
    assert "**This pull request changes the gate, other files that may run: owners must read" in attack.own_comment


def test_nothing_of_the_head_runs_in_the_second_job(attack: PullRequest, tmp_path: Path) -> None:
    """Programs, modules, hooks, filters, submodules and large files, wherever a tool would find them."""
    ran = tmp_path / "ran"
    shell, python = f"#!/bin/sh\ntouch {ran}\n", f"open({str(ran)!r}, 'w')\n"
    root = attack.author.root
    for name in ("gh", "git", "python3", "node", "helm", "setup.sh", "bin/bash", "hooks/post-checkout", "filter"):
        attack.author.write(name, shell)
        (root / name).chmod(0o755)
    for name in ("yaml.py", "sitecustomize.py", "usercustomize.py", "pydantic.py", "ops/__init__.py", "app.py"):
        attack.author.write(name, python)
    for name in ("config/__init__.py", "ops/review/checkouts/python_start/sitecustomize.py", "conftest.py"):
        attack.author.write(name, python)
    attack.author.write("cdk.js", f"require('fs').writeFileSync({str(ran)!r}, '')")
    attack.author.write("cdk.json", json.dumps({"app": f"touch {ran}"}))
    attack.author.write(".gitattributes", "* filter=lfs diff=evil merge=evil ident\n")
    attack.author.write(".lfsconfig", "[lfs]\nurl = https://example.invalid\n")
    attack.author.write(".gitmodules", '[submodule "x"]\npath = x\nurl = ext::touch ran\nupdate = !touch ran\n')
    attack.author.write("pip.conf", "[global]\nindex-url = https://example.invalid\n")
    git(root, "config", "filter.lfs.clean", "cat")
    attack.merge()
    attack.hand_over(handed_over(attack, "after"))
    assert attack.job("gate") == 1, attack.log
    assert "STOPPED   dev: bucket Thing" in attack.log
    assert not ran.exists()


@DRAWN
def test_gitattributes_are_shown_to_owners(attack: PullRequest) -> None:
    """They can give a checkout other bytes than a diff shows."""
    attack.author.write(".gitattributes", "*.md text eol=crlf\n")
    attack.run()
    assert "+*.md text eol=crlf" in attack.own_comment


@DRAWN
@pytest.mark.parametrize("name", ["$(touch ran)", "-c evil", "..", "a\n::add-mask::closed", "\u202edev", "x" * 200])
def test_an_odd_name_of_an_environment_is_no_word_of_a_script(name: str, attack: PullRequest) -> None:
    attack.author.write(f"environments/{name}.yaml", "")
    assert attack.run(handed_over(attack, "after")) in {1, 2}
    assert not list(attack.directory.rglob("ran"))
    assert runner_commands(attack.log) == []


LINKS = {
    "environments/approvals/dev.yaml": "/proc/self/environ",
    "environments/more.yaml": "/etc/passwd",
    "lifecycle_scripts/eks/on.sh": "../../../base/setup.sh",
    "README.md": ".git/config",
    "docs/nowhere.md": "nothing",
    "docs/loop.md": "loop.md",
}


@DRAWN
@pytest.mark.parametrize("name", LINKS)
def test_a_link_out_of_the_head_is_refused(name: str, attack: PullRequest) -> None:
    link = attack.author.root / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(LINKS[name])
    assert attack.run(handed_over(attack, "before")) == 2
    assert f"git tracks links that lead out of the checkout: {name}." in attack.log
    assert "Traceback" not in attack.log


@DRAWN
def test_build_outputs_in_git_are_refused(attack: PullRequest) -> None:
    attack.author.write(".venv/bin/python", "")
    attack.author.write("stacks/__pycache__/stack.cpython-312.pyc", "")
    assert attack.run(handed_over(attack, "before")) == 2
    assert "git tracks files that a program made" in attack.log


APPROVALS = {
    "anchors": ("a: &a [x]\napprovals: [*a, *a]\n", "anchor &a"),
    "tag": ("approvals: !!python/object/apply:os.system ['id']\n", "tag"),
    "deep": (f"approvals: {'[' * 5000}{']' * 5000}\n", "it is too deep"),
    "large": (f"approvals: []\n#{'x' * 300_000}\n", "no environment file needs so many"),
    "binary": ("approvals: \0\n", "YAML does not allow it"),
}


@DRAWN
@pytest.mark.parametrize("name", APPROVALS)
def test_approvals_are_data(name: str, attack: PullRequest) -> None:
    text, said = APPROVALS[name]
    attack.author.write("environments/approvals/dev.yaml", text)
    assert attack.run(handed_over(attack, "after")) == 2
    assert said in attack.log
    assert "Traceback" not in attack.log


EVIL = (
    "\n::add-mask::closed\n##[add-mask]closed\n::stop-commands::x\n</details><!-- ops review -->\n"
    "@company ![i](https://e.org/i) <img src=x>"
)


@DRAWN
def test_names_are_no_commands_to_the_runner_and_no_markdown(attack: PullRequest) -> None:
    template = {"Resources": {f"Thing{EVIL}": {"Type": BUCKET, "Properties": {"BucketName": EVIL}}}}
    attack.author.write("templates/dev/rayhp-dev-storage.template.json", json.dumps(template))
    attack.author.write(f"stacks/{EVIL.replace('/', '')}", "x")
    attack.author.write("stacks/fence.py", f"```\n{EVIL}\n````\n")
    for name in (b"\xff\xfe.py", b"\xe2\x80\xae.py", b"-rf", b"$(id)", b"`id`", b" lead", b"x" * 250):
        Path(os.fsdecode(os.fsencode(attack.author.root) + b"/stacks/" + name)).write_bytes(b"\xff\x00")
    assert attack.run() == 1
    assert runner_commands(f"{attack.log}\n::notice::after") == ["::notice::after"]
    assert runner_commands("::add-mask::x\n  ::error file=x::y") == ["::add-mask::x", "  ::error file=x::y"]
    page = (attack.temp / "report" / "review.html").read_text()
    assert "src=x" in page
    assert not re.search(r"<img|<script|</details><!--|<a [^>]*e\.org", page)
    prose = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", attack.own_comment).partition("-->")[2]
    prose = re.sub(r"`[^`\n]+`", "", prose)
    for forbidden in ("@company", "<img", "<!--", "://e.org"):
        assert forbidden not in prose, forbidden
    # A line that begins with an element is HTML, in which Markdown's signs mean nothing.
    assert "![" not in re.sub(r"^<details><summary>.*</summary>$", "", prose, flags=re.MULTILINE)
    assert prose.count("<details>") == prose.count("</details>") > 0


@DRAWN
def test_a_huge_change_fits_into_a_comment(attack: PullRequest) -> None:
    many = {f"Thing{'x' * 200}{n}": {"Type": BUCKET, "Properties": {"BucketName": "y" * 500}} for n in range(300)}
    attack.author.write("templates/dev/rayhp-dev-storage.template.json", json.dumps({"Resources": many}))
    attack.author.write("stacks/large.py", "x = 1\n" * 20_000)
    assert attack.run() == 1
    assert len(attack.own_comment.encode("utf-16-le")) // 2 < 65_536
    assert "owners must read 20," in attack.own_comment


@DRAWN
def test_an_edit_does_not_hide_among_thousands(attack: PullRequest) -> None:
    for number in range(3000):
        attack.author.write(f"stacks/{'x' * 60}{number}.py", "x = 1\n" * 5)
    # Longer than each of them.
    attack.author.write(".github/workflows/deploy.yml", "# as before\n" * 40 + "permissions: write-all\n")
    assert attack.run(handed_over(attack, "after")) == 1
    assert "**This pull request changes workflows, the templates' code," in attack.own_comment
    assert "+permissions: write-all" in attack.own_comment
    assert len(attack.own_comment.encode("utf-16-le")) // 2 < 65_536


def person(name: str, kind: str, body: str) -> dict[str, Any]:
    return {"user": {"login": name, "type": kind} if name else None, "body": body}


@DRAWN
def test_only_its_own_comment_is_replaced(attack: PullRequest) -> None:
    mark = "<!-- ops review -->\nharmless"
    others = [
        person("author", "User", mark),
        person("github-actions[bot]", "User", mark),
        person("other[bot]", "Bot", mark),
        person("", "", mark),
        person("github-actions[bot]", "Bot", f"quoted:\n{mark}"),
    ]
    attack.comments = [{"id": number, **each} for number, each in enumerate(others, 1)]
    before = [each["body"] for each in attack.comments]
    assert attack.run() == 1
    assert [each["body"] for each in attack.comments[:-1]] == before
    assert len(attack.comments) == 6
    first = attack.comments[-1]["body"]
    assert attack.job("gate", "Comment") == 0
    assert (len(attack.comments), attack.comments[-1]["body"]) == (6, first), "a rerun replaces it"


@DRAWN
def test_a_comment_names_its_commit_and_no_old_verdict_stays(attack: PullRequest) -> None:
    assert attack.run() == 1
    assert attack.own_comment.endswith(f"\n_Reviewed commit: {attack.head}_\n")
    # The machine of a later run ends before a verdict.
    attack.head = "later"
    (attack.temp / "report" / "review.md").unlink()
    attack.job("gate", "Comment")
    assert "ended without a verdict: the gate stays closed" in attack.own_comment
    assert attack.own_comment.endswith("\n_Reviewed commit: later_\n")


@DRAWN
def test_the_base_is_the_one_of_the_merge_commit(attack: PullRequest) -> None:
    """`main` moved after the push: its change is neither the pull request's nor undone by it."""
    git(attack.directory, "clone", "--quiet", str(attack.origin), "origin")
    attack.origin = attack.directory / "origin"
    git(attack.author.root, "remote", "set-url", "origin", str(attack.origin))
    origin = Checkout.__new__(Checkout)
    origin.root = attack.origin
    origin.environment("prod", BUCKET, storage={"BucketName": "newer"})
    commit(origin.root)
    assert attack.run() == 1
    assert "| prod | **nothing that runs** |" in attack.own_comment
    assert git(attack.directory / "gate" / "workspace" / "base", "rev-parse", "HEAD") == git(
        origin.root, "rev-parse", "main"
    )


@DRAWN
def test_a_checkout_that_is_no_merge_commit_is_not_judged(attack: PullRequest) -> None:
    attack.merge()
    git(attack.author.root, "checkout", "--quiet", "--detach", "change")
    attack.hand_over(handed_over(attack, "after"))
    assert attack.job("gate") != 0
    assert not (attack.temp / "report" / "review.md").exists()


@DRAWN
def test_an_assembly_of_an_unchanged_environment_is_not_read(attack: PullRequest) -> None:
    bucket(attack.author, "before")
    attack.author.write("docs/page.md", "x")
    assert attack.run(handed_over(attack, "forged")) == 0, attack.log
    assert "forged" not in attack.own_comment


def test_a_forged_assembly_needs_code_that_owners_must_read(attack: PullRequest) -> None:
    """What nothing but the head's code can say is taken from it: the review names this code first."""
    assert attack.run(handed_over(attack, "before")) == 0
    assert "**This pull request changes other files that may run: owners must read 2 lines: " in attack.own_comment


@DRAWN
def test_what_the_first_job_writes_for_the_runner_ends_with_it(attack: PullRequest) -> None:
    files = ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
    lines = "".join(f'echo "PATH=/evil" >> "${name}"\n' for name in files)
    setup = attack.author.root / "setup.sh"
    setup.write_text(f"{setup.read_text()}{lines}")
    assert attack.run() == 1
    assert (attack.directory / "synthesis" / "GITHUB_ENV").exists()
    assert not [name for name in files[:3] if (attack.directory / "gate" / name).exists()]


def test_the_first_job_has_nothing_to_steal_and_says_nothing() -> None:
    job = JOBS["synthesis"]
    assert job["permissions"] == {"contents": "read"}
    assert "outputs" not in job, "an output would be a text of the head in another job's script"
    assert not [step for step in job["steps"] if "env" in step or "token" in json.dumps(step)]
    for step in job["steps"]:
        assert "uses" not in step or "if" not in step


def test_the_second_job_takes_no_cache_action_or_output_of_the_head() -> None:
    job = JOBS["gate"]
    assert job["permissions"] == {"contents": "read", "pull-requests": "write"}
    uses = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
    allowed = ("checkout", "setup-python", "download-artifact", "upload-artifact")
    assert set(uses) == {f"actions/{name}" for name in allowed}, "`./…` would be an action of the head"
    assert not [step for step in job["steps"] if "cache" in json.dumps(step)]
    assert not re.search(r"needs\.|\bsecrets\.", json.dumps(job))
    assert not [step for step in job["steps"] if "${{" in step.get("run", "")], "an expression would be typed into bash"
    [report] = [step for step in job["steps"] if step.get("with", {}).get("name") == "review"]
    assert report["with"]["overwrite"] is True, "another job of the run may have uploaded one"
    [holder] = [step for step in job["steps"] if "github.token" in json.dumps(step)]
    assert holder["name"] == "Comment"
    assert holder["working-directory"] == "base"
    after = [step.get("working-directory") for step in job["steps"][job["steps"].index(holder) :]]
    assert after == ["base"], "the token is for the last step"


def test_only_git_runs_in_the_folder_of_the_head() -> None:
    inside = [step for step in JOBS["gate"]["steps"] if step.get("working-directory") == "head"]
    lines = [line for step in inside for line in step["run"].splitlines()]
    assert all("git " in line for line in lines)
    assert len(inside) == 1


def test_a_verdict_changes_nothing_in_the_folder_of_the_head(attack: PullRequest) -> None:
    assert attack.run() == 1
    folder = attack.directory / "gate" / "workspace" / "head"
    assert git(folder, "status", "--porcelain", "--ignored") == ""


@pytest.mark.parametrize("file", ["deploy", "drift"])
def test_a_tag_with_the_branchs_name_deploys_nothing(file: str) -> None:
    document: Any = yaml.safe_load((REPOSITORY / ".github" / "workflows" / f"{file}.yml").read_text())
    first = next(iter(document["jobs"].values()))
    assert "github.ref == format('refs/heads/{0}', github.event.repository.default_branch)" in first["if"]
    assert "ref_name" not in json.dumps(document)


def test_own_runners_run_only_jobs_of_a_github_environment() -> None:
    for file in (REPOSITORY / ".github" / "workflows").glob("*.yml"):
        for name, job in yaml.safe_load(file.read_text())["jobs"].items():
            if job["runs-on"] != "ubuntu-24.04":
                assert job["runs-on"] == "${{ vars.DELIVERY_RUNNER || 'ubuntu-24.04' }}"
                assert "environment" in job, name


def test_the_list_of_attacks_names_every_test() -> None:
    page = (REPOSITORY / "docs" / "reference" / "pull-request-attacks.md").read_text()
    here = Path(__file__)
    texts = here.read_text() + here.with_name("test_handed_over_archives.py").read_text()
    assert set(re.findall(r"`(test_\w+)`", page)) <= set(re.findall(r"^def (test_\w+)", texts, re.MULTILINE))
