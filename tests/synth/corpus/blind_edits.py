"""Edit policies, pods and charts' files, for the pairs of the modules `blind_a_*` and `blind_b_*`.

Their verdicts were written from AWS's and Kubernetes' documentation, by somebody who had not seen the rules that judge
them. The pairs of `blind_b_*` were not run while rules changed.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.synth.corpus.editing import Edit

ROLE = "AWS::IAM::Role"
POLICY = "AWS::IAM::Policy"
ALARM = "AWS::CloudWatch::Alarm"
HYPERPOD = "Custom::HyperPodCluster"
WATCHED = "watched"
OBSERVED = "observed"
BUDGETED = "budgeted"


def statements(edit: Edit, part: str, construct: str) -> list[Any]:
    """Return the statements of a role's own policy, or of its first inline policy."""
    resources = edit.templates[part]["Resources"].items()
    [body] = [body for id, body in resources if id[:-8] == construct and body["Type"] in (ROLE, POLICY)]
    properties = body["Properties"]
    policy = properties["Policies"][0] if body["Type"] == ROLE else properties
    found: list[Any] = policy["PolicyDocument"]["Statement"]
    return found


def that_allows(edit: Edit, part: str, construct: str, action: str) -> Any:
    """Return the only statement of a role that names the action."""
    all = statements(edit, part, construct)
    [found] = [each for each in all if action in (each["Action"], *each["Action"]) and each["Effect"] == "Allow"]
    return found


def allow(action: Any, resource: Any, **others: Any) -> dict[str, Any]:
    """Return a statement that allows."""
    return {"Effect": "Allow", "Action": action, "Resource": resource} | others


def add_role(edit: Edit, part: str, name: str, *allowed: Any, **properties: Any) -> None:
    """Add a role that Lambda may take."""
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
    policy = {"PolicyName": "own", "PolicyDocument": {"Version": "2012-10-17", "Statement": list(allowed)}}
    trusted = {"Version": "2012-10-17", "Statement": [trust]}
    policies = {"Policies": [policy]} if allowed else {}
    edit.add(part, name, ROLE, **{"AssumeRolePolicyDocument": trusted, **policies, **properties})


def group(edit: Edit, name: str) -> Any:
    """Return an instance group of the HyperPod cluster."""
    groups = edit.properties("hyperpod", HYPERPOD)["InstanceGroups"]
    [found] = [each for each in groups if each["InstanceGroupName"] == name]
    return found


@contextmanager
def pod(edit: Edit, kind: str, name: str) -> Iterator[Any]:
    """Give the pod of a Deployment or CronJob of the stack of Ray."""
    with edit.object("ray", kind, name) as item:
        spec = item["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else item["spec"]
        yield spec["template"]["spec"]


@contextmanager
def container(edit: Edit, kind: str, name: str) -> Iterator[Any]:
    """Give the only container of a Deployment or CronJob of the stack of Ray."""
    with pod(edit, kind, name) as spec:
        [found] = spec["containers"]
        yield found


@contextmanager
def parsed(data: dict[str, Any], key: str) -> Iterator[Any]:
    """Give the content of a JSON text in a ConfigMap."""
    content = json.loads(data[key])
    yield content
    data[key] = json.dumps(content, indent=1)


def in_chart(edit: Edit, kind: str, name: str, change: Callable[[Any], None]) -> None:
    """Change one object of the chart that brings Prometheus and Grafana."""

    def changed(text: str) -> str:
        objects = [each for each in yaml.safe_load_all(text) if each]
        [found] = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
        change(found)
        return yaml.safe_dump_all(objects, sort_keys=False)

    edit.rewrite("files/objects.yaml", changed, holding="kube-prometheus")


def in_rules(edit: Edit, change: Callable[[list[Any]], None]) -> None:
    """Change the rules of Prometheus."""

    def changed(config: Any) -> None:
        with parsed(config["data"], "rules.yaml") as content:
            [found] = content["groups"]
            change(found["rules"])

    in_chart(edit, "ConfigMap", "prometheus", changed)


def in_prometheus(edit: Edit, change: Callable[[Any], None]) -> None:
    """Change the configuration of Prometheus."""

    def changed(config: Any) -> None:
        with parsed(config["data"], "prometheus.yaml") as content:
            change(content)

    in_chart(edit, "ConfigMap", "prometheus", changed)


def autoscaled(edit: Edit) -> None:
    """Let Ray scale the RayCluster, by a container as this project writes it."""
    amounts = {"cpu": "500m", "memory": "512Mi"}
    token = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        head = cluster["spec"]["headGroupSpec"]["template"]["spec"]
        sources = [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]
        head["volumes"].append({"name": "token", "projected": {"sources": sources}})
        cluster["spec"]["enableInTreeAutoscaling"] = True
        cluster["spec"]["autoscalerOptions"] = {
            "image": head["containers"][0]["image"],
            "imagePullPolicy": "IfNotPresent",
            "env": [{"name": "RAY_LOG_LEVEL", "value": "info"}],
            "idleTimeoutSeconds": 60,
            "upscalingMode": "Default",
            "resources": {"requests": amounts, "limits": dict(amounts)},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [token],
        }


@contextmanager
def autoscaler(edit: Edit) -> Iterator[Any]:
    """Give the RayCluster's `autoscalerOptions`."""
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        yield cluster["spec"]["autoscalerOptions"]
