"""Test which host names pods in sandboxes can resolve."""

from pathlib import Path

import pytest

from embedded_account.kubernetes.pods.sandbox.hosts import Hosts
from embedded_account.testing.cluster import Object

SERVICE_IP = "10.100.0.1"


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path, service_ip=SERVICE_IP)


def head(address: str | None = "10.245.0.7", *, ready: bool = True, **metadata: object) -> Object:
    conditions = [{"type": "Ready", "status": str(ready)}]
    own = {"name": "head-1", "namespace": "ray", "labels": {"role": "head", "more": "labels"}}
    return {"metadata": own | metadata, "status": {"conditions": conditions} | ({"podIP": address} if address else {})}


def service(**spec: object) -> Object:
    return {"metadata": {"name": "head-svc", "namespace": "ray"}, "spec": {"selector": {"role": "head"}} | spec}


def addresses(hosts: Hosts, namespace: str, name: str) -> list[str]:
    lines = [line.split() for line in hosts.of(namespace).read_text().splitlines()]
    return [address for address, *names in lines if name in names]


def test_service_leads_to_its_pod_by_each_of_its_names(hosts: Hosts) -> None:
    hosts.update([service()], [head()])
    for name in ("head-svc", "head-svc.ray", "head-svc.ray.svc", "head-svc.ray.svc.cluster.local"):
        assert addresses(hosts, "ray", name) == ["10.245.0.7"]


def test_short_name_is_known_in_its_own_namespace_only(hosts: Hosts) -> None:
    hosts.update([service()], [head()])
    assert addresses(hosts, "other", "head-svc") == []
    assert addresses(hosts, "other", "head-svc.ray.svc.cluster.local") == ["10.245.0.7"]


def test_name_leads_to_unready_pod_only_if_the_service_publishes_it(hosts: Hosts) -> None:
    hosts.update([service()], [head(ready=False)])
    assert addresses(hosts, "ray", "head-svc") == []
    hosts.update([service(publishNotReadyAddresses=True)], [head(ready=False)])
    assert addresses(hosts, "ray", "head-svc") == ["10.245.0.7"]


@pytest.mark.parametrize("pod", [head(address=None), head(deletionTimestamp="now"), head(labels={"role": "worker"})])
def test_pod_without_address_or_label_or_being_deleted_has_no_name(hosts: Hosts, pod: Object) -> None:
    hosts.update([service(publishNotReadyAddresses=True)], [pod])
    assert addresses(hosts, "ray", "head-svc") == []


def test_replaced_pod_is_found_by_a_process_with_the_file_open(hosts: Hosts) -> None:
    hosts.update([service()], [head()])
    with hosts.of("ray").open() as mounted:
        hosts.update([service()], [head("10.245.0.9")])
        assert "10.245.0.9 head-svc" in mounted.read()


def test_name_of_the_api_server_is_always_known(hosts: Hosts) -> None:
    assert addresses(hosts, "any", "kubernetes.default.svc") == [SERVICE_IP]
