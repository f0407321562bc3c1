"""A run counts from its submission to its end, whether or not a job of it is on a head: no command takes its nodes."""

import ast
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes.client.rest import RESTClientObject
from typer.testing import CliRunner, Result

import ops
from k8s_charts.controllers import job_supervisor
from k8s_charts.ray import viewers
from k8s_charts.ray.viewers import Rule
from ops.clients import Clients
from ops.commands.whole import app
from ops.destroy import steps
from ops.jobs.running import ray_clusters, running
from ops.upgrade import steps as steps_of_upgrade
from tests.unit.ops.change import test_by_hand, test_pause, test_rollout, test_scale
from tests.unit.ops.destroy.test_destroy import FakeCloudFormation, FakeStack, destroy  # noqa: F401 - a fixture
from tests.unit.ops.jobs.test_job import a_lease, a_run
from tests.unit.ops.nodes.test_node import ID, one_worker  # noqa: F401 - a fixture
from tests.unit.ops.upgrade.test_upgrade import Deployed, deployed  # noqa: F401 - a fixture
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import LEASES, RAY_CLUSTERS, RAY_JOBS, RUN_JOBS, WORKERS

scaled, paused, changed = test_scale.running, test_pause.running, test_rollout.changed
sleepy = test_by_hand.sleepy
NODE_CHANGES = ("drain", "reboot", "replace", "check")
COMMANDS: dict[str, tuple[str, Sequence[str]]] = {
    "scale": ("scaled", ("scale", WORKERS, "2")),
    "update-software": ("scaled", ("update-software",)),
    "pause": ("paused", ("pause",)),
    "rollout": ("changed", ("rollout", "rayml")),
    "sleep": ("sleepy", ("sleep", WORKERS)),
    **{f"node {name}": ("one_worker", ("node", name, ID)) for name in NODE_CHANGES},
}
"""Each command that ends jobs, except `destroy` and `upgrade`: the fixture with its environment, and its words."""
STATES: dict[str, tuple[dict[str, Any] | None, str]] = {
    "no supervisor yet": (None, "starting"),
    "queued": ({"phase": "queued", "attempt": 1}, "queued"),
    "waiting": ({"phase": "waiting for resources", "attempt": 1}, "waiting for resources"),
    "head lost": ({"phase": "waiting for the head", "attempt": 3, "session": "s"}, "waiting for the head"),
    "retrying": ({"phase": "waiting to retry", "attempt": 2}, "waiting to retry"),
    "state of another version": ({"later": ["unknown"]}, "starting"),
}
"""What a run's Lease says while no head lists a job of it; None: there is no Lease."""
UNREADABLE = ["", "{", "null", "[]", "7", '"text"']
"""States that no supervisor wrote."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def run_of(apis: Apis, state: dict[str, Any] | None) -> None:
    """Serve the Job of a run, and its Lease unless `state` is None."""
    apis.kubernetes[RUN_JOBS] = {"items": [a_run("night")]}
    apis.kubernetes[LEASES] = {"items": [] if state is None else [a_lease("night", **state)]}


def call(*words: str) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, [*words, "--yes"])


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("command", COMMANDS)
def test_run_without_a_job_on_a_head_is_named_and_nothing_changes(
    command: str, state: str, request: pytest.FixtureRequest
) -> None:
    fixture, words = COMMANDS[command]
    apis: Apis = request.getfixturevalue(fixture)
    lease, phase = STATES[state]
    run_of(apis, lease)
    result = call(*words)
    assert result.exit_code == 1, result.output
    assert f"RayCluster ray/rayml has unfinished jobs: run night ({phase}). Fix: " in result.stderr
    # A request to sleep overrides no user.
    assert ("override with `--force`" in result.stderr) is (command != "sleep")
    assert apis.changes == []


@pytest.mark.parametrize("command", COMMANDS)
def test_run_that_is_over_or_elsewhere_is_no_obstacle(command: str, request: pytest.FixtureRequest) -> None:
    fixture, words = COMMANDS[command]
    apis: Apis = request.getfixturevalue(fixture)
    ended, elsewhere = a_run("night", condition="Complete"), a_run("other")
    elsewhere["metadata"]["labels"]["ray-on-hyperpod/cluster"] = "second"
    apis.kubernetes[RUN_JOBS] = {"items": [ended, elsewhere]}
    result = call(*words, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "dry run: nothing was changed" in result.stdout


@pytest.mark.parametrize("text", UNREADABLE)
def test_run_whose_state_is_unreadable_counts(scaled: Apis, text: str) -> None:
    run_of(scaled, {})
    scaled.kubernetes[LEASES]["items"][0]["metadata"]["annotations"] = {"ray-on-hyperpod/state": text}
    result = call("scale", WORKERS, "2")
    assert "has unfinished jobs: run night (starting)" in result.stderr
    assert scaled.changes == []


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("clusters", [["rayml"], []], ids=["its RayCluster", "no RayCluster"])
def test_destroy_keeps_the_checkpoints_of_a_run(
    destroy: Callable[..., Result],  # noqa: F811
    apis: Apis,
    state: str,
    clusters: list[str],
) -> None:
    run_of(apis, STATES[state][0])
    apis.kubernetes[RAY_CLUSTERS] = {"items": [{"metadata": {"name": name}} for name in clusters]}
    result = destroy(FakeCloudFormation(ray=FakeStack()), "--yes")
    assert result.exit_code == 1, result.output
    assert f"run night ({STATES[state][1]})" in result.stderr


@pytest.mark.parametrize("state", STATES)
def test_upgrade_keeps_the_pods_of_a_run_and_deploys_nothing(deployed: Deployed, state: str) -> None:  # noqa: F811
    lease, phase = STATES[state]
    run_of(deployed.apis, lease)
    deployed.differ("ray")
    before = deployed.file.read_text()
    result = call("upgrade", "--to", "fixed")
    assert result.exit_code == 1, result.output
    assert f"RayCluster ray/rayml has unfinished jobs: run night ({phase}). Fix: " in result.stderr
    assert (deployed.file.read_text(), deployed.done) == (before, [])


def test_destroy_keeps_a_rayjob_that_waits_in_a_queue(destroy: Callable[..., Result], apis: Apis) -> None:  # noqa: F811
    """Kueue suspends it, and KubeRay then clears the name of its RayCluster."""
    labels = {"ray-on-hyperpod/run": "night", "ray-on-hyperpod/cluster": "rayml"}
    metadata = {"name": "night", "labels": labels, "creationTimestamp": "2026-11-01T10:00:00Z"}
    waiting = {"metadata": metadata, "spec": {"entrypoint": "a"}, "status": {"jobDeploymentStatus": "Suspended"}}
    apis.kubernetes[RAY_JOBS] = {"items": [waiting]}
    result = destroy(FakeCloudFormation(ray=FakeStack()), "--yes")
    assert result.exit_code == 1, result.output
    assert "RayJob night" in result.stderr


def test_saving_needs_no_answer_of_a_run_that_has_nothing_to_save(paused: Apis) -> None:
    """Its last checkpoint stays, and its supervisor submits it again."""
    run_of(paused, STATES["head lost"][0])
    result = call("pause", "--checkpoint")
    assert result.exit_code == 0, result.output
    assert paused.changes


def test_pods_that_wait_count_as_their_ray_cluster(scaled: Apis) -> None:
    """A node was never launched: the RayCluster loses a replica, but no pod."""
    scaled.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [test_scale.instance(n) for n in (1, 2)]}
    scaled.kubernetes[test_scale.ALL_PODS] = {"items": [test_scale.ray_pod(f"worker-{n}", n) for n in (1, 2)]}
    run_of(scaled, STATES["waiting"][0])
    result = call("scale", WORKERS, "2")
    assert result.exit_code == 1, result.output
    assert "has unfinished jobs: run night (waiting for resources)" in result.stderr
    assert scaled.changes == []


@pytest.mark.usefixtures("apis")
@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        ("viewers", (*viewers.NAMESPACE_RULES, *viewers.HYPERPOD_JOB_RULES)),
        ("submitters", (*job_supervisor.SUBMITTER_RULES, *job_supervisor.HYPERPOD_JOB_RULES)),
    ],
)
def test_roles_of_a_namespace_may_read_what_the_check_reads(
    kind: str, rules: Sequence[Rule], clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ops status` reads it, too. Admins may read everything everywhere (tests/synth/stacks/test_eks.py)."""
    asked: set[tuple[str, str]] = set()
    request = RESTClientObject.request

    def recorded(self: Any, method: str, url: str, **how: Any) -> Any:
        path = urlsplit(url).path.removeprefix("/")
        matched = re.fullmatch(r"(?:api/v1|apis/([^/]+)/[^/]+)/namespaces/ray/(\w+)", path)
        assert method == "GET"
        assert matched, f"{path} is no list of a namespace"
        asked.add((matched[1] or "", matched[2]))
        return request(self, method, url, **how)

    monkeypatch.setattr(RESTClientObject, "request", recorded)
    for namespace, cluster in ray_clusters(clients.kubernetes, "ray"):
        running(clients.kubernetes, namespace, cluster)
    assert {("batch", "jobs"), ("coordination.k8s.io", "leases"), ("ray.io", "rayjobs")} <= asked
    allowed = {
        (group, resource)
        for rule in rules
        if "list" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert asked <= allowed, kind


def test_every_command_that_asks_for_jobs_is_tried_here() -> None:
    """A new one must not be forgotten: who calls the check is read from the code."""
    tree = Path(ops.__file__).parent
    found = {
        (path.relative_to(tree).as_posix(), function.name)
        for path in tree.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and (call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", ""))
        in {"jobs_to_save", "refuse_jobs"}
    }
    confirm = {("change/confirm.py", name.replace("-", "_")) for name in COMMANDS if not name.startswith("node ")}
    assert found == {
        *confirm,
        ("commands/operate/node.py", "_change_of_eks"),
        ("destroy/steps.py", steps._refuse_jobs.__name__),
        ("change/saving.py", "jobs_to_save"),
        # Before anything changes, and again before the pods go: a job may have begun meanwhile.
        ("upgrade/steps.py", "upgrade"),
        ("upgrade/steps.py", steps_of_upgrade._replace_pods.__name__),
    }
