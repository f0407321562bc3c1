"""Every connection that the NetworkPolicies allow, each with its reason. All else is denied, in both directions.

`k8s_charts/shared/network_policies.py` creates the policies from this table, and `ops schema` writes
docs/reference/flows.md from it. Ray 2.42.1 has no authentication: whoever reaches a port can run code (CVE-2023-48022).
`kubectl port-forward` and probes come from the node, which no policy blocks; the mount of the file system is also
traffic of the node.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from config import EksEnvironment
from config.facts import hyperpod_ray
from config.model import MANAGED, port_of
from k8s_charts.shared.names import (
    ALERTMANAGER,
    ALERTMANAGER_PORT,
    CHECKPOINTS_PORT,
    DASHBOARD_PORT,
    DCGM_EXPORTER,
    DCGM_PORT,
    EFA_EXPORTER,
    EFA_METRICS_NAMESPACE,
    GPU_METRICS_NAMESPACE,
    GRAFANA_PORT,
    HYPERPOD_NAMESPACE,
    METRICS_PORT,
    PROMETHEUS_NAMESPACE,
    PROMETHEUS_PORT,
    RAY_NODE,
    RAYJOB_LABEL,
    REAPER,
    SLEEPER,
    SUBMITTER_LABEL,
    SYSTEM_NAMESPACE,
)

HTTPS_PORT: Final = 443
Labels = Mapping[str, str]
Key = Literal["tiered_checkpoints", "in_cluster", "gpus", "efa", "alertmanager", "mlflow", "hyperpod_ray", "sleep"]

_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_RAY_HEAD: Final[Labels] = MappingProxyType({"ray.io/node-type": "head"})
_SUBMITTER: Final[Labels] = MappingProxyType({SUBMITTER_LABEL: "true"})
_RAYJOB: Final[Labels] = MappingProxyType({RAYJOB_LABEL: "true"})
# The label that the operator's chart sets.
_OPERATOR: Final[Labels] = MappingProxyType({"app.kubernetes.io/name": "kuberay-operator"})
_ALL: Final[Labels] = MappingProxyType({})
SLEEPER_PODS: Final[Labels] = MappingProxyType({"app.kubernetes.io/name": SLEEPER})
PROMETHEUS_PODS: Final[Labels] = MappingProxyType({"app.kubernetes.io/name": "prometheus"})
GRAFANA_PODS: Final[Labels] = MappingProxyType({"app.kubernetes.io/name": "grafana"})
DCGM_PODS: Final[Labels] = MappingProxyType({"app.kubernetes.io/name": DCGM_EXPORTER})
EFA_PODS: Final[Labels] = MappingProxyType({"app.kubernetes.io/name": EFA_EXPORTER})
ALERTMANAGER_PODS: Final[Labels] = MappingProxyType({"app.kubernetes.io/name": ALERTMANAGER})
# Prometheus; Grafana's container; Grafana's Service. The VPC CNI checks a packet before a Service's address is
# translated (EKS user guide, network policies: "the service port must be the same as the container port"). Its
# controller resolves a Service's port itself (amazon-network-policy-controller-k8s, getMatchingServicePort).
_CHARTS_PORTS: Final = (PROMETHEUS_PORT, GRAFANA_PORT, 80)


@dataclass(frozen=True)
class Peer:
    """The other end of a flow; `title` is its name for readers.

    It is the pods with `labels` in `namespace` (None: the policy's own), or the addresses of `block` without those of
    `left_out`.
    """

    title: str
    namespace: str | None = None
    labels: Labels | None = None
    block: str | None = None
    left_out: tuple[str, ...] = ()

    def specification(self) -> dict[str, Any]:
        """Return the peer as Kubernetes' NetworkPolicyPeer."""
        if self.block:
            return {"ipBlock": {"cidr": self.block, **({"except": list(self.left_out)} if self.left_out else {})}}
        peer: dict[str, Any] = {}
        if self.namespace is not None:
            peer["namespaceSelector"] = {"matchLabels": {_NAMESPACE_LABEL: self.namespace}}
        if self.labels is not None:
            peer["podSelector"] = {"matchLabels": dict(self.labels)}
        return peer


@dataclass(frozen=True)
class Flow:
    """Connections of a namespace's `pods` (`title` is their name for readers) from (`in`) or to (`out`) the peers.

    They use the TCP `ports` (none: every port), and with `udp` the same UDP ports. A flow with a `key` is allowed only
    if the environment enables that key.
    """

    name: str
    title: str
    pods: Labels
    direction: Literal["in", "out", "both"]
    peers: tuple[Peer, ...]
    reason: str
    ports: tuple[int, ...] = ()
    udp: bool = False
    key: Key | None = None

    def specification(self) -> dict[str, Any]:
        """Return the flow as Kubernetes' NetworkPolicySpec."""
        protocols = ("TCP", "UDP") if self.udp else ("TCP",)
        ports = [{"port": port, "protocol": protocol} for port in self.ports for protocol in protocols]
        peers = [peer.specification() for peer in self.peers]
        spec: dict[str, Any] = {"podSelector": {"matchLabels": dict(self.pods)} if self.pods else {}, "policyTypes": []}
        for direction, kind, side in (("in", "Ingress", "from"), ("out", "Egress", "to")):
            if self.direction in (direction, "both"):
                spec["policyTypes"].append(kind)
                spec[kind.lower()] = [{side: peers, **({"ports": ports} if ports else {})}]
        return spec


@dataclass(frozen=True)
class Ends:
    """What differs between environments: two namespaces, and MLflow's port."""

    ray_namespace: str
    operator_namespace: str
    tracking_port: int = HTTPS_PORT


def ends(environment: EksEnvironment) -> Ends:
    """Return the ends of the environment's flows."""
    port = HTTPS_PORT if environment.mlflow in (None, MANAGED) else port_of(environment.mlflow)
    return Ends(environment.ray.namespace, environment.kuberay.namespace, port)


def allowed(flows: tuple[Flow, ...], environment: EksEnvironment) -> tuple[Flow, ...]:
    """Return the flows without those whose key the environment does not enable."""
    return tuple(flow for flow in flows if flow.key is None or enabled(flow.key, environment))


def enabled(key: Key, environment: EksEnvironment) -> bool:
    """Return whether the environment enables a flow: by `aws_ray`, `observability`, its nodes, or a key of its own."""
    groups = {
        "gpus": environment.observed_gpu_groups,
        "efa": environment.observed_efa_groups,
        "sleep": environment.hyperpod.sleeping_groups,
    }
    if key in groups:
        return bool(groups[key])
    if key == "mlflow":
        return ends(environment).tracking_port != HTTPS_PORT
    if key == "hyperpod_ray":
        return environment.hyperpod_observability and hyperpod_ray.watches(environment.kuberay_version)
    if key == "alertmanager":
        return environment.alertmanager
    on = any(getattr(part, key, None) for part in (environment.aws_ray, environment.observability))
    return on or (key == "tiered_checkpoints" and environment.hyperpod.tiered_storage is not None)


# Without the link-local addresses: there, instance metadata gives a node's credentials to every caller.
_ANYWHERE: Final = Peer("any address but instance metadata", block="0.0.0.0/0", left_out=("169.254.0.0/16",))
_DNS: Final = Peer("CoreDNS", SYSTEM_NAMESPACE, {"k8s-app": "kube-dns"})
_MONITORING: Final = Peer(f"namespace `{PROMETHEUS_NAMESPACE}`", PROMETHEUS_NAMESPACE)
_HYPERPOD_METRICS: Final = "hyperpod-observability"
_HYPERPOD_COLLECTOR: Final = Peer(f"namespace `{_HYPERPOD_METRICS}`", _HYPERPOD_METRICS)
_CHECKPOINTS: Final = Peer(f"namespace `{HYPERPOD_NAMESPACE}`", HYPERPOD_NAMESPACE)

_SCRAPED: Final = "Prometheus scrapes them"
_COLLECTED: Final = "HyperPod's observability add-on collects Ray's metrics"
_ASKED_GPUS: Final = "the sleeper asks whether GPUs are busy before it lets their group sleep"
_ASKED: Final = "the sleeper asks for jobs and Serve's applications before it lets a group sleep"
_KUBERNETES_API: Final = "the Kubernetes API, whose addresses are not known in advance"


def _names_and_https(title: str, pods: Labels, https: str) -> tuple[Flow, Flow]:
    return (
        Flow("dns", title, pods, "out", (_DNS,), "DNS lookups", (53,), udp=True),
        Flow("https", title, pods, "out", (_ANYWHERE,), https, (443,)),
    )


def ray_flows(ends: Ends) -> tuple[Flow, ...]:
    """Return the flows of Ray's namespace."""
    heads, submitters = Peer("heads", labels=_RAY_HEAD), Peer("submitters", labels=_SUBMITTER)
    operator = Peer("the operator", ends.operator_namespace, _OPERATOR)
    sleeper = Peer("the sleeper", ends.operator_namespace, SLEEPER_PODS)
    https = "AWS's APIs, the Kubernetes API and package indexes: a policy cannot name hosts"
    charts = "the dashboard embeds Grafana's panels of Prometheus' series"
    code = "submitting a job runs code: only pods with the submitters' label may"
    status = "KubeRay asks for a RayJob's status"
    rayjobs = "pods of RayJobs and PyTorchJobs"
    inside = "operators choose the labels of these pods when they create them, so no policy can name a single job"
    return (
        *_names_and_https("all pods", _ALL, https),
        Flow("metrics", "Ray's pods", RAY_NODE, "in", (_MONITORING,), _SCRAPED, (METRICS_PORT,)),
        Flow("dashboard-charts", "heads", _RAY_HEAD, "out", (_MONITORING,), charts, _CHARTS_PORTS),
        Flow("submitted-jobs", "heads", _RAY_HEAD, "in", (submitters,), code, (DASHBOARD_PORT,)),
        Flow("submit-jobs", "submitters", _SUBMITTER, "out", (heads,), code, (DASHBOARD_PORT,)),
        Flow("operator", "heads", _RAY_HEAD, "in", (operator,), status, (DASHBOARD_PORT,)),
        Flow("sleeper", "heads", _RAY_HEAD, "in", (sleeper,), _ASKED, (DASHBOARD_PORT,), key="sleep"),
        Flow("inside-rayjobs", rayjobs, _RAYJOB, "both", (Peer(rayjobs, labels=_RAYJOB),), inside),
        Flow(
            "tiered-checkpoints",
            "Ray's pods",
            RAY_NODE,
            "out",
            (_CHECKPOINTS,),
            "HyperPod's checkpoint daemons hold checkpoints in the nodes' memory",
            (CHECKPOINTS_PORT,),
            key="tiered_checkpoints",
        ),
        _collected("Ray's pods", RAY_NODE),
        _tracking_flow(ends),
        Flow(
            *("supervisor-metrics", "submitters", _SUBMITTER, "in"),
            peers=(Peer("Prometheus", PROMETHEUS_NAMESPACE, PROMETHEUS_PODS),),
            reason=_SCRAPED,
            ports=(METRICS_PORT,),
            key="in_cluster",
        ),
    )


def _collected(title: str, pods: Labels) -> Flow:
    peers = (_HYPERPOD_COLLECTOR,)
    return Flow("hyperpod-metrics", title, pods, "in", peers, _COLLECTED, (METRICS_PORT,), key="hyperpod_ray")


def _tracking_flow(ends: Ends) -> Flow:
    reason = "jobs log to an MLflow server whose address has this port"
    return Flow("mlflow", "Ray's pods", RAY_NODE, "out", (_ANYWHERE,), reason, (ends.tracking_port,), key="mlflow")


def ray_cluster_flows(cluster: str) -> tuple[Flow, ...]:
    """Return the flows of one RayCluster: its pods reach each other, and no pods of another RayCluster."""
    members = {"ray.io/cluster": cluster}
    title = "pods of one RayCluster"
    reason = "Ray's processes connect to each other on random ports"
    return (Flow(f"inside-{cluster}", title, members, "both", (Peer(title, labels=members),), reason),)


def operator_flows(ends: Ends) -> tuple[Flow, ...]:
    """Return the flows of the operator's namespace; only metrics come in. Two charts have their own flows."""
    heads = Peer("heads", ends.ray_namespace, _RAY_HEAD)
    status = "it asks for a RayJob's status"
    return (
        *_names_and_https("the operator", _OPERATOR, _KUBERNETES_API),
        Flow("metrics", "all pods", _ALL, "in", (_MONITORING,), _SCRAPED, (METRICS_PORT,)),
        _collected("the operator", _OPERATOR),
        Flow("ray-jobs", "the operator", _OPERATOR, "out", (heads,), status, (DASHBOARD_PORT,)),
    )


def sleeper_flows(ends: Ends) -> tuple[Flow, ...]:
    """Return the flows of the program that lets instance groups sleep, in the operator's namespace."""
    own = ("the sleeper", SLEEPER_PODS)
    heads = Peer("heads", ends.ray_namespace, _RAY_HEAD)
    https = f"{_KUBERNETES_API}; STS and Lambda: a policy cannot name hosts"
    exporters = Peer("exporters of GPUs", GPU_METRICS_NAMESPACE, DCGM_PODS)
    return tuple(
        replace(flow, name=f"{SLEEPER}-{flow.name}", key=flow.key or "sleep")
        for flow in (
            *_names_and_https(*own, https),
            Flow("heads", *own, "out", (heads,), _ASKED, (DASHBOARD_PORT,)),
            # Without the exporters' namespace there is nobody to ask.
            Flow("gpus", *own, "out", (exporters,), _ASKED_GPUS, (DCGM_PORT,), key="gpus"),
        )
    )


def observability_flows(ends: Ends) -> tuple[Flow, ...]:
    """Return the flows of the namespace of Prometheus and Grafana, which `observability.in_cluster` makes."""
    prometheus, grafana = ("Prometheus", PROMETHEUS_PODS), ("Grafana", GRAFANA_PODS)
    scraped = (
        Peer("Ray's pods", ends.ray_namespace, RAY_NODE),
        Peer("submitters", ends.ray_namespace, _SUBMITTER),
        Peer("all pods of the operator's namespace", ends.operator_namespace, _ALL),
    )
    dns, https = _names_and_https(*prometheus, _KUBERNETES_API)
    series = "Grafana draws Prometheus' series"
    return (
        dns,
        https,
        replace(dns, name="grafana-dns", title=grafana[0], pods=grafana[1]),
        Flow("scrape", *prometheus, "out", scraped, _SCRAPED, (METRICS_PORT,)),
        _gpu_metrics(*prometheus, "out", Peer("exporters of GPUs", GPU_METRICS_NAMESPACE, DCGM_PODS)),
        _efa_metrics(*prometheus, "out", Peer("exporters of EFA", EFA_METRICS_NAMESPACE, EFA_PODS)),
        *(_shown_by_heads(ends, *pods) for pods in (prometheus, grafana)),
        Flow("series", *prometheus, "in", (Peer("Grafana", labels=GRAFANA_PODS),), series, (PROMETHEUS_PORT,)),
        Flow("read-series", *grafana, "out", (Peer("Prometheus", labels=PROMETHEUS_PODS),), series, (PROMETHEUS_PORT,)),
        *_alert_flows(),
    )


def _alert_flows() -> Iterator[Flow]:
    """Yield the flows of Alertmanager."""
    prometheus, own = ("Prometheus", PROMETHEUS_PODS), ("Alertmanager", ALERTMANAGER_PODS)
    fired, port = "Prometheus sends the alerts that fire", (ALERTMANAGER_PORT,)
    publish = "SNS and STS: a policy cannot name hosts"
    for flow in (
        *_names_and_https(*own, publish),
        Flow("take-alerts", *own, "in", (Peer(prometheus[0], labels=prometheus[1]),), fired, port),
    ):
        yield replace(flow, name=f"{ALERTMANAGER}-{flow.name}", key="alertmanager")
    yield Flow("alerts", *prometheus, "out", (Peer(own[0], labels=own[1]),), fired, port, key="alertmanager")


def gpu_metrics_flows(ends: Ends) -> tuple[Flow, ...]:
    """Return the flows of the namespace of the GPUs' exporters: nothing goes out."""
    own = ("exporters of GPUs", DCGM_PODS)
    prometheus = Peer("Prometheus", PROMETHEUS_NAMESPACE, PROMETHEUS_PODS)
    sleeper = Peer("the sleeper", ends.operator_namespace, SLEEPER_PODS)
    return (
        _gpu_metrics(*own, "in", prometheus),
        Flow(SLEEPER, *own, "in", (sleeper,), _ASKED_GPUS, (DCGM_PORT,), key="sleep"),
    )


def _gpu_metrics(title: str, pods: Labels, direction: Literal["in", "out"], peer: Peer) -> Flow:
    return Flow("scrape-gpus", title, pods, direction, (peer,), _SCRAPED, (DCGM_PORT,), key="gpus")


def efa_metrics_flows() -> tuple[Flow, ...]:
    """Return the flows of the namespace of EFA's exporters: Prometheus comes in, and nothing goes out."""
    prometheus = Peer("Prometheus", PROMETHEUS_NAMESPACE, PROMETHEUS_PODS)
    return (_efa_metrics("exporters of EFA", EFA_PODS, "in", prometheus),)


def _efa_metrics(title: str, pods: Labels, direction: Literal["in", "out"], peer: Peer) -> Flow:
    return Flow("scrape-efa", title, pods, direction, (peer,), _SCRAPED, (METRICS_PORT,), key="efa")


def _shown_by_heads(ends: Ends, title: str, pods: Labels) -> Flow:
    reason = "the dashboard embeds Grafana's panels of Prometheus' series"
    heads = Peer("heads", ends.ray_namespace, _RAY_HEAD)
    return Flow(f"{title.lower()}-charts", title, pods, "in", (heads,), reason, _CHARTS_PORTS)


_REAPER_PODS: Final[Labels] = MappingProxyType({"app.kubernetes.io/name": REAPER})
REAPER_FLOW: Final = Flow(REAPER, "the reaper", _REAPER_PODS, "out", (_ANYWHERE,), _KUBERNETES_API, (443,))

_ARCHIVES: Final = "EFA's installer fetches packages from Ubuntu's archives, which are signed and served without TLS"
IMAGE_BUILD_FLOWS: Final = (
    *_names_and_https("the image build", _ALL, "registries and package indexes"),
    Flow("http", "the image build", _ALL, "out", (_ANYWHERE,), _ARCHIVES, (80,)),
)
