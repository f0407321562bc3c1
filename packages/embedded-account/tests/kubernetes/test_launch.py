"""Test how a pod's container becomes a local process, without a cluster."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from embedded_account.kubernetes.api import KubernetesClient
from embedded_account.kubernetes.building.binaries import OPERATOR, Binaries
from embedded_account.kubernetes.pods.launch import Launch, prepare
from embedded_account.kubernetes.pods.programs import CALL_PODS, Program, containers_query, program_of, runs, table
from embedded_account.kubernetes.pods.references import ContainerConfigError
from embedded_account.kubernetes.pods.volumes import Volumes
from embedded_account.testing.cluster import Object

PROGRAM = Program(
    image=r"(^|/)team/tool([:@]|$)",
    entrypoint="/tool",
    executables={"/tool": Path("/local/tool")},
    ports={"--listen": 8080},
    arguments=("--namespace={namespace}",),
)


def launch(tmp_path: Path, volumes: Sequence[Object] = (), **container: object) -> Launch:
    pod: Object = {
        "metadata": {"name": "tool-1", "namespace": "ops", "uid": "u-1", "labels": {"app": "tool"}},
        "spec": {"nodeName": "system-1", "serviceAccountName": "tool", "volumes": [*volumes]},
    }
    nowhere = tmp_path / "none"
    api = KubernetesClient("https://localhost:1", ca=nowhere, certificate=nowhere, key=nowhere)
    own: Object = {"name": "tool", "image": "registry.example.invalid/team/tool:1"}
    return prepare(api, pod, own | container, PROGRAM, Volumes(api, pod, tmp_path))


def test_image_without_a_command_runs_its_entry_point(tmp_path: Path) -> None:
    assert launch(tmp_path).argv[0] == "/local/tool"


def test_listen_port_becomes_a_free_local_one(tmp_path: Path) -> None:
    given = launch(tmp_path, args=["--listen=:9090", "--verbose"])
    assert given.ports.keys() == {9090}
    assert list(given.argv[1:]) == ["--verbose", f"--listen=127.0.0.1:{given.ports[9090]}", "--namespace=ops"]
    assert launch(tmp_path).ports.keys() == {8080}


def test_variables_come_from_the_pod_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the caller's")
    fields = {"POD": "metadata.name", "NODE": "spec.nodeName", "APP": "metadata.labels['app']"}
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    env += [{"name": "WHERE", "value": "$(POD) on $(NODE), not $$(POD) or $(UNKNOWN)"}]
    variables = launch(tmp_path, env=env).environment
    assert variables["WHERE"] == "tool-1 on system-1, not $(POD) or $(UNKNOWN)"
    assert variables["APP"] == "tool"
    own = {"PATH", "HOME", "HOSTNAME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}
    assert variables.keys() == own | {"POD", "NODE", "APP", "WHERE"}


def test_pod_without_a_token_volume_has_no_identity(tmp_path: Path) -> None:
    assert "KUBECONFIG" not in launch(tmp_path).environment


def test_a_variable_has_the_address_of_the_pods_node_by_the_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node: Object = {"status": {"addresses": [{"type": "Hostname", "address": "n"}]}}
    monkeypatch.setattr(KubernetesClient, "get", lambda _, path: {"/api/v1/nodes/system-1": node}[path])
    env = [{"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]
    with pytest.raises(ContainerConfigError, match="system-1 has no internal address"):
        launch(tmp_path, env=env)
    node["status"]["addresses"].append({"type": "InternalIP", "address": "10.0.0.7"})
    assert launch(tmp_path, env=env).environment["HOST"] == "10.0.0.7"


def test_controllers_find_their_package_in_the_folder_of_its_volume(tmp_path: Path) -> None:
    given = launch(
        tmp_path,
        volumes=[{"name": "controllers", "emptyDir": {}}],
        env=[{"name": "PYTHONPATH", "value": "/opt/controllers/.."}],
        volumeMounts=[{"name": "controllers", "mountPath": "/opt/controllers", "readOnly": True}],
    )
    assert Path(given.environment["PYTHONPATH"], "controllers").resolve() == tmp_path / "volumes" / "controllers"


def test_mount_paths_become_folders_in_words_and_variables_once(tmp_path: Path) -> None:
    mounted = {
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
        "env": [{"name": "DIR", "value": "/tmp/a"}],
        "args": ["--directory=$(DIR)"],
    }
    given = launch(tmp_path, volumes=[{"name": "scratch", "emptyDir": {}}], **mounted)
    folder = f"{tmp_path}/volumes/scratch/a"
    assert (given.environment["DIR"], given.argv[1]) == (folder, f"--directory={folder}")


def test_source_that_is_not_simulated_is_refused(tmp_path: Path) -> None:
    for source in ({"resourceFieldRef": {"resource": "limits.cpu"}}, {"fieldRef": {"fieldPath": "status.podIP"}}):
        with pytest.raises(ContainerConfigError, match="the rehearsal does not support"):
            launch(tmp_path, env=[{"name": "X", "valueFrom": source}])


@pytest.mark.parametrize("image", ["team/tool", "team/tool:1", "mirror.example.invalid/a/team/tool@sha256:0"])
def test_image_is_recognised_wherever_it_is_mirrored(image: str) -> None:
    assert program_of([PROGRAM], image) is PROGRAM


@pytest.mark.parametrize("image", ["team/toolbox:1", "otherteam/tool:1", "tool"])
def test_other_image_is_left_to_kwok(image: str) -> None:
    assert program_of([PROGRAM], image) is None


def test_query_names_every_image_of_the_table() -> None:
    assert PROGRAM.image in containers_query([PROGRAM, PROGRAM], sandboxed=False)


@pytest.mark.parametrize(("module", "alone"), [("controllers.reaper", True), (CALL_PODS[0], False)])
def test_program_that_calls_pods_by_their_addresses_runs_in_sandboxes_only(module: str, *, alone: bool) -> None:
    spec = {"containers": [{"image": "team/tool", "command": ["python", "-m", module]}]}
    assert runs([PROGRAM], spec, sandboxed=True)
    assert runs([PROGRAM], spec, sandboxed=False) is alone
    given = [{"name": "AWS_ROLE_ARN", "value": "arn"}]
    assert runs([PROGRAM], {"containers": [spec["containers"][0] | {"env": given}]}, sandboxed=False)
    assert (module in containers_query([PROGRAM], sandboxed=False)) is not alone
    assert module not in containers_query([PROGRAM], sandboxed=True)


def test_an_operators_image_runs_the_operator_of_its_version_if_there_is_one(tmp_path: Path) -> None:
    for name in (OPERATOR, f"{OPERATOR}-1.6.2"):
        (tmp_path / name).touch()
    programs = table(Binaries(tmp_path))
    for tag, wanted in (("v1.6.2", f"{OPERATOR}-1.6.2"), ("v1.2.0", OPERATOR), ("v1.6.20", OPERATOR)):
        found = program_of(programs, f"quay.io/kuberay/operator:{tag}")
        assert found
        assert found.executables["/manager"].name == wanted
