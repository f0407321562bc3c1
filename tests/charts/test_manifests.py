"""manifests/: the Kubernetes objects of an environment, for reviewers."""

from pathlib import Path

from config import load
from ops.render import manifests
from tests.support.rendered import documents


def test_manifests_name_what_only_a_deployment_knows() -> None:
    text = "".join(manifests.render(load("dev")).values())
    for placeholder in ("FileSystemId", "FileSystemDnsName", "RayRoleArn", "ImageBuilderRoleArn", "FsxCsiRoleArn"):
        assert f"${{{placeholder}}}" in text
    assert "${Token" not in text


def test_manifests_are_read_alike_by_kubernetes_yaml() -> None:
    """Kubernetes reads YAML 1.1, where an unquoted `yes` is a boolean."""
    policies = documents(load("dev"))[Path("dev/ray/policies.yaml")]
    selectors = [policy["spec"]["podSelector"] for policy in policies]
    assert {"matchLabels": {"ray.io/is-ray-node": "yes"}} in selectors


def test_changed_missing_and_surplus_files_are_stale_until_written(tmp_path: Path) -> None:
    environment = load("small")
    assert len(manifests.write(environment, tmp_path)) == len(manifests.render(environment))
    assert manifests.stale(environment, tmp_path) == []

    changed, missing = (tmp_path / "small" / "ray" / name for name in ("volume.yaml", "account.yaml"))
    surplus = tmp_path / "small" / "ray" / "gone.yaml"
    changed.write_text("other")
    missing.unlink()
    surplus.write_text("")
    assert set(manifests.stale(environment, tmp_path)) == {changed, missing, surplus}
    manifests.write(environment, tmp_path)
    assert manifests.stale(environment, tmp_path) == []
    assert not surplus.exists()


def test_files_of_environments_that_are_gone_are_abandoned(tmp_path: Path) -> None:
    for name in ("kept", "gone"):
        (tmp_path / name / "ray").mkdir(parents=True)
        (tmp_path / name / "ray" / "volume.yaml").write_text("")
    assert manifests.abandoned(["kept"], tmp_path) == [tmp_path / "gone" / "ray" / "volume.yaml"]
