"""The table of allowed connections in an environment, and the pods that it names."""

from dataclasses import replace
from itertools import product

from config import EksEnvironment
from config.model import Alerts, AwsRay, HyperPodObservability, InCluster, Observability
from k8s_charts.platform_objects import platform_objects
from k8s_charts.ray_objects import ray_objects
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.flows import enabled
from k8s_charts.shared.names import (
    EFA_METRICS_NAMESPACE,
    GPU_METRICS_NAMESPACE,
    HYPERPOD_NAMESPACE,
    IMAGE_BUILD_NAMESPACE,
    PROMETHEUS_NAMESPACE,
    RAYJOB_LABEL,
    REAPER,
    SLEEPER,
    SUBMITTER_LABEL,
    SYSTEM_NAMESPACE,
)
from rehearsal.paths import REPOSITORY
from tests.charts.support.facts import PLATFORM_FACTS, RAY_FACTS, Object
from tests.charts.support.network_policies import INTERNET, Pod

# Columns: source pods, target pods, ports (TCP unless marked UDP), and the key that opens the connection.
# All other connections from or to a pod of the project's namespaces are denied.
TABLE = (REPOSITORY / "docs" / "explain" / "isolation.md").read_text().partition("```table\n")[2].partition("```")[0]

RAY_PORTS = (6379, 8000, 8265, 10001, 44217, 52365)
PORTS = (22, 53, 80, 443, 3000, 5000, 8080, 8082, 9090, 9093, 9200, 9400, 10250, 12345, *RAY_PORTS)

Connection = tuple[str, str, int, str]
"""Source, target, port, protocol."""


def with_two_ray_clusters(environment: EksEnvironment) -> EksEnvironment:
    """Return the environment with a second RayCluster, `other`."""
    [cluster] = environment.ray.clusters
    both = (cluster, cluster.model_copy(update={"name": "other"}))
    return environment.model_copy(update={"ray": environment.ray.model_copy(update={"clusters": both})})


def with_aws_ray(environment: EksEnvironment) -> EksEnvironment:
    """Return the environment with all keys of `aws_ray` enabled."""
    return environment.model_copy(update={"aws_ray": AwsRay(**dict.fromkeys(AwsRay.model_fields, True))})


def with_in_cluster(environment: EksEnvironment, *, alertmanager: bool = False) -> EksEnvironment:
    """Return the environment with Prometheus and Grafana, and with a receiver of alerts if asked."""
    alerts = Alerts(emails=("ml-platform@example.com",) if alertmanager else ())
    return environment.model_copy(update={"observability": Observability(in_cluster=InCluster(), alerts=alerts)})


def with_hyperpod_ray(environment: EksEnvironment, kuberay: str = "1.6.2") -> EksEnvironment:
    """Return the environment with HyperPod's observability add-on and this KubeRay, beside its other parts."""
    observability = environment.observability.model_copy(update={"hyperpod": HyperPodObservability()})
    version = environment.kuberay.model_copy(update={"version": kuberay})
    return environment.model_copy(update={"observability": observability, "kuberay": version})


