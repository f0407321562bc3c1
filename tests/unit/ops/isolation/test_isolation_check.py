"""`ops isolation-check`: its output, the objects that it removes, and its exit codes."""

import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from config.model import AwsRay
from embedded_account.services.eks.add_ons.stand_ins import STAND_INS
from ops.commands.whole import app
from ops.isolation import probe
from ops.isolation.check import ProbeOutcome, verdict
from ops.isolation.plan import Connection, Origin, job, plan
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import PODS, condition

HEADS = {"rayml": "10.192.64.9"}
ORIGINS = plan(config.load("dev"), HEADS)
ELSEWHERE, BUILD = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/image-build/pods"
AWS_NODE = "/apis/apps/v1/namespaces/kube-system/daemonsets/aws-node"

Code = Callable[[Connection], int]


def as_it_must_be(connection: Connection) -> int:
    return probe.CONNECTED if connection.open else probe.TIMED_OUT


def check(*options: str) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, ["isolation-check", *options])


def head(*, ready: bool = True) -> dict[str, Any]:
    addresses = {"podIP": HEADS["rayml"], "hostIP": "10.192.64.5"}
    conditions = [condition("Ready", status=str(ready))]
    return {"metadata": {"name": "head"}, "status": {**addresses, "conditions": conditions}}


def tried(origin: Origin, code: Code) -> dict[str, Any]:
    """Return the finished pod of an origin."""
    statuses = [
        {
            "name": connection.container,
            "image": "python",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": {"exitCode": code(connection)}},
        }
        for connection in origin.connections
    ]
    return {"items": [{"metadata": {"name": origin.name}, "status": {"containerStatuses": statuses}}]}


def answer(apis: Apis, code: Code) -> None:
    """Serve pods with these outcomes, and no pods afterwards, when their Jobs are deleted."""
    gone: dict[str, Any] = {"items": []}
    in_ray = [tried(origin, code) for origin in ORIGINS if origin.namespace == "ray"]
    apis.kubernetes[PODS] = [{"items": [head()]}, *in_ray, gone]
    for path, name in ((ELSEWHERE, "pod-elsewhere"), (BUILD, "image-build")):
        apis.kubernetes[path] = [tried(next(o for o in ORIGINS if o.name == name), code), gone]


def made_and_deleted(apis: Apis) -> tuple[int, int]:
    changes = [change.partition(" ")[0] for change, _ in apis.changes]
    return changes.count("POST"), changes.count("DELETE")


def test_all_as_it_must_be_ends_with_0_and_leaves_nothing(apis: Apis) -> None:
    answer(apis, as_it_must_be)
    done = check()
    assert (done.exit_code, made_and_deleted(apis)) == (0, (4, 4))
    assert "dev is isolated: 14 connections are as expected" in done.stdout
    assert "probe pods removed" in done.stdout


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_connections_as_data_have_the_documented_shape(apis: Apis, options: tuple[str, ...]) -> None:
    answer(apis, as_it_must_be)
    done = check("-o", "json", *options)
    shown = json.loads(done.stdout)
    assert_same_shape(shown, documented("isolation-check"))
    assert len(shown["connections"]) == 14
    assert shown["isolated"] is (None if options else True)
    assert {each["open"] == each["must_be_open"] for each in shown["connections"]} == {not options}
    assert "14 connections" not in done.stdout


def test_one_that_gets_through_is_named_and_ends_with_1(apis: Apis) -> None:
    def leaky(connection: Connection) -> int:
        leak = (connection.origin, connection.port) == ("pod-elsewhere", 8265)
        return probe.CONNECTED if leak else as_it_must_be(connection)

    answer(apis, leaky)
    done = check()
    assert (done.exit_code, made_and_deleted(apis)) == (1, (4, 4))
    assert (
        "error: dev is not isolated: pod-elsewhere → rayml-head:8265 is open, but must be closed. "
        "Fix: see docs/explain/isolation.md\n" in done.stderr
    )


def test_unenforced_policies_are_reported_with_the_cni_s_state(apis: Apis) -> None:
    answer(apis, lambda _: probe.CONNECTED)
    agent = {"name": "aws-eks-nodeagent", "args": ["--enable-network-policy=false"]}
    spec = {"selector": {}, "template": {"spec": {"containers": [agent]}}}
    apis.kubernetes[AWS_NODE] = {"metadata": {"name": "aws-node"}, "spec": spec}
    done = check()
    assert done.exit_code == 1
    assert 'give the add-on vpc-cni {"enableNetworkPolicy": "true"}' in done.stdout
    assert "the NetworkPolicies are not enforced" in done.stderr


