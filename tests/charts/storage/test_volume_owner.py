"""The Job that creates a directory for Ray's user on the file system: the only pod that runs as root."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from config import EksEnvironment, load
from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE
from config.model import Fsx
from k8s_charts.ray.pods import RAY_GROUP, RAY_USER
from k8s_charts.ray_objects import RayObjects, ray_objects
from k8s_charts.storage.directory_owner import SCRIPT
from tests.charts.support.facts import RAY_FACTS, Object


def with_fsx(environment: EksEnvironment, fsx: Fsx) -> RayObjects:
    file_system = None if fsx.dynamic else RAY_FACTS.file_system
    return ray_objects(environment.model_copy(update={"fsx": fsx}), replace(RAY_FACTS, file_system=file_system))


def job_of(objects: RayObjects) -> Object:
    [job] = objects.volume_owner["job"].to_json()
    return dict(job)


@pytest.fixture
def pod(dev_ray: RayObjects) -> Object:
    return dict(job_of(dev_ray)["spec"]["template"]["spec"])


def level_of(namespace: Object) -> str:
    return str(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"])


def test_root_may_change_owners_and_nothing_else(pod: Object) -> None:
    [container] = pod["containers"]
    assert pod["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert pod["nodeSelector"] == {SYSTEM_NODE_LABEL: SYSTEM_NODE_ROLE}


def test_directory_is_where_rays_pods_mount_the_file_system_and_belongs_to_their_user(dev: EksEnvironment) -> None:
    pod = job_of(with_fsx(dev, Fsx(mount_path="/shared")))["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["args"] == [str(RAY_USER), str(RAY_GROUP), "/shared/ray"]
    assert container["volumeMounts"] == [{"name": "file-system", "mountPath": "/shared"}]
    assert pod["volumes"] == [{"name": "file-system", "persistentVolumeClaim": {"claimName": "file-system"}}]


def test_directories_that_mirror_the_bucket_belong_to_rays_user_too() -> None:
    """A data repository association creates its directory as root. Jobs that cannot write there export nothing."""
    objects = ray_objects(load("prod"), RAY_FACTS)
    [container] = job_of(objects)["spec"]["template"]["spec"]["containers"]
    assert container["args"][2:] == ["/fsx/ray", "/fsx/datasets", "/fsx/results"]


def test_changed_work_is_another_job(dev: EksEnvironment, dev_ray: RayObjects) -> None:
    """A Job is immutable."""
    name = job_of(dev_ray)["metadata"]["name"]
    assert name.startswith("ray-directory-")
    assert job_of(with_fsx(dev, dev.fsx))["metadata"]["name"] == name
    assert job_of(with_fsx(dev, Fsx(mount_path="/shared")))["metadata"]["name"] != name


def test_rays_namespace_stays_restricted_and_root_has_a_closed_one_of_its_own(dev_ray: RayObjects) -> None:
    [ray, *_] = dev_ray.namespace.to_json()
    [own, *_] = dev_ray.volume_owner["namespace"].to_json()
    [policy] = dev_ray.volume_owner["policies"].to_json()
    name = own["metadata"]["name"]
    assert (level_of(ray), level_of(own)) == ("restricted", "baseline")
    assert job_of(dev_ray)["metadata"]["namespace"] == policy["metadata"]["namespace"] == name != "ray"
    assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_static_volume_is_claimed_a_second_time_beside_the_job(dev_ray: RayObjects) -> None:
    volume, claim = dev_ray.volume_owner["volume"].to_json()
    [ray_volume, _] = dev_ray.volume.to_json()
    assert volume["spec"]["csi"] == ray_volume["spec"]["csi"]
    assert volume["metadata"]["name"] != ray_volume["metadata"]["name"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["claimRef"] == {"namespace": "ray-volume", "name": "file-system"}
    assert (claim["metadata"]["namespace"], claim["metadata"]["name"]) == ("ray-volume", "file-system")


def test_dynamic_claim_has_the_job_beside_it_in_a_namespace_that_admits_root(dev: EksEnvironment) -> None:
    objects = with_fsx(dev, Fsx(provisioning="dynamic"))
    [namespace, *_] = objects.namespace.to_json()
    assert list(objects.volume_owner) == ["job"]
    job = job_of(objects)
    [volume] = job["spec"]["template"]["spec"]["volumes"]
    assert job["metadata"]["namespace"] == "ray"
    assert volume["persistentVolumeClaim"]["claimName"] == "fsx-claim"
    assert level_of(namespace) == "baseline"


def own(uid: int, gid: int, *directories: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT.read_text(), str(uid), str(gid), *map(str, directories)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_script_creates_the_directories_and_takes_over_existing_ones(tmp_path: Path) -> None:
    directories = [tmp_path / "ray", tmp_path / "linked" / "results"]
    for _ in range(2):
        assert own(os.getuid(), os.getgid(), *directories).returncode == 0
        for directory in directories:
            (directory / "result").touch()
    for directory in directories:
        assert (directory.stat().st_uid, directory.stat().st_gid) == (os.getuid(), os.getgid())
        assert directory.stat().st_mode & 0o700 == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives directories away")
def test_script_needs_no_right_of_root_but_to_change_owners(tmp_path: Path) -> None:
    rights = ["setpriv", "--bounding-set=-all,+chown", "--inh-caps=-all,+chown", "--no-new-privs"]
    directories = [tmp_path / "ray", tmp_path / "results"]
    (tmp_path / "results").mkdir()
    arguments = [str(RAY_USER), str(RAY_GROUP), *map(str, directories)]
    for _ in range(2):
        command = [*rights, sys.executable, "-c", SCRIPT.read_text(), *arguments]
        subprocess.run(command, check=True, capture_output=True)
    for status in (directory.stat() for directory in directories):
        assert (status.st_uid, status.st_gid) == (RAY_USER, RAY_GROUP)


def test_script_says_in_a_sentence_what_the_file_system_refuses(tmp_path: Path) -> None:
    (tmp_path / "ray").touch()
    result = own(os.getuid(), os.getgid(), tmp_path / "ray")
    assert result.returncode != 0
    assert result.stderr.count("\n") == 1
    assert "root must be able to make this directory" in result.stderr
