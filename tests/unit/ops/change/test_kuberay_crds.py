"""`ops kuberay crds` against fake APIs; tests/rehearsal/kubernetes uses a real API server."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from config.facts import charts_lock
from ops.commands.whole import app
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis

KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "rayclusters.ray.io"
RELEASES = "/api/v1/namespaces/kube-system/secrets"
OURS = {"meta.helm.sh/release-name": "kuberay-crds", "meta.helm.sh/release-namespace": "kube-system"}
OTHERS = {"meta.helm.sh/release-name": "kuberay", "meta.helm.sh/release-namespace": "default"}


def run(*arguments: str, **how: Any) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, ["kuberay", "crds", *arguments], **how)


def definition(annotations: dict[str, str] | None = None, **fields: str) -> dict[str, Any]:
    schema = {"properties": {name: {"type": kind} for name, kind in fields.items()}}
    return {
        "metadata": {"name": NAME, "annotations": annotations or {}},
        "spec": {"group": "ray.io", "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
        "status": {"storedVersions": ["v1"]},
    }


@pytest.fixture
def cluster(apis: Apis, monkeypatch: pytest.MonkeyPatch) -> Apis:
    """Return a cluster that accepts the definitions of the chart of `dev`."""

    def unpack(_name: str, directory: Path, version: str) -> Path:
        assert version == "1.2.0"
        (directory / "crds").mkdir()
        (directory / "crds" / "a.yaml").write_text(json.dumps(definition(a="string")))
        return directory

    monkeypatch.setattr(charts_lock, "unpack", unpack)
    apis.kubernetes[KINDS] = {"items": []}
    apis.kubernetes[RELEASES] = {"items": []}
    apis.kubernetes[f"PATCH {KINDS}/{NAME}"] = definition(a="string")
    return apis


def test_equal_kinds_of_the_platform_stack_need_nothing(cluster: Apis) -> None:
    cluster.kubernetes[KINDS] = {"items": [definition(OURS, a="string")]}
    result = run("--env", "dev")
    assert result.exit_code == 0, result.output
    told = f"{NAME}: the same as in KubeRay 1.2.0; owned by the platform stack; objects are stored as v1"
    assert told in result.stdout


def test_fields_that_an_upgrade_removes_are_named(cluster: Apis) -> None:
    cluster.kubernetes[KINDS] = {"items": [definition(OURS, **dict.fromkeys("bcdefgh", "string"))]}
    result = run()
    assert result.exit_code == 0, "to lose a field that nothing uses is no error"
    told = "KubeRay 1.2.0 adds 1 fields and removes 7 (v1.b, v1.c, v1.d, v1.e, v1.f, …)"
    assert told in result.stdout


def test_comparing_changes_nothing(cluster: Apis) -> None:
    run()
    assert [what for what, _ in cluster.changes] == [f"PATCH {KINDS}/{NAME}"], "a dry run of the API server's"


def test_kinds_from_which_helm_4_took_the_owner_are_the_releases(cluster: Apis) -> None:
    cluster.kubernetes[KINDS] = {"items": [definition(a="string")]}
    cluster.kubernetes[RELEASES] = {"items": [{"metadata": {"name": "sh.helm.release.v1.kuberay-crds.v1"}}]}
    result = run("--env", "dev")
    assert result.exit_code == 0, result.output
    assert "owned by the platform stack" in result.stdout


def test_kinds_without_an_owner_name_the_command_that_adopts_them(cluster: Apis) -> None:
    cluster.kubernetes[KINDS] = {"items": [definition(a="string")]}
    result = run()
    assert result.exit_code == 1
    assert "`ops kuberay crds --adopt --env dev`" in result.stdout
    assert "would fail on these CRDs" in result.stderr


def test_crds_as_data_have_the_documented_shape(cluster: Apis) -> None:
    cluster.kubernetes[KINDS] = {"items": [definition(a="string")]}
    result = run("-o", "json")
    shown = json.loads(result.stdout)
    assert result.exit_code == 1
    assert_same_shape(shown, documented("kuberay", "crds"))
    assert [(shown["accepted"], each["owner"], each["accepted"]) for each in shown["crds"]] == [(False, "none", False)]
    assert "`ops kuberay crds --adopt --env dev`" in result.stderr


def test_adopted_kinds_are_marked_as_the_releases(cluster: Apis) -> None:
    cluster.kubernetes[KINDS] = [{"items": [definition(a="string")]}, {"items": [definition(OURS, a="string")]}]
    result = run("--adopt", "--yes")
    assert result.exit_code == 0, result.output
    marks = [body for _, body in cluster.changes if "spec" not in body]
    assert marks == [{"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": OURS}}]
    assert "with all their objects in the cluster" in result.stdout


def test_without_confirmation_nothing_is_adopted(cluster: Apis, terminal: None) -> None:
    cluster.kubernetes[KINDS] = {"items": [definition(a="string")]}
    assert run("--adopt", input="n\n").exit_code == 1
    assert all("spec" in body for _, body in cluster.changes)


def test_kinds_of_another_release_are_never_adopted(cluster: Apis) -> None:
    cluster.kubernetes[KINDS] = {"items": [definition(OTHERS, a="string")]}
    result = run("--adopt", "--yes")
    assert result.exit_code == 1
    assert "owned by another Helm release (default/kuberay)" in result.stdout
    assert all("spec" in body for _, body in cluster.changes)


def test_the_api_servers_refusal_is_quoted(cluster: Apis) -> None:
    cluster.kubernetes[KINDS] = {"items": [definition(OURS)]}
    cluster.kubernetes[f"PATCH {KINDS}/{NAME}"] = (422, {"kind": "Status", "message": "status.storedVersions[0]: …"})
    result = run()
    assert result.exit_code == 1
    assert f"{NAME}: the API server refuses the CRD of KubeRay 1.2.0: status.storedVersions[0]: …" in result.stdout


def test_a_chart_that_is_not_cached_names_the_command_that_fetches_it(
    apis: Apis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(tmp_path))
    result = run()
    assert result.exit_code == 2
    assert "Fix: `ops charts fetch`" in result.stderr
