"""The reaper's objects: minimal rights, and code for a plain Python image."""

import os
from pathlib import Path
from typing import Any

import cdk8s
import pytest

from config import labels
from config.facts.capacity import NodeResources
from config.facts.versions import PYTHON_IMAGE
from controllers.decision import LABELS
from controllers.lease import SAVE_SECONDS
from controllers.reaper import NAME, PERMISSIONS, Permission
from k8s_charts.controllers import code
from k8s_charts.controllers.reaper import ReaperChart, ReaperObjects
from k8s_charts.ray.pods import LOST_NODE_SECONDS, UNWELL_SECONDS, Common, Placement, worker_probe
from k8s_charts.ray.pods import pod as ray_pod
from k8s_charts.shared.names import REAPER, REAPER_CODE, SUBMITTER_LABEL

Object = dict[str, Any]


def objects() -> dict[str, Object]:
    """Return the objects by kind."""
    chart = ReaperChart(cdk8s.App(), "reaper", reaper=ReaperObjects("kuberay", "ray", PYTHON_IMAGE))
    return {item["kind"]: item for item in chart.to_json()}


@pytest.fixture(scope="module")
def made() -> dict[str, Object]:
    return objects()


@pytest.fixture(scope="module")
def pod(made: dict[str, Object]) -> Object:
    spec: Object = made["Deployment"]["spec"]["template"]["spec"]
    return spec


def verbs(role: Object, *, namespaced: bool) -> set[Permission]:
    return {
        Permission(verb, resource, namespaced, group)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_roles_give_what_the_code_asks_for_and_no_more(made: dict[str, Object]) -> None:
    given = verbs(made["ClusterRole"], namespaced=False) | verbs(made["Role"], namespaced=True)
    assert given == set(PERMISSIONS)


def test_it_may_touch_pods_in_rays_namespace_only(made: dict[str, Object]) -> None:
    assert (made["Role"]["metadata"]["namespace"], made["RoleBinding"]["metadata"]["namespace"]) == ("ray", "ray")
    for kind in ("Role", "ClusterRole"):
        binding = made[f"{kind}Binding"]
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": REAPER, "namespace": "kuberay"}]
        assert binding["roleRef"]["name"] == made[kind]["metadata"]["name"]


def test_users_of_rays_namespace_can_neither_change_the_reaper_nor_use_its_account(made: dict[str, Object]) -> None:
    for kind in ("ServiceAccount", "Deployment", "NetworkPolicy", "PodDisruptionBudget"):
        assert made[kind]["metadata"]["namespace"] == "kuberay"


def test_every_file_is_mounted_where_python_looks_for_it(pod: Object) -> None:
    [volume] = pod["volumes"]
    [container] = pod["containers"]
    [mount] = container["volumeMounts"]
    [path] = [item["value"] for item in container["env"] if item["name"] == "PYTHONPATH"]
    assert volume["configMap"] == {"name": REAPER_CODE}
    assert (mount["name"], mount["mountPath"]) == (volume["name"], os.path.normpath(f"{path}/controllers"))
    assert container["command"][-2:] == ["-m", "controllers.reaper"]


def test_changed_code_rolls_the_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = objects()["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    for name in ("__init__", "reaper"):
        (tmp_path / f"{name}.py").write_text("pass")
    monkeypatch.setattr(code, "PACKAGE", tmp_path)
    after = objects()["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert before.keys() == after.keys()
    assert before != after


def test_missing_code_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "PACKAGE", tmp_path / "controllers")
    with pytest.raises(FileNotFoundError):
        objects()


def test_a_node_is_lost_for_it_when_ray_pods_leave_it(pod: Object) -> None:
    words = dict(word.split("=", 1) for word in pod["containers"][0]["args"])
    assert float(words["--unready-seconds"]) == LOST_NODE_SECONDS
    assert words["--namespace"] == "ray"


def test_runs_can_save_before_the_liveness_probe_ends_a_worker_that_is_not_ready(pod: Object) -> None:
    words = dict(word.split("=", 1) for word in pod["containers"][0]["args"])
    assert float(words["--unwell-seconds"]) == UNWELL_SECONDS
    common, resources = Common("image", "claim", "/fsx"), NodeResources(cpu_millis=1000, memory_mib=1024)
    worker = ray_pod(common, Placement("gpu"), name="worker", resources=resources, probe=worker_probe(), env={})
    ready, live = (worker["containers"][0][probe] for probe in ("readinessProbe", "livenessProbe"))
    assert ready["exec"] == live["exec"]
    unready, ended = (probe["failureThreshold"] * probe["periodSeconds"] for probe in (ready, live))
    assert unready + UNWELL_SECONDS + SAVE_SECONDS < ended


def test_it_keeps_to_restricted_and_cannot_write(pod: Object) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 10_000
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]


def test_two_replicas_run_on_different_system_nodes(made: dict[str, Object], pod: Object) -> None:
    assert made["Deployment"]["spec"]["replicas"] == 2
    assert pod["nodeSelector"] == {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
    [term] = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    own = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= own.items()
    budget = made["PodDisruptionBudget"]["spec"]
    assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, own)


def test_egress_is_allowed_to_the_api_server_only(made: dict[str, Object]) -> None:
    spec = made["NetworkPolicy"]["spec"]
    own = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= own.items()
    assert spec["policyTypes"] == ["Egress"]
    [rule] = spec["egress"]
    assert rule["ports"] == [{"port": 443, "protocol": "TCP"}]


def test_names_are_those_of_the_code() -> None:
    """The reaper is shipped without `k8s_charts`, so it repeats the names."""
    assert (NAME, LABELS) == (REAPER, ("ray.io/cluster", SUBMITTER_LABEL))
