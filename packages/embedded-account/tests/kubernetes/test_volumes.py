"""Test the volumes of pods that really run, without a cluster."""

import base64
from pathlib import Path
from typing import Any

import pytest

from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError
from embedded_account.kubernetes.pods.references import ContainerConfigError
from embedded_account.kubernetes.pods.volumes import TOKEN_MOUNT, Mounts, Volumes
from embedded_account.testing.cluster import Object

NAMESPACE = "/api/v1/namespaces/ops"
OBJECTS: dict[str, Object] = {
    f"{NAMESPACE}/configmaps/code": {"data": {"main.py": "print()", "other.py": ""}, "binaryData": {"blob": "AAE="}},
    f"{NAMESPACE}/configmaps/kube-root-ca.crt": {"data": {"ca.crt": "PEM"}},
    f"{NAMESPACE}/secrets/key": {"data": {"token": base64.b64encode(b"\xff secret").decode()}},
}
# The API server's admission adds this volume to every pod that has a service account.
ACCOUNT = {
    "name": "kube-api-access",
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ],
    },
}


class FakeApi(KubernetesClient):
    """An API that returns `OBJECTS` and issues a new token for each request."""

    def __init__(self) -> None:
        self.tokens: list[Object] = []

    def get(self, path: str, **_: str) -> Object:
        if path in OBJECTS:
            return OBJECTS[path]
        raise KubernetesClientError(404, f"{path} not found")

    def create(self, path: str, body: Object) -> Object:
        assert path == f"{NAMESPACE}/serviceaccounts/tool/token"
        self.tokens.append(body["spec"])
        return {"status": {"token": f"token {len(self.tokens)}"}}


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


def volumes(api: FakeApi, directory: Path, *given: Object) -> Volumes:
    metadata = {"name": "tool-1", "namespace": "ops", "uid": "u-1"}
    return Volumes(api, {"metadata": metadata, "spec": {"serviceAccountName": "tool", "volumes": [*given]}}, directory)


def mounted(api: FakeApi, directory: Path, volume: Object, **mount: Any) -> Path:
    """Mount a volume; return its folder."""
    own = {"name": volume["name"], "mountPath": "/data"}
    return volumes(api, directory, volume).mount({"volumeMounts": [own | mount]}).folders["/data"]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_config_map_is_a_file_for_each_key(api: FakeApi, tmp_path: Path) -> None:
    folder = mounted(api, tmp_path, {"name": "code", "configMap": {"name": "code"}})
    assert files(folder) == {"main.py": b"print()", "other.py": b"", "blob": b"\0\1"}


def test_items_choose_keys_and_name_their_paths(api: FakeApi, tmp_path: Path) -> None:
    items = [{"key": "main.py", "path": "package/main.py"}]
    folder = mounted(api, tmp_path, {"name": "code", "configMap": {"name": "code", "items": items}})
    assert files(folder) == {"package/main.py": b"print()"}


def test_secret_is_decoded(api: FakeApi, tmp_path: Path) -> None:
    folder = mounted(api, tmp_path, {"name": "key", "secret": {"secretName": "key"}})
    assert files(folder) == {"token": b"\xff secret"}


def test_empty_directory_is_empty_and_can_be_written(api: FakeApi, tmp_path: Path) -> None:
    folder = mounted(api, tmp_path, {"name": "work", "emptyDir": {"medium": "Memory"}})
    (folder / "file").write_text("x")


def test_service_account_has_token_authority_and_namespace(api: FakeApi, tmp_path: Path) -> None:
    folder = mounted(api, tmp_path, ACCOUNT)
    assert files(folder) == {"token": b"token 1", "ca.crt": b"PEM", "namespace": b"ops"}
    [asked] = api.tokens
    assert asked["boundObjectRef"]["uid"] == "u-1", "the token must be bound to the pod"
    assert "audiences" not in asked


def test_token_is_renewed_when_most_of_its_lifetime_has_passed(api: FakeApi, tmp_path: Path) -> None:
    short = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 0, "path": "a/b"}}]}}
    made = volumes(api, tmp_path, short, ACCOUNT)
    mounts = [{"name": "t", "mountPath": "/t"}, {"name": ACCOUNT["name"], "mountPath": TOKEN_MOUNT}]
    folders = made.mount({"volumeMounts": mounts}).folders
    made.renew()
    assert len(api.tokens) == 3
    assert (folders["/t"] / "a" / "b").read_text() == "token 3"
    assert (folders[TOKEN_MOUNT] / "token").read_text() == "token 2"


@pytest.mark.parametrize(
    ("volume", "mount", "message"),
    [
        ({"persistentVolumeClaim": {"claimName": "x"}}, {}, "persistentVolumeClaim is not supported"),
        ({"hostPath": {"path": "/"}}, {}, "hostPath is not supported"),
        ({"emptyDir": {}}, {"subPath": "x"}, "subPath of a volume mount"),
        ({"configMap": {"name": "missing"}}, {}, "configmaps/missing not found"),
        ({"configMap": {"name": "code", "items": [{"key": "no", "path": "x"}]}}, {}, "no key no in configMap code"),
        ({"projected": {"sources": [{"clusterTrustBundle": {"path": "x"}}]}}, {}, "clusterTrustBundle"),
        (
            {"projected": {"sources": [{"downwardAPI": {"items": [{"path": "x", "resourceFieldRef": {}}]}}]}},
            {},
            "only fieldRef in a downwardAPI volume",
        ),
    ],
)
def test_what_is_not_simulated_is_refused(
    api: FakeApi, tmp_path: Path, volume: Object, mount: Object, message: str
) -> None:
    with pytest.raises(ContainerConfigError, match=message):
        mounted(api, tmp_path, {"name": "v", **volume}, **mount)


def test_what_is_optional_may_be_missing(api: FakeApi, tmp_path: Path) -> None:
    assert files(mounted(api, tmp_path, {"name": "v", "configMap": {"name": "missing", "optional": True}})) == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/data", "/local/v"),
        ("--file=/data/x.json", "--file=/local/v/x.json"),
        ("/data:/data/lib", "/local/v:/local/v/lib"),
        ("/data/inner/x", "/local/inner/x"),
        ("/database", "/database"),
        ("/data.old", "/data.old"),
        ("/other/data", "/other/data"),
        ("s3://bucket/data", "s3://bucket/data"),
    ],
)
def test_only_whole_mount_paths_are_replaced(text: str, found: str) -> None:
    mounts = Mounts({"/data": Path("/local/v"), "/data/inner": Path("/local/inner")})
    assert mounts.relocate(text) == found
