"""Commands that watch an environment: status, dashboard, what it costs."""

from contextlib import nullcontext
from typing import Annotated

import typer

from ops.cli import EnvName, app, console, fail, load, load_any, say
from ops.options import Watch
from ops.output import Format, Output, emit, require_terminal
from ops.watch.page import HEAD_PORTS, Page


@app.command()
def status(
    env: EnvName,
    output: Output = Format.TABLE,
    watch: Watch = False,
) -> None:
    """Show the environment on one screen: what `ops wait` waits for, nodes, jobs, file system, cost.

    What cannot be read is named in its place, and the rest is shown. With
    `slurm`, `slurm_nodes` and `slurm_health` replace the sections that need
    Kubernetes.

    Exit codes:
    - 0: everything is ready
    - 1: something is not ready
    - 2: bad input or no access; also if only a part can be read
    - 130: `--watch` was interrupted

    Examples:
    - `ops status --env dev`
    - `ops status --env dev --watch`
    - `ops status --env dev -o json`

    With `-o json` or `-o yaml`; a section that cannot be read is an object
    with the reason under `unseen`:

    ```json
    {"environment": "dev", "time": "2026-11-02T10:15:00+00:00",
     "ready": true,
     "items": [{"kind": "RayCluster", "name": "ray/rayml",
       "state": "ready", "detail": "ready, 4 of 4 workers"}],
     "stacks": [{"name": "rayhp-dev-ray", "state": "CREATE_COMPLETE",
       "reason": ""}],
     "instance_groups": [{"name": "worker-group-1",
       "type": "ml.p5.48xlarge", "count": 4, "target": 4,
       "state": "InService", "capacity": "on demand",
       "software": "UpToDate", "software_update": ""}],
     "nodes": [{"instance": "i-0123456789abcdef0",
       "group": "worker-group-1", "type": "ml.p5.48xlarge",
       "status": "Running", "health": "Schedulable",
       "deep_check": "", "hindrance": "", "software": "UpToDate",
       "pods": ["ray/rayml-workers-worker-x7k2p"]}],
     "ray_clusters": [{"name": "rayml", "state": "ready",
       "workers": 4, "wanted": 4, "head": "rayml-head-2kq8d",
       "image": "rayproject/ray", "outdated": ["…"]}],
     "pending_pods": [{"pod": "rayml-head-2kq8d", "reason": "…"}],
     "jobs": [{"name": "train", "ray_cluster": "rayml",
       "state": "Running"}],
     "file_system": {"id": "fs-0123456789abcdef0",
       "state": "AVAILABLE", "capacity_gib": 1200, "used_gib": 310},
     "support": [{"component": "Ray", "version": "2.42.1",
       "phase": "no published end", "until": "",
       "flaws": ["CVE-2025-62593"]}],
     "cost": {"usd_per_hour": 255.1, "without_price": ["…"]}}
    ```
    """
    from ops.clients import CallerAccount  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.watch.live import watch as keep_watching  # noqa: PLC0415
    from ops.watch.screen import screen  # noqa: PLC0415
    from ops.watch.status import read_status  # noqa: PLC0415

    environment = load_any(env)
    if watch:
        require_terminal(output, "`ops wait`")
    try:
        account = CallerAccount(environment)
        if watch:
            keep_watching(lambda since: screen(read_status(environment, account), since), console)
        found = read_status(environment, account)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    emit(found.as_data(), lambda: screen(found), output)
    if found.obstacle:
        fail(found.obstacle)
    raise typer.Exit(0 if found.is_ready else 1)


