"""Test that an update changes the service's state or is refused by the property's name: no change is ignored."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.core.exceptions import ServiceException

from embedded_account.cloudformation.templates.resource_types import resource_types
from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.services.eks.host import ClusterHost
from embedded_account.services.shared.resource_model import REGISTERED
from embedded_account.testing.clients import NODE_MODULES, Clients
from embedded_account.testing.fake_cluster import FakePlane
from embedded_account.testing.resources import ResourceModels
from embedded_account.testing.updates import CASES
from embedded_account.testing.waiting import wait_until
from tests.account.surroundings import Surroundings, state


def may_go(key: str, path: str) -> bool:
    """Return whether a template may omit the property at the path of this case."""
    types, case = resource_types(NODE_MODULES), CASES[key]
    properties, known = case.properties, types.get(key.split(maxsplit=1)[0])
    assert known
    declared = known.properties
    for name in path.split("."):
        if name not in properties or declared[name].required or path in case.defaults:
            return False
        properties, kind = properties[name], declared[name].type
        declared = types.definition(kind["reference"]["$ref"]) if kind["type"] == "ref" else {}
    return True


CHANGES = [(kind, path) for kind, case in CASES.items() for path in case.changes]
REFUSED = [(kind, path) for kind, case in CASES.items() for path in case.refused]
REMOVALS = [(key, path) for key, path in CHANGES if may_go(key, path)]


class Updated:
    """The resource of a case and the state of its service."""

    def __init__(self, account: Account, clients: Clients, kind: str) -> None:
        self._account, self._clients, self._kind = account, clients, kind.split(maxsplit=1)[0]
        self._resources, self._surroundings = ResourceModels(account), Surroundings(account, clients)
        self.properties: dict[str, Any] = self._surroundings.fill(CASES[kind].properties)
        self._instead = CASES[kind].instead
        self.model = self._resources.create(self._kind, copy.deepcopy(self.properties))
        self._wait()

    def update(self, properties: dict[str, Any]) -> None:
        self._resources.update(self.model, copy.deepcopy(properties))
        self._wait()

    def state(self) -> dict[str, Any]:
        return state(self._account, self._clients, self._kind)

    def with_value(self, path: str, *value: Any) -> dict[str, Any]:
        """Return the properties with this value at the path; without a value, the path is removed."""
        changed: dict[str, Any] = copy.deepcopy(self.properties)
        *above, last = path.split(".")
        inner: dict[str, Any] = changed
        for name in above:
            inner = inner.setdefault(name, {})
        if value:
            inner[last] = self._surroundings.fill(value[0])
            changed.pop(self._instead.get(path, ""), None)
        else:
            inner.pop(last)
        return changed

    def _wait(self) -> None:
        wait_until(self.model.is_created, self._kind)


@pytest.fixture
def updated(account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(account, "clusters", ClusterHost(account, lambda *_: FakePlane()))
    monkeypatch.setattr(account.clock, "scale", 5000.0)
    yield lambda kind: Updated(account, clients, kind)
    from embedded_account.services.eks.service import service_of

    service = service_of(account)
    for name, cluster in list(service.records.backend.clusters.items()):
        cluster.deletion_protection = False
        for group in list(cluster.nodegroups):
            service.node_groups.delete(name, group)
        service.delete_cluster(name)


def differences(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {place for place in before.keys() | after.keys() if before.get(place) != after.get(place)}


def beyond_noise(resource: Updated, properties: dict[str, Any]) -> set[str]:
    """Return the places in the service's state that an update to `properties` changes.

    An update without changes comes first: places that it changes do not count.
    """
    at_first = resource.state()
    resource.update(resource.properties)
    before = resource.state()
    noise = differences(at_first, before)
    resource.update(properties)
    return differences(before, resource.state()) - noise


@pytest.mark.parametrize(("kind", "path"), CHANGES)
def test_change_shows_in_the_service(updated: Any, kind: str, path: str) -> None:
    resource = updated(kind)
    identifier = resource.model.physical_resource_id
    assert beyond_noise(resource, resource.with_value(path, CASES[kind].changes[path]))
    assert resource.model.physical_resource_id == identifier


@pytest.mark.parametrize(("kind", "path"), REMOVALS)
def test_removal_shows_in_the_service_or_is_refused(updated: Any, kind: str, path: str) -> None:
    resource = updated(kind)
    try:
        seen = beyond_noise(resource, resource.with_value(path))
    except (ResourceError, ClientError, ServiceException):
        return  # The model or the service refused the removal.
    assert seen


@pytest.mark.parametrize(("kind", "path"), REFUSED)
def test_change_that_is_not_carried_out_is_refused_by_name(updated: Any, kind: str, path: str) -> None:
    resource = updated(kind)
    before = resource.state()
    with pytest.raises(ResourceError) as refusal:
        resource.update(resource.with_value(path, CASES[kind].refused[path]))
    name = path.split(".", maxsplit=1)[0]
    assert name in str(refusal.value)
    assert kind.split(maxsplit=1)[0] in str(refusal.value)
    assert differences(before, resource.state()) == set()


def test_key_is_deleted_after_the_window_of_its_last_update(updated: Any, account: Account, clients: Clients) -> None:
    key = updated("AWS::KMS::Key")
    key.update(key.with_value("PendingWindowInDays", 7))
    key.model.remove()
    found = clients("kms").describe_key(KeyId=key.model.physical_resource_id)["KeyMetadata"]
    assert (found["DeletionDate"] - account.clock.now()).days in (6, 7)


@pytest.mark.parametrize("preserved", [True, False])
def test_add_on_keeps_its_objects_if_its_last_update_says_so(updated: Any, account: Account, preserved: bool) -> None:
    addon = updated("AWS::EKS::Addon")
    addon.update(addon.with_value("PreserveOnDelete", True))
    addon.update(addon.with_value("PreserveOnDelete", preserved))
    addon.model.remove()
    api: Any = account.clusters.get("c").control_plane.api
    assert ("coredns" in api.names("deployments")) == preserved


def test_each_change_that_a_model_supports_is_tested() -> None:
    untried = {
        (kind, path)
        for kind, model in REGISTERED.items()
        for path in model.MUTABLE
        if not any(each == path or each.startswith(f"{path}.") for each in tried(kind))
    }
    assert untried == set()


def tried(kind: str) -> set[str]:
    """Return the paths of a type whose change a case tests."""
    cases = (case for key, case in CASES.items() if key.split()[0] == kind)
    return {path for case in cases for path in (*case.changes, *case.later)}
