"""The cost of a synthesis relative to the smallest app with a VPC and an EKS cluster, and of each additional part."""

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console

from bench import measure
from bench.checkout import changed, checkout, named_copies
from bench.measure import MeasuredTime
from rehearsal.paths import REPOSITORY

EXTRA_GROUPS: Final = 10
EXTRA_CLUSTERS: Final = 5
MINIMAL: Final = "minimal VPC + EKS app"
MORE_GROUPS: Final = f"dev, {EXTRA_GROUPS} more instance groups"
MORE_CLUSTERS: Final = f"dev, {EXTRA_CLUSTERS} more RayClusters"


@dataclass(frozen=True)
class MeasuredSynthesis:
    """The app at `app`, run in `directory` with its context and `context`; Python's bytecode is in `bytecode`."""

    app: Path
    directory: Path
    bytecode: Path
    context: Mapping[str, str] = field(default_factory=dict)

    def cost(self, *, validated: bool) -> MeasuredTime:
        """Synthesise, with or without CDK's validation of the templates; return the cost."""
        context = json.loads((self.directory / "cdk.json").read_text())["context"] | dict(self.context)
        with tempfile.TemporaryDirectory() as out:
            env = measure.with_bytecode(self.bytecode) | {
                "CDK_OUTDIR": out,
                "CDK_CONTEXT_JSON": json.dumps(context),
                "CDK_VALIDATION": "true" if validated else "false",
                "PYTHONPATH": str(self.directory),
            }
            return measure.run([sys.executable, str(self.app)], cwd=self.directory, env=env)


def report(console: Console, scratch: Path, charts: Mapping[str, str], rounds: int) -> None:
    """Measure and print syntheses; `charts` is the CDK context that selects the charts."""
    apps = _apps(scratch, charts)
    for title, validated in (("synthesis with validation", True), ("synthesis with CDK_VALIDATION=false", False)):
        commands = {name: _command(app, validated=validated) for name, app in apps.items()}
        costs = measure.in_turn(commands, rounds)
        console.print(measure.table(title, costs, MINIMAL))
        for what, more, number in (
            ("instance group", MORE_GROUPS, EXTRA_GROUPS),
            ("RayCluster", MORE_CLUSTERS, EXTRA_CLUSTERS),
        ):
            console.print(f"each further {what}: {measure.each_more(costs, more, 'dev', number):.1%} of dev's CPU time")
        console.print()


def _apps(scratch: Path, charts: Mapping[str, str]) -> dict[str, MeasuredSynthesis]:
    bytecode = scratch / "bytecode"
    project = checkout(scratch / "project")
    groups, clusters = _more_groups(scratch / "groups"), _more_clusters(scratch / "clusters")

    def own(environment: str, directory: Path = project) -> MeasuredSynthesis:
        return MeasuredSynthesis(directory / "app.py", directory, bytecode, {"environment": environment, **charts})

    return {
        MINIMAL: MeasuredSynthesis(REPOSITORY / "bench" / "minimal_app.py", REPOSITORY, bytecode),
        "dev": own("dev"),
        "prod": own("prod"),
        MORE_GROUPS: own("dev", groups),
        MORE_CLUSTERS: own("dev", clusters),
    }


def _more_groups(directory: Path) -> Path:
    with changed(checkout(directory), "dev") as document:
        groups = document["hyperpod"]["instance_groups"]
        groups += named_copies(groups[-1], EXTRA_GROUPS)
    return directory


def _more_clusters(directory: Path) -> Path:
    with changed(checkout(directory), "dev") as document:
        clusters = document["ray"]["clusters"]
        clusters += named_copies(clusters[-1], EXTRA_CLUSTERS)
        for group in document["hyperpod"]["instance_groups"]:
            # A node for each head and worker.
            group["count"] *= EXTRA_CLUSTERS + 1
    return directory


def _command(app: MeasuredSynthesis, *, validated: bool) -> Callable[[], MeasuredTime]:
    return lambda: app.cost(validated=validated)
