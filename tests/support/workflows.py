"""Read which commands GitHub's workflows run with credentials of AWS, and as whom."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

_FOLDER: Final = Path(__file__).resolve().parents[2] / ".github" / "workflows"
_LOGIN: Final = "aws-actions/configure-aws-credentials@"
_COMMAND: Final = re.compile(r"\.venv/bin/((?:ops|cdk) [^|>\n]+)")
_EXPRESSION: Final = re.compile(r"\$\{\{.*?\}\}")
_SESSION_SECONDS: Final = 3600
"""How long the action's credentials live, unless a workflow says otherwise (its README, `role-duration-seconds`)."""


@dataclass(frozen=True)
class WorkflowCommand:
    """A command of a job that has credentials.

    Attributes:
        github_environment: The environment of the job, which is the subject of its token.
        seconds: How long the job's credentials live.
        words: The command as typed, with NAME and DIGEST in place of the job's variables.
    """

    github_environment: str
    seconds: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.github_environment}: {' '.join(self.words[:2])}"


def commands(environment: str) -> list[WorkflowCommand]:
    """Return the commands of all workflows for this environment, in order."""
    return [
        command
        for file in sorted(_FOLDER.glob("*.yml"))
        for job in yaml.safe_load(file.read_text())["jobs"].values()
        for command in _commands(job, environment)
    ]


def _commands(job: dict[str, Any], environment: str) -> Iterator[WorkflowCommand]:
    seconds = 0
    for step in job["steps"]:
        if str(step.get("uses", "")).startswith(_LOGIN):
            seconds = int(step["with"].get("role-duration-seconds", _SESSION_SECONDS))
        elif seconds:
            github_environment = _EXPRESSION.sub(environment, job["environment"])
            for typed in _COMMAND.findall(step.get("run", "")):
                words = shlex.split(typed.partition(" || ")[0].replace("$ENVIRONMENT", environment))
                yield WorkflowCommand(github_environment, seconds, tuple(words))
