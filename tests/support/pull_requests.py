"""Run the jobs that review a pull request, as `.github/workflows/ci.yml` types them, on a small repository.

The repository has the project's own `ops` and `config`. Its set-up and its CDK are stand-ins. Steps with `uses` are
played: a checkout is a clone, an artifact a ZIP archive, as GitHub makes one.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from config.facts import charts_lock
from config.load import DIRECTORY_VARIABLE
from rehearsal.paths import NODE_MODULES, REPOSITORY
from tests.unit.ops.review.checkouts import CDK, Checkout

_CI: Final = REPOSITORY / ".github" / "workflows" / "ci.yml"
_EXPRESSION: Final = re.compile(r"\$\{\{ (.+?) \}\}")
_SET_UP: Final = """\
#!/bin/sh
set -e
mkdir -p .venv/bin node_modules/aws-cdk/bin
printf '#!/bin/sh\\nexit 0\\n' > .venv/bin/ops
printf '#!/bin/sh\\nexec {python} "$@"\\n' > .venv/bin/python
chmod +x .venv/bin/*
cp cdk.js node_modules/aws-cdk/bin/cdk
ln -s {modules}/aws-cdk/db.json.gz node_modules/aws-cdk/
"""
GH: Final = """#!{python}
import json, os, sys
from pathlib import Path
file = Path(os.environ["COMMENTS"])
comments = json.loads(file.read_text())
command, *arguments = sys.argv[1:]
assert command == "api" and os.environ["GH_TOKEN"] == "writes"
place = next(each for each in arguments if each.startswith("repos/"))
if "--paginate" in arguments:
    # Two pages, as for more than 100 comments.
    print(json.dumps([comments[:1], comments[1:]]))
elif arguments[arguments.index("--method") + 1] == "PATCH":
    [own] = [each for each in comments if each["id"] == int(place.rpartition("/")[2])]
    own["body"] = json.load(sys.stdin)["body"]
else:
    author = {{"login": "github-actions[bot]", "type": "Bot"}}
    comments.append({{"id": len(comments) + 1, "user": author, "body": json.load(sys.stdin)["body"]}})
file.write_text(json.dumps(comments))
"""
"""GitHub's command line, with the comments of the pull request in a file."""
Archive = Iterable[tuple[str | zipfile.ZipInfo, bytes]]


def git(root: Path, *arguments: str) -> str:
    """Run git as a stranger to this machine's settings; return what it prints."""
    env = os.environ | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=author", "-c", "user.email=author@example.org", "-c", "protocol.file.allow=always")
    argv = ["git", "-C", str(root), *who, *arguments]
    return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path) -> str:
    """Commit all files, also those that git ignores; return the commit."""
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "a commit")
    return git(root, "rev-parse", "HEAD")


def origin(root: Path) -> Checkout:
    """Write the repository whose branch `main` a pull request changes."""
    made = Checkout(root)
    shutil.rmtree(root / "node_modules")
    for part in ("ops", "config"):
        shutil.copytree(REPOSITORY / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    made.environment("dev", "AWS::S3::Bucket", storage={"BucketName": "before"})
    made.write("cdk.js", CDK)
    made.write(".gitignore", ".venv\nnode_modules\ncdk.out\n__pycache__\n")
    made.write("setup.sh", _SET_UP.format(python=shlex.quote(sys.executable), modules=shlex.quote(str(NODE_MODULES))))
    (root / "setup.sh").chmod(0o755)
    git(root, "init", "--quiet", "--initial-branch", "main")
    commit(root)
    return made


@dataclass
class PullRequest:
    """A pull request, and the machines of its two jobs."""

    directory: Path
    origin: Path
    log: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        git(self.directory, "clone", "--quiet", str(self.origin), "author")
        self.author = Checkout.__new__(Checkout)
        self.author.root = self.directory / "author"
        for job in ("synthesis", "gate"):
            for folder in ("temp", "workspace"):
                (self.directory / job / folder).mkdir(parents=True)
        self.artifact = self.directory / "artifact.zip"

    def merge(self) -> None:
        """Commit the author's files, and make GitHub's merge commit with the newest `main`."""
        author = self.author.root
        git(author, "checkout", "--quiet", "-b", "change")
        self.head = commit(author)
        git(author, "fetch", "--quiet", "--no-recurse-submodules", "origin")
        git(author, "checkout", "--quiet", "--detach", "origin/main")
        git(author, "merge", "--quiet", "--no-ff", "--no-edit", "change")

    def run(self, archive: Archive | None = None) -> int:
        """Run both jobs, or with an archive of the attacker's the second alone; return the gate's exit code."""
        self.merge()
        if archive is None:
            assert self.job("synthesis") == 0, self.log
        else:
            self.hand_over(archive)
        return self.job("gate")

    def hand_over(self, archive: Archive) -> None:
        """Write the archive that the first job's code uploads."""
        with zipfile.ZipFile(self.artifact, "w", zipfile.ZIP_DEFLATED) as opened:
            for name, data in archive:
                opened.writestr(name, data)

    def review_again(self, archive: Archive | Path) -> int:
        """Run the second job's verdict again, with what the attacker handed over."""
        for folder in ("assemblies", "report"):
            shutil.rmtree(self.temp / folder, ignore_errors=True)
        if isinstance(archive, Path):
            shutil.copy2(archive, self.artifact)
        else:
            self.hand_over(archive)
        return self.job("gate", "Take what was handed over", "Judge")

    def job(self, name: str, first: str = "", last: str = "") -> int:
        """Run the steps of a job; return its exit code. Steps after a failure run if their `if` says so."""
        code = 0
        self.log = ""
        steps = yaml.safe_load(_CI.read_text())["jobs"][name]["steps"]
        names = [step.get("name") for step in steps]
        for step in steps[names.index(first) if first else 0 : names.index(last) + 1 if last else None]:
            if code and "!cancelled()" not in step.get("if", ""):
                continue
            if "uses" in step:
                self._play(name, step)
            elif failed := self._type(name, step):
                code = code or (0 if step.get("continue-on-error") else failed)
        return code

    @property
    def temp(self) -> Path:
        """Return the second job's $RUNNER_TEMP."""
        return self.directory / "gate" / "temp"

    @property
    def review(self) -> str:
        """Return the comment's text as the second job wrote it."""
        return (self.temp / "report" / "review.md").read_text()

    @property
    def own_comment(self) -> str:
        """Return the workflow's only comment."""
        [own] = [each["body"] for each in self.comments if each["user"]["login"] == "github-actions[bot]"]
        return str(own)

    def _play(self, job: str, step: dict[str, Any]) -> None:
        action = step["uses"].partition("@")[0]
        place = self.directory / job / "workspace"
        given = {key: self._expand(job, value) for key, value in step.get("with", {}).items()}
        if action == "actions/checkout":
            git(self.author.root, "worktree", "prune")
            git(place, "clone", "--quiet", "--no-checkout", str(self.author.root), given.get("path", "."))
            git(place / given.get("path", "."), "checkout", "--quiet", git(self.author.root, "rev-parse", "HEAD"))
        elif action == "actions/upload-artifact" and given["name"] == "assemblies":
            folder = Path(given["path"])
            files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
            self.hand_over((file.relative_to(folder).as_posix(), file.read_bytes()) for file in files)
        elif action == "actions/download-artifact":
            assert given["skip-decompress"] is True
            Path(given["path"]).mkdir()
            shutil.copy2(self.artifact, Path(given["path"]) / "assemblies.zip")
        else:
            assert action in {"actions/setup-python", "actions/upload-artifact"}, action

    def _type(self, job: str, step: dict[str, Any]) -> int:
        place = self.directory / job
        programs = place / "programs"
        programs.mkdir(exist_ok=True)
        (programs / "gh").write_text(GH.format(python=sys.executable))
        (programs / "gh").chmod(0o755)
        (place / "comments").write_text(json.dumps(self.comments))
        env = {name: value for name, value in os.environ.items() if name != DIRECTORY_VARIABLE}
        env |= {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "COMMENTS": str(place / "comments"),
            "RUNNER_TEMP": str(place / "temp"),
            "GITHUB_REPOSITORY": "company/platform",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            charts_lock.STAND_IN_VARIABLE: str(place / "temp"),
            **{name: str(place / name) for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH")},
            "GITHUB_STEP_SUMMARY": str(place / "summary"),
            **{key: self._expand(job, value) for key, value in step.get("env", {}).items()},
        }
        cwd = place / "workspace" / step.get("working-directory", ".")
        if not cwd.is_dir():
            # The runner cannot start the step.
            return 1
        argv = ["bash", "--noprofile", "--norc", "-e", "-c", step["run"]]
        done = subprocess.run(argv, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.log += done.stdout.decode(errors="replace")
        self.comments = json.loads((place / "comments").read_text())
        return done.returncode

    def _expand(self, job: str, value: Any) -> Any:
        known: dict[str, Callable[[], str]] = {
            "runner.temp": lambda: str(self.directory / job / "temp"),
            "github.token": lambda: "writes",
            "github.event.pull_request.number": lambda: "7",
            "github.event.pull_request.head.sha": lambda: self.head,
            "github.event.merge_group.base_sha || 'HEAD^1'": lambda: "HEAD^1",
            "github.server_url": lambda: "https://github.com",
            "github.repository": lambda: "company/platform",
            "github.run_id": lambda: "8",
        }
        return _EXPRESSION.sub(lambda found: known[found[1]](), value) if isinstance(value, str) else value
