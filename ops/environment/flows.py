"""Generate the page docs/reference/flows.md: every connection that the NetworkPolicies allow, with its reason."""

from collections.abc import Iterator
from typing import Final

from k8s_charts.shared.flows import (
    IMAGE_BUILD_FLOWS,
    REAPER_FLOW,
    Ends,
    Flow,
    efa_metrics_flows,
    gpu_metrics_flows,
    observability_flows,
    operator_flows,
    ray_cluster_flows,
    ray_flows,
    sleeper_flows,
)
from k8s_charts.shared.names import (
    EFA_METRICS_NAMESPACE,
    GPU_METRICS_NAMESPACE,
    IMAGE_BUILD_NAMESPACE,
    PROMETHEUS_NAMESPACE,
)

_INTRODUCTION: Final = """# Allowed connections

Every connection that the NetworkPolicies allow, and why. Generated from `k8s_charts/shared/flows.py` by `ops schema`.
All other connections are denied, in both directions. [docs/explain/isolation.md](../explain/isolation.md) shows them
as a table of pods, which a test evaluates.

A flow with a key is allowed only if [`aws_ray`](environment.md#aws_ray) or
[`observability`](environment.md#observability) enables it. Receivers of `in_cluster`'s alerts enable
`alertmanager`.
[`hyperpod.tiered_storage`](environment.md#hyperpodtiered_storage) enables `tiered_checkpoints`, too. An address
in [`mlflow`](environment.md) with another port than 443 enables `mlflow`; 5000 is an example. `in_cluster` with an
instance group with NVIDIA GPUs enables `gpus`, and with EFA `efa`. The key `hyperpod` of
[`observability`](environment.md#observability) enables `hyperpod_ray` with KubeRay 1.6.0 or newer. An instance group
with `sleep` enables `sleep`.
"""


def page() -> str:
    """Return the page: a table for each namespace."""
    ends = Ends("RAY", "KUBERAY", tracking_port=5000)
    sections = (
        ("`ray.namespace`", (*ray_flows(ends), *ray_cluster_flows("RAYCLUSTER"))),
        ("`kuberay.namespace`", (*operator_flows(ends), REAPER_FLOW, *sleeper_flows(ends))),
        (f"`{IMAGE_BUILD_NAMESPACE}`", IMAGE_BUILD_FLOWS),
        (f"`{PROMETHEUS_NAMESPACE}` (`in_cluster`)", observability_flows(ends)),
        (f"`{GPU_METRICS_NAMESPACE}` (`in_cluster`)", gpu_metrics_flows(ends)),
        (f"`{EFA_METRICS_NAMESPACE}` (`in_cluster`)", efa_metrics_flows()),
    )
    return "\n".join([_INTRODUCTION, *(line for title, flows in sections for line in _section(title, flows))])


def _section(title: str, flows: tuple[Flow, ...]) -> Iterator[str]:
    yield from (f"## Namespace {title}", "", "| from | to | ports | key | because |", "|---|---|---|---|---|")
    # Both ends of a connection inside the namespace allow it: one row.
    yield from dict.fromkeys(map(_row, flows))
    yield ""


def _row(flow: Flow) -> str:
    peers = ", ".join(dict.fromkeys(peer.title for peer in flow.peers))
    source, target = (peers, flow.title) if flow.direction == "in" else (flow.title, peers)
    key = f"`{flow.key}`" if flow.key else ""
    return f"| {source} | {target} | {_ports(flow)} | {key} | {flow.reason} |"


def _ports(flow: Flow) -> str:
    if not flow.ports:
        return "every"
    return ", ".join(str(port) for port in sorted(flow.ports)) + (" TCP and UDP" if flow.udp else "")
