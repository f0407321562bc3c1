"""The cost of `ops check` relative to a Python with one pydantic model, and of `ops review` relative to a synthesis."""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.console import Console

from bench import measure
from bench.checkout import changed, checkout
from bench.measure import MeasuredTime
from ops.cdk import NODE
from rehearsal.paths import REPOSITORY

MODEL: Final = "Python with one pydantic model"
ONE: Final = "cdk synth of dev"


def report_check(console: Console, scratch: Path, rounds: int) -> None:
    """Measure and print `ops check`, which people run after each edit; both programs find their bytecode."""
    env, project = measure.with_bytecode(scratch / "check"), checkout(scratch / "checked")
    model = "import pydantic; type('Model', (pydantic.BaseModel,), {})"

    def python(*arguments: str) -> MeasuredTime:
        return measure.run([sys.executable, *arguments], cwd=project, env=env)

    costs = measure.in_turn(
        {MODEL: lambda: python("-c", model), "ops check": lambda: python("-m", "ops", "check", "--env", "dev")}, rounds
    )
    console.print(measure.table("ops check", costs, MODEL), "")


def report_review(console: Console, scratch: Path, charts: Mapping[str, str], rounds: int) -> None:
    """Measure and print reviews of a change of dev's file: dev alone, and dev as one of six environments."""
    env = measure.with_bytecode(scratch / "bytecode") | {"CDK_DISABLE_CLI_TELEMETRY": "true"}
    context = [part for key, value in charts.items() for part in ("--context", f"{key}={value}")]
    sides = {}
    for name, environments in (("one environment", ["dev"]), ("six environments, one changed", None)):
        base, head = (checkout(scratch / "review" / name / side, environments) for side in ("base", "head"))
        with changed(head, "dev") as document:
            document["hyperpod"]["instance_groups"][-1]["count"] += 1
        sides[f"ops review of {name}"] = (base, head)
    project = checkout(scratch / "synthesised")
    commands = {ONE: lambda: _synthesis(project, env, context)} | {
        name: lambda base=base, head=head: measure.run(
            [sys.executable, "-m", "ops", "review", str(base), *context], cwd=head, env=env
        )
        for name, (base, head) in sides.items()
    }
    console.print(measure.table("ops review", measure.in_turn(commands, rounds), ONE), "")


def _synthesis(project: Path, env: Mapping[str, str], context: list[str]) -> MeasuredTime:
    """Run the CDK CLI once as a review does, without the validation of templates; return the cost."""
    cdk = [str(NODE), str(REPOSITORY / "node_modules" / "aws-cdk" / "bin" / "cdk")]
    path = f"{Path(sys.prefix, 'bin')}:{NODE.parent}:{env['PATH']}"
    with tempfile.TemporaryDirectory() as out:
        argv = [*cdk, "synth", "--quiet", "--output", out, "--context", "environment=dev", *context]
        return measure.run(argv, cwd=project, env={**env, "CDK_VALIDATION": "false", "PATH": path})