def test_a_rehearsal_is_named_before_anything_is_tried(apis: Apis) -> None:
    answer(apis, lambda _: probe.CONNECTED)
    [_, apis.kubernetes[AWS_NODE]] = STAND_INS["vpc-cni"]({"enableNetworkPolicy": "true"})
    done = check()
    assert (done.exit_code, apis.changes) == (1, [])
    assert done.stderr == (
        "error: a rehearsal does not enforce policies: nothing was tried. Fix: run this command against AWS, or add "
        "--dry-run\n"
    )
    done = check("--dry-run")
    assert done.exit_code == 0
    assert "a rehearsal does not enforce policies\n" in done.stdout


def test_a_probe_that_fails_is_no_answer(apis: Apis) -> None:
    answer(apis, lambda connection: 1 if connection.port == 6379 else as_it_must_be(connection))
    done = check()
    assert (done.exit_code, made_and_deleted(apis)) == (1, (4, 4))
    assert "the probe rayml-head-6379 of submitter ended with exit code 1" in done.stderr


def test_without_a_ready_head_nothing_is_tried(apis: Apis) -> None:
    apis.kubernetes[PODS] = {"items": [head(ready=False)]}
    done = check()
    assert (done.exit_code, apis.changes) == (1, [])
    assert "RayCluster ray/rayml has no ready head" in done.stderr


def test_a_dry_run_shows_what_would_be_tried_and_deletes_nothing_as_nothing_was_made(apis: Apis) -> None:
    answer(apis, as_it_must_be)
    done = check("--dry-run")
    assert (done.exit_code, made_and_deleted(apis)) == (0, (4, 0))
    assert done.stdout.count("must be open") == 2
    assert done.stdout.count("must be closed") == 12


def test_half_a_minute_is_the_shortest_patience(apis: Apis) -> None:
    answer(apis, as_it_must_be)
    assert check("--timeout", "30s").exit_code == 0
    refused = check("--timeout", "29s")
    assert refused.exit_code == 2
    assert "30s" in refused.output


def test_pods_that_may_not_be_made_end_with_2_and_the_reason(apis: Apis) -> None:
    answer(apis, as_it_must_be)
    apis.kubernetes["POST /apis/batch/v1/namespaces/ray/jobs"] = (403, {"kind": "Status", "message": "no jobs for you"})
    done = check()
    assert done.exit_code == 2
    assert "no jobs for you" in done.stderr


def test_only_the_submitter_carries_a_label_that_a_policy_knows() -> None:
    assert {origin.name: dict(origin.labels) for origin in ORIGINS} == {
        "submitter": {"ray-on-hyperpod/submitter": "true"},
        "pod-beside-ray": {},
        "pod-elsewhere": {},
        "image-build": {},
    }


def test_containers_are_named_by_what_they_try() -> None:
    for origin in ORIGINS:
        names = [connection.container for connection in origin.connections]
        assert len(set(names)) == len(names)


def with_checkpoints() -> list[Origin]:
    return plan(config.load("dev").model_copy(update={"aws_ray": AwsRay(tiered_checkpoints=True)}), HEADS)


def added(origins: list[Origin]) -> set[tuple[str, str, str, int, bool]]:
    """Return the connections that are tried in addition to those of every environment."""
    return {
        (origin.namespace, connection.origin, connection.host, connection.port, connection.open)
        for origin in origins
        for connection in origin.connections
        if origin not in ORIGINS
    }


def test_checkpoint_daemons_are_tried_where_ray_may_reach_them() -> None:
    host = "ai-toolkit-gossip-headless.aws-hyperpod.svc.cluster.local"
    assert added(plan(config.load("dev"), HEADS)) == set()
    assert added(with_checkpoints()) == {("ray", "pod-of-ray", host, 9200, True)}


def test_an_mlflow_server_with_its_own_port_is_tried() -> None:
    origins = plan(config.load("dev").model_copy(update={"mlflow": "http://mlflow.mlflow.svc:5000/api"}), HEADS)
    assert added(origins) == {("ray", "pod-of-ray", "mlflow.mlflow.svc", 5000, True)}
    assert added(plan(config.load("dev").model_copy(update={"mlflow": "managed"}), HEADS)) == set()


