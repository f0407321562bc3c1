"""Who may talk to whom. Ray 2.42.1 has no authentication: a port that is reached is a shell (CVE-2023-48022).

Everything is denied, then each flow is allowed by name; docs/isolation.md has them as a table. `kubectl port-forward`
and probes arrive from the node, which no policy keeps out; the mount of the file system is the node's traffic too.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cdk8s_plus_27 import k8s
from constructs import Construct

from k8s_charts.base import ProjectChart
from k8s_charts.limits import head_budget
from k8s_charts.names import DASHBOARD_PORT, PROMETHEUS_NAMESPACE, SUBMITTER_LABEL, SYSTEM_NAMESPACE

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_RAY_NODE = {"ray.io/is-ray-node": "yes"}
_RAY_HEAD = {"ray.io/node-type": "head"}
_SUBMITTER = {SUBMITTER_LABEL: "true"}
# As its chart labels its pods.
_OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}
_METRICS_PORT = 8080
# Prometheus; Grafana's container, and its Service: the VPC CNI looks before a Service's address is translated (EKS
# user guide, network policies: "the service port must be the same as the container port").
_CHARTS_PORTS = (9090, 3000, 80)
# But not the link-local addresses, where instance metadata gives a node's credentials to who asks.
_ANYWHERE = k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr="0.0.0.0/0", except_=["169.254.0.0/16"]))


class RayPoliciesChart(ProjectChart):
    """Policies of Ray's namespace, whose RayClusters are operated from `operator_namespace`."""

    def __init__(self, scope: Construct, id: str, *, namespace: str, operator_namespace: str) -> None:
        super().__init__(scope, id)
        policies = _Policies(self, namespace)
        policies.deny_all()
        policies.allow_dns_and_https()
        policies.allow("metrics", _RAY_NODE, from_=[_monitoring()], ports=[_METRICS_PORT])
        # The dashboard embeds Grafana's panels of Prometheus' series.
        policies.allow("dashboard-charts", _RAY_HEAD, to=[_monitoring()], ports=_CHARTS_PORTS)
        policies.allow("submitted-jobs", _RAY_HEAD, from_=[_pods(_SUBMITTER)], ports=[DASHBOARD_PORT])
        policies.allow("submit-jobs", _SUBMITTER, to=[_pods(_RAY_HEAD)], ports=[DASHBOARD_PORT])
        # It asks for a RayJob's status.
        operator = _namespace(operator_namespace, _OPERATOR)
        policies.allow("operator", _RAY_HEAD, from_=[operator], ports=[DASHBOARD_PORT])


class RayClusterPoliciesChart(ProjectChart):
    """The policy of one RayCluster: its pods reach each other, and never those of another."""

    def __init__(self, scope: Construct, id: str, *, namespace: str, cluster: str) -> None:
        super().__init__(scope, id)
        members = {"ray.io/cluster": cluster}
        inside = [_pods(members)]
        _Policies(self, namespace).allow(f"inside-{cluster}", members, from_=inside, to=inside)
        head_budget(self, namespace=namespace, cluster=cluster)


class OperatorPoliciesChart(ProjectChart):
    """Policies of the operator's namespace: nothing in but metrics, out to the Kubernetes API and to Ray's heads.

    The reaper brings its own.
    """

    def __init__(self, scope: Construct, id: str, *, namespace: str, ray_namespace: str) -> None:
        super().__init__(scope, id)
        policies = _Policies(self, namespace)
        policies.deny_all()
        policies.allow_dns_and_https(_OPERATOR)
        policies.allow("metrics", {}, from_=[_monitoring()], ports=[_METRICS_PORT])
        policies.allow("ray-jobs", _OPERATOR, to=[_namespace(ray_namespace, _RAY_HEAD)], ports=[DASHBOARD_PORT])


class ImageBuildPoliciesChart(ProjectChart):
    """Policies of the image build's namespace: nothing in; out to registries and package indexes."""

    def __init__(self, scope: Construct, id: str, *, namespace: str) -> None:
        super().__init__(scope, id)
        policies = _Policies(self, namespace)
        policies.deny_all()
        policies.allow_dns_and_https()
        # Ubuntu's archives are signed and served without TLS: EFA's installer takes what it needs from there.
        policies.allow("http", {}, to=[_ANYWHERE], ports=[80])


class _Policies:
    def __init__(self, chart: ProjectChart, namespace: str) -> None:
        self._chart = chart
        self._namespace = namespace

    def deny_all(self) -> None:
        self._policy("default-deny", k8s.NetworkPolicySpec(pod_selector={}, policy_types=["Ingress", "Egress"]))

    def allow_dns_and_https(self, pods: Mapping[str, str] = MappingProxyType({})) -> None:
        """Allow names, and https to anywhere: no policy knows a host by its name, nor EKS's API server."""
        self.allow("dns", pods, to=[_namespace(SYSTEM_NAMESPACE, {"k8s-app": "kube-dns"})], ports=[53], udp=True)
        self.allow("https", pods, to=[_ANYWHERE], ports=[443])

    def allow(
        self,
        name: str,
        pods: Mapping[str, str],
        *,
        from_: Sequence[k8s.NetworkPolicyPeer] = (),
        to: Sequence[k8s.NetworkPolicyPeer] = (),
        ports: Sequence[int] = (),
        udp: bool = False,
    ) -> None:
        """Allow traffic of `pods` from and to peers, on TCP `ports` (none: all ports) and with `udp` on UDP too."""
        protocols = ("TCP", "UDP") if udp else ("TCP",)
        allowed = [
            k8s.NetworkPolicyPort(port=k8s.IntOrString.from_number(port), protocol=protocol)
            for port in ports
            for protocol in protocols
        ] or None
        ingress = [k8s.NetworkPolicyIngressRule(from_=list(from_), ports=allowed)] if from_ else None
        egress = [k8s.NetworkPolicyEgressRule(to=list(to), ports=allowed)] if to else None
        types = [direction for direction, rule in (("Ingress", ingress), ("Egress", egress)) if rule]
        selector = k8s.LabelSelector(match_labels=dict(pods)) if pods else k8s.LabelSelector()
        spec = k8s.NetworkPolicySpec(pod_selector=selector, policy_types=types, ingress=ingress, egress=egress)
        self._policy(f"allow-{name}", spec)

    def _policy(self, name: str, spec: k8s.NetworkPolicySpec) -> None:
        metadata = k8s.ObjectMeta(name=name, namespace=self._namespace)
        k8s.KubeNetworkPolicy(self._chart, name, metadata=metadata, spec=spec)


def _pods(labels: Mapping[str, str]) -> k8s.NetworkPolicyPeer:
    return k8s.NetworkPolicyPeer(pod_selector=k8s.LabelSelector(match_labels=dict(labels)))


def _namespace(name: str, pods: Mapping[str, str] | None = None) -> k8s.NetworkPolicyPeer:
    return k8s.NetworkPolicyPeer(
        namespace_selector=k8s.LabelSelector(match_labels={_NAMESPACE_LABEL: name}),
        pod_selector=k8s.LabelSelector(match_labels=dict(pods)) if pods else None,
    )


def _monitoring() -> k8s.NetworkPolicyPeer:
    return _namespace(PROMETHEUS_NAMESPACE)