@app.command()
def dashboard(
    env: EnvName,
    page: Annotated[Page, typer.Argument(metavar="[PAGE]", help="What to serve.")] = Page.RAY,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="RayCluster. Needed only if there are several.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine. Default: a free one.")] = 0,
) -> None:
    """Serve Ray's dashboard or another PAGE on this machine, through a port-forward to its pod, until Ctrl-C.

    Pages:
    - ray: Ray's dashboard; with `observability.in_cluster` also Grafana, at
      port 3000, where the dashboard looks for its charts
    - tensorboard, serve: ports 6006 and 8000 of the head, for a TensorBoard
      or a model that you started there
    - prometheus, alertmanager: those of `observability.in_cluster`

    Only the browser that opens the printed address can use it: the address
    contains a token, and sets a cookie. When the pod is replaced, reload the
    page: the address stays.

    Exit codes:
    - 1: refused, such as no running head
    - 2: bad input or no access, or the port is in use
    - 130: Ctrl-C closed it

    Examples:
    - `ops dashboard --env dev`
    - `ops dashboard --env dev --cluster rayml --port 8265`
    - `ops dashboard prometheus --env dev`
    """
    import kubernetes  # noqa: PLC0415

    from ops.clients import connect  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.jobs.direct import refuse_simulated  # noqa: PLC0415
    from ops.jobs.run import RunError  # noqa: PLC0415
    from ops.jobs.runs import Runs, as_submitter  # noqa: PLC0415
    from ops.watch import dashboard as pages  # noqa: PLC0415
    from ops.watch import in_cluster  # noqa: PLC0415
    from ops.watch.browser_access import BrowserAccess  # noqa: PLC0415

    environment = load(env)
    namespace, observed = environment.ray.namespace, environment.observability.in_cluster
    try:
        with connect(environment) as clients, as_submitter():
            core = kubernetes.client.CoreV1Api(clients.kubernetes)
            if page in HEAD_PORTS:
                name = Runs(clients.kubernetes, namespace).cluster(cluster)
                refuse_simulated(core, namespace, name)
                source = pages.of_head(core, namespace, name, HEAD_PORTS[page])
            else:
                source = in_cluster.source(core, page)
            if not source.find():
                raise RunError(source.missing)
            access = BrowserAccess()
            charts = in_cluster.with_grafana(core, say, access) if observed and page is Page.RAY else nullcontext()
            with charts, pages.DashboardServer(core, source, say, port, access) as served:
                say(f"{served.address}  (Ctrl-C closes it)")
                served.serve()
    except RunError as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except OSError as error:
        fail(f"--port: {port} is invalid: {error.strerror}. Fix: choose another port, or omit --port")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command()
def cost(
    env: EnvName,
    live: Annotated[
        bool, typer.Option("--live", help="Also count what exists now. Needs credentials of the account.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show what an environment costs per hour and month, from a dated table of prices. It is no bill.

    It names what has no price in the table. With `--live` it shows beside
    the plan what exists: HyperPod's current counts, system nodes, EKS, NAT
    gateways and file systems.

    Exit codes:
    - 0: shown
    - 2: bad input or no access

    Examples:
    - `ops cost --env dev`
    - `ops cost --env dev --live -o json`

    With `-o json` or `-o yaml` (`live` is null without `--live`, and
    `usd_per_hour` of an item without a price):

    ```json
    {"environment": "dev",
     "prices": {"date": "2026-11-01", "region": "us-west-2"},
     "planned": {"usd_per_hour": 0.5, "usd_per_month": 365.0,
       "items": [{"item": "EKS control plane", "amount": "",
         "usd_per_hour": 0.1}]},
     "live": null, "unpriced": ["traffic"]}
    ```
    """
    from config.estimates import costs  # noqa: PLC0415 - other commands read no prices
    from ops.cost import show  # noqa: PLC0415

    environment = load_any(env)
    found = None
    if live:
        from ops.cost.live import live as count_live  # noqa: PLC0415 - the AWS SDK needs half a second
        from ops.errors import UnreachableError  # noqa: PLC0415

        try:
            found = costs.priced(count_live(environment))
        except UnreachableError as error:
            fail(str(error))
    bill = show.EnvironmentCosts(environment, costs.estimate(environment), found)
    emit(show.document(bill), lambda: show.table(bill), output)