class Matrix:
    """The pods of an environment by the table's names, its policies, and all connections to check."""

    def __init__(self, environment: EksEnvironment) -> None:
        self.objects = _objects(environment)
        switches = [*environment.aws_ray, *environment.observability]
        switches += [(key, enabled(key, environment)) for key in ("mlflow", "gpus", "efa", "hyperpod_ray", "sleep")]
        switches += [("alertmanager", environment.alertmanager)]
        self._keys = {key if on else f"no {key}" for key, on in switches}
        self.policies = self.of_kind("NetworkPolicy")
        self.namespaces = {item["metadata"]["name"] for item in self.of_kind("Namespace")}
        self.pods = self._pods(environment)
        self.own = {name for name, pod in self.pods.items() if pod.namespace in self.namespaces}
        # Each connection has at least one end in the project's namespaces.
        self.connections: list[Connection] = [
            (source, target, port, protocol)
            for source, target in product(self.pods, self.pods)
            if {source, target} & self.own
            for port, protocol in product(PORTS, ("TCP", "UDP"))
        ]

    def of_kind(self, kind: str) -> list[Object]:
        """Return the environment's objects of a kind."""
        return [item for item in self.objects if item["kind"] == kind]

    def pods_in(self, namespace: str) -> set[str]:
        """Return the names of the pods of a namespace."""
        return {name for name, pod in self.pods.items() if pod.namespace == namespace}

    def allowed(self) -> set[Connection]:
        """Return the connections that the table allows, without those of pods that the environment lacks."""
        outside = self.pods.keys() - self.own - {"instance-metadata"}
        groups = {
            "@outside": outside,
            "@ray-nodes": {name for name in self.own if "ray.io/cluster" in self.pods[name].labels},
        }

        def named(cell: str) -> list[str]:
            return [name for word in cell.split() for name in groups.get(word, {word}) if name in self.pods]

        rows = [line.split("|") for line in TABLE.splitlines()[1:]]
        return {
            (source, target, port, protocol)
            for sources, targets, ports, *key in rows
            if {name.strip() for name in key} <= self._keys
            for source, target, (port, protocol) in product(named(sources), named(targets), _ports(ports))
        }

    def _exporters(self) -> dict[str, Pod]:
        """Return the exporters on nodes, and any other pod of their namespaces."""
        found = {}
        for part, namespace in (("gpu", GPU_METRICS_NAMESPACE), ("efa", EFA_METRICS_NAMESPACE)):
            for exporter in self.of_kind("DaemonSet"):
                if exporter["metadata"]["namespace"] == namespace:
                    found[f"{part}-exporter"] = Pod(namespace, _labels(exporter["spec"]))
                    found[f"{part}-pod"] = Pod(namespace)
        return found

    def _pods(self, environment: EksEnvironment) -> dict[str, Pod]:
        """Return the pods by name. Pods of the project carry the labels of the manifests."""
        ray, operators = environment.ray.namespace, environment.kuberay.namespace
        [reaper] = [item for item in self.of_kind("Deployment") if item["metadata"]["name"] == REAPER]
        found = {
            "submitter": Pod(ray, {SUBMITTER_LABEL: "true"}),
            "ray-pod": Pod(ray),
            "operator": Pod(operators, {"app.kubernetes.io/name": "kuberay-operator"}),
            "reaper": Pod(operators, reaper["spec"]["template"]["metadata"]["labels"]),
            "kuberay-pod": Pod(operators),
            "prometheus": Pod(PROMETHEUS_NAMESPACE, {"app.kubernetes.io/name": "prometheus"}),
            "grafana": Pod(PROMETHEUS_NAMESPACE, {"app.kubernetes.io/name": "grafana"}),
            **(_further_monitoring_pods() if PROMETHEUS_NAMESPACE in self.namespaces else {}),
            **self._exporters(),
            "checkpoints": Pod(HYPERPOD_NAMESPACE, {"app": "ai-toolkit"}),
            "collector": Pod("hyperpod-observability", {"app": "collector"}),
            "dns": Pod(SYSTEM_NAMESPACE, {"k8s-app": "kube-dns"}),
            "csi-controller": Pod(SYSTEM_NAMESPACE, {"app": "fsx-csi-controller"}),
            "stranger": Pod("default"),
            "internet": INTERNET,
            # EKS's API server has an address in the VPC.
            "api-server": replace(INTERNET, address="10.192.1.20"),
            "instance-metadata": replace(INTERNET, address="169.254.169.254"),
            "another-node": Pod(SYSTEM_NAMESPACE, {"k8s-app": "kube-proxy"}, address="10.192.64.5", host_network=True),
        }
        for deployment in self.of_kind("Deployment"):
            if deployment["metadata"]["name"] == SLEEPER:
                found["sleeper"] = Pod(operators, _labels(deployment["spec"]))
        for cluster in self.of_kind("RayCluster"):
            name, spec = cluster["metadata"]["name"], cluster["spec"]
            found[f"{name}-head"] = _ray_pod(ray, name, "head", spec["headGroupSpec"])
            found[f"{name}-worker"] = _ray_pod(ray, name, "worker", spec["workerGroupSpecs"][0])
            # As `ops job submit --as rayjob` copies it; KubeRay names the copy.
            of_rayjob = {"ray.io/cluster": "train-raycluster-x2k9p", RAYJOB_LABEL: "true"}
            for role in ("head", "worker"):
                original = found[f"{name}-{role}"]
                found[f"rayjob-{role}"] = replace(original, labels={**original.labels, **of_rayjob})
        for job in self.of_kind("Job"):
            namespace = job["metadata"]["namespace"]
            name = "builder" if namespace == IMAGE_BUILD_NAMESPACE else "directory-owner"
            found[name] = Pod(namespace, _labels(job["spec"]))
        for template in self.of_kind("CronJob"):
            found["supervisor"] = Pod(ray, _labels(template["spec"]["jobTemplate"]["spec"]))
        # Pods of another namespace with the same labels.
        roles = ("rayml-head", "submitter", "operator", "prometheus", "checkpoints", "collector", "dns")
        return found | {f"false-{role}": replace(found[role], namespace="default") for role in roles}


def _further_monitoring_pods() -> dict[str, Pod]:
    """Return the pods that are only in a namespace of the project's own."""
    alertmanager = Pod(PROMETHEUS_NAMESPACE, {"app.kubernetes.io/name": "alertmanager"})
    return {"monitoring-pod": Pod(PROMETHEUS_NAMESPACE), "alertmanager": alertmanager}


def _objects(environment: EksEnvironment) -> list[Object]:
    """Return every Kubernetes object of the environment, except those of Helm releases."""
    made = [platform_objects(environment, PLATFORM_FACTS), ray_objects(environment, RAY_FACTS)]
    values = [value for each in made for value in vars(each).values()]
    charts = [chart for value in values for chart in (value.values() if isinstance(value, dict) else [value])]
    return [item for chart in charts if isinstance(chart, ProjectChart) for item in chart.to_json()]


def _ray_pod(namespace: str, cluster: str, kind: str, group: Object) -> Pod:
    """Return a Ray pod with the labels that KubeRay 1.2.0 gives it (its common/pod.go)."""
    own = {"ray.io/is-ray-node": "yes", "ray.io/cluster": cluster, "ray.io/node-type": kind}
    return Pod(namespace, {**_labels(group), **own})


def _labels(spec: Object) -> dict[str, str]:
    found: dict[str, str] = spec["template"].get("metadata", {}).get("labels", {})
    return found


def _ports(cell: str) -> list[tuple[int, str]]:
    if cell.strip() == "*":
        return list(product(PORTS, ("TCP", "UDP")))
    return [(int(port), protocol or "TCP") for port, _, protocol in (word.partition("/") for word in cell.split())]