def test_the_submitter_asks_a_head_that_wants_a_token_without_one() -> None:
    dev = config.load("dev")
    [cluster] = dev.ray.clusters
    wanting = cluster.model_copy(update={"env": {"RAY_AUTH_MODE": "token"}})
    ray = dev.ray.model_copy(update={"clusters": (wanting,)})
    origins = plan(dev.model_copy(update={"ray": ray}), HEADS)
    [asked] = [connection for origin in origins for connection in origin.connections if connection.token]
    assert (asked.origin, asked.port, asked.open) == ("submitter", 8265, True)
    containers = job(origins[0], name="probe", image="python", settle=0, timeout=60)["spec"]["template"]["spec"][
        "containers"
    ]
    assert [each["name"] for each in containers if "TOKEN" in {v["name"] for v in each["env"]}] == [asked.container]
    assert verdict([ProbeOutcome(asked, probe.CONNECTED)]) == []
    assert verdict([ProbeOutcome(asked, probe.WITHOUT_TOKEN)]) == [
        "submitter → rayml-head:8265 is open without a token, but must want one"
    ]


def test_a_pod_of_ray_that_only_tries_belongs_to_no_ray_cluster() -> None:
    [origin] = [origin for origin in with_checkpoints() if origin.name == "pod-of-ray"]
    assert dict(origin.labels) == {"ray.io/is-ray-node": "yes"}


def test_unenforced_policies_are_recognised_although_one_port_is_refused() -> None:
    origins = with_checkpoints()
    connections = [connection for origin in origins for connection in origin.connections]
    outcomes = [ProbeOutcome(each, probe.REFUSED if each.port == 9200 else probe.CONNECTED) for each in connections]
    assert verdict(outcomes) == ["the NetworkPolicies are not enforced: every connection that they forbid is open"]


class TestProbe:
    def test_a_port_that_listens_is_open_and_one_that_does_not_is_refused(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            assert probe.attempt("127.0.0.1", port) == probe.CONNECTED
        assert probe.attempt("127.0.0.1", port) == probe.REFUSED

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (TimeoutError(), probe.TIMED_OUT),
            (socket.gaierror(), probe.NO_SUCH_NAME),
            (OSError(113, "No route to host"), probe.NO_WAY),
        ],
    )
    def test_causes_of_a_failed_connection_are_distinguished(
        self, monkeypatch: pytest.MonkeyPatch, error: OSError, code: int
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(socket, "create_connection", fail)
        assert probe.attempt("head", 8265) == code

    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            (b"HTTP/1.1 401 Unauthorized\r\n\r\nUnauthorized: Missing authentication token", probe.CONNECTED),
            (b"HTTP/1.1 200 OK\r\n\r\n{}", probe.WITHOUT_TOKEN),
            (b"", probe.WITHOUT_TOKEN),
        ],
    )
    def test_a_head_that_wants_a_token_must_refuse_a_request_without_one(
        self, monkeypatch: pytest.MonkeyPatch, answer: bytes, code: int
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(30)

            def serve() -> None:
                for _ in range(1 if code == probe.CONNECTED else 3):
                    with server.accept()[0] as client:
                        assert client.recv(1000).startswith(b"GET /api/")
                        client.sendall(answer)

            thread = threading.Thread(target=serve)
            thread.start()
            monkeypatch.setattr(time, "sleep", lambda _: None)
            port = str(server.getsockname()[1])
            for name, value in {"HOST": "127.0.0.1", "PORT": port, "SETTLE": "0", "TOKEN": "wanted"}.items():
                monkeypatch.setenv(name, value)
            assert probe.main() == code
            thread.join()

    def test_a_head_that_lets_it_in_late_is_open(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answers = iter([probe.TIMED_OUT, probe.CONNECTED])
        monkeypatch.setattr(probe, "attempt", lambda *_, **__: next(answers))
        monkeypatch.setattr(time, "sleep", lambda _: None)
        for name, value in {"HOST": "head", "PORT": "8265", "SETTLE": "0"}.items():
            monkeypatch.setenv(name, value)
        assert probe.main() == probe.CONNECTED
