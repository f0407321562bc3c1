"""The command that verifies a RayCluster with an all-reduce."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from config import EksEnvironment
from ops import completion
from ops.cli import EnvName, app, console, fail, load, show
from ops.durations import Timeout
from ops.output import Format, Output, emit, teller

if TYPE_CHECKING:
    from ops.smoke.verdict import SmokeResult, WorkerResult


@app.command()
def smoke(
    env: EnvName,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NAME",
            autocompletion=completion.ray_clusters,
            help="Only this RayCluster. Default: each in turn.",
        ),
    ] = None,
    timeout: Timeout = "10m",  # type: ignore[assignment]  # the parser gets the text
    output: Output = Format.TABLE,
) -> None:
    """Run a short all-reduce over all workers of each RayCluster.

    Every GPU takes part (NCCL), and every worker without GPUs (gloo). It fails
    if a worker takes no part, has other GPUs than its instance type, or if
    NCCL does not use EFA where the instance type has it. It waits for GPUs
    that a job uses. `--timeout` holds for each RayCluster.

    It also fails if Prometheus knows of a fault of a GPU: an XID error of the
    last hour, memory that lost data, or a row that cannot be replaced. Without
    `observability.in_cluster` it says that this is unknown.

    The bandwidth is shown beside the network of the instance type, and not
    rated: 256 MiB per GPU are too few to reach it.

    Exit codes:
    - 0: passed
    - 1: failed, or refused, such as a RayCluster that does not exist
    - 2: bad input or no access
    - 130: interrupted; the job is stopped

    Examples:
    - `ops smoke --env dev`
    - `ops smoke --env prod --cluster rayml --timeout 5m -o json`

    With `-o json` or `-o yaml`, progress goes to standard error. `seconds` is
    the time of one all-reduce, null for a worker without a part.
    `nominal_gigabytes_per_second` is what the network of the instance type
    carries, null on a single node, where GPUs use NVLink. `gpu_health` is
    null without GPUs; `unknown` says why nothing is known, else it is null:

    ```json
    {"environment": "dev", "passed": true, "clusters": [
      {"cluster": "rayml", "problems": [],
       "gpu_health": {"watched": ["hyperpod-i-0123456789abcdef0"],
                      "unknown": null},
       "workers": [
        {"node": "hyperpod-i-0123456789abcdef0",
         "pod": "rayml-gpu-group-worker-x7k2p",
         "device": "NVIDIA H100 80GB HBM3",
         "gpus": 8, "gpus_expected": 8, "seconds": 0.0021,
         "gigabytes_per_second": 223.4,
         "nominal_gigabytes_per_second": 400.0, "network": ["OFI"]}]}]}
    ```
    """
    environment, say = load(env), teller(output)
    names = [each.name for each in environment.ray.clusters]
    if cluster is not None and cluster not in names:
        fail(
            f"--cluster: {cluster!r} is invalid: environment {env} has no such RayCluster. Allowed: {', '.join(names)}"
        )
    verdicts = _verdicts(environment, [cluster] if cluster else names, timeout.seconds, say)
    passed = not any(verdict.problems for verdict in verdicts)
    emit({"environment": env, "passed": passed, "clusters": [_data(each) for each in verdicts]}, None, output)
    if output is Format.TABLE:
        show(_table(verdicts))
        for line in _lines_on_gpus(verdicts):
            console.print(line, soft_wrap=True)
    if not passed:
        problems = "; ".join(f"{each.cluster}: {problem}" for each in verdicts for problem in each.problems)
        fail(f"the check failed: {problems}. Fix: see docs/troubleshooting.md", code=1)
    if output is Format.TABLE:
        console.print(f"[bold green]{env} passed[/]: {sum(len(each.rows) for each in verdicts)} workers took part")


def _verdicts(environment: EksEnvironment, clusters: list[str], timeout: float, say: Any) -> "list[SmokeResult]":
    from ops.clients import connect  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.jobs.run import RunError  # noqa: PLC0415
    from ops.jobs.runs import Runs, as_submitter  # noqa: PLC0415
    from ops.smoke.expected import expected  # noqa: PLC0415
    from ops.smoke.gpu_health import health  # noqa: PLC0415
    from ops.smoke.run import SmokeError, run  # noqa: PLC0415
    from ops.smoke.verdict import evaluate  # noqa: PLC0415

    verdicts = []
    try:
        with connect(environment) as clients, as_submitter():
            runs = Runs(clients.kubernetes, environment.ray.namespace)
            for name in clusters:
                wanted = expected(environment, clients.kubernetes, runs.cluster(name))
                result = run(runs, environment, name, say, timeout=timeout)
                verdict = evaluate(name, wanted, result)
                if nodes := {worker.node for worker in wanted.workers if worker.gpus}:
                    verdict = verdict.with_gpus(health(environment, clients.kubernetes, nodes))
                verdicts.append(verdict)
    except (RunError, SmokeError) as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted: no verdict. Fix: rerun the command; `ops job list` shows that its job is stopped", code=130)
    return verdicts


def _data(verdict: "SmokeResult") -> dict[str, Any]:
    return {
        "cluster": verdict.cluster,
        "problems": list(verdict.problems),
        "gpu_health": {"watched": sorted(verdict.gpus.watched), "unknown": verdict.gpus.unknown}
        if verdict.gpus
        else None,
        "workers": [_row(row) for row in verdict.rows],
    }


def _lines_on_gpus(verdicts: "list[SmokeResult]") -> Iterator[str]:
    for verdict in verdicts:
        if not (found := verdict.gpus):
            continue
        if found.unknown:
            yield f"{verdict.cluster}: the health of its GPUs is unknown: {found.unknown}"
            continue
        nodes = {row.node for row in verdict.rows if row.gpus_expected}
        watched = f"GPUs of {len(found.watched)} of {len(nodes)} nodes watched"
        yield f"{verdict.cluster}: {watched}, {len(found.problems)} faults"
        for node in sorted(nodes - found.watched):
            yield f"{verdict.cluster}: the exporter on {node} does not answer"


def _row(row: "WorkerResult") -> dict[str, Any]:
    return {
        "node": row.node,
        "pod": row.pod,
        "device": row.device,
        "gpus": row.gpus,
        "gpus_expected": row.gpus_expected,
        "seconds": row.seconds,
        "gigabytes_per_second": round(row.gigabytes_per_second, 3),
        "nominal_gigabytes_per_second": row.nominal,
        "network": list(row.network),
    }


def _table(verdicts: "list[SmokeResult]") -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("RayCluster", "node", "device", "GPUs", "time", "bandwidth", "of nominal", "network"):
        drawn.add_column(column, overflow="fold")
    for verdict in verdicts:
        for row in verdict.rows:
            took = "no part" if row.seconds is None else f"{row.seconds * 1000:.1f} ms"
            drawn.add_row(
                verdict.cluster,
                row.node,
                row.device,
                f"{row.gpus} of {row.gpus_expected}",
                took,
                f"{row.gigabytes_per_second:.1f} GB/s",
                f"{row.gigabytes_per_second / row.nominal:.0%} of {row.nominal:g}" if row.nominal else "-",
                ", ".join(row.network),
            )
    return drawn
