"""Every object that this project renders is of a kind that the review knows."""

import copy
from functools import cache

import pytest

from config import available, load
from ops.review.model import Danger, Effect
from tests.support.rendered import Document, documents
from tests.unit.ops.review.kubernetes.assemblies import Environment, dangers, effects, helm_release, manifest


@cache
def _documents(name: str) -> list[Document]:
    return [each for file in documents(load(name)).values() for each in file]


def _objects(name: str) -> list[Document]:
    return [each for each in _documents(name) if "kind" in each]


def _releases(name: str) -> list[Document]:
    return [each for each in _documents(name) if "kind" not in each]


@pytest.mark.parametrize("name", available())
def test_every_object_is_of_a_known_kind(environment: Environment, name: str) -> None:
    objects = _objects(name)
    created = environment.changes({}, {"All": manifest(*objects)})
    assert len({each.resource for each in created}) == len(objects)
    assert Effect.UNKNOWN not in effects(created)
    assert Danger.UNKNOWN not in dangers(created)


@pytest.mark.parametrize("name", available())
def test_another_label_of_every_object_and_another_order_are_harmless(environment: Environment, name: str) -> None:
    objects = _objects(name)
    labelled = [
        {**each, "metadata": {**each["metadata"], "labels": {**each["metadata"].get("labels", {}), "team": "vision"}}}
        for each in objects
    ]
    found = environment.changes({"All": manifest(*objects)}, {"All": manifest(*reversed(labelled))})
    assert (effects(found), dangers(found)) == ({Effect.IN_PLACE}, set())
    assert len(found) == len(objects)


@pytest.mark.parametrize("place", [(), ("spec",)], ids=["top", "spec"])
def test_field_that_no_schema_has_is_unknown_in_every_object(environment: Environment, place: tuple[str, ...]) -> None:
    objects = [each for each in _objects("dev") if all(part in each for part in place)]
    changed = copy.deepcopy(objects)
    for each in changed:
        target = each
        for part in place:
            target = target[part]
        target["bypass"] = True
    found = environment.changes({"All": manifest(*objects)}, {"All": manifest(*changed)})
    stopped = {each.resource for each in found if each.effect is Effect.UNKNOWN}
    assert len({each.resource for each in found}) == len(objects)
    assert stopped == {each.resource for each in found}


@pytest.mark.parametrize("name", available())
def test_more_memory_for_every_release_is_harmless(environment: Environment, name: str) -> None:
    for release in _releases(name):
        more = {**release["values"], "resources": {"limits": {"memory": "9Gi"}}}
        sides = [{"A": helm_release(release["name"], values)} for values in (release["values"], more)]
        found = [each for each in environment.changes(*sides) if each.what != "chart"]
        assert (effects(found), dangers(found)) == ({Effect.IN_PLACE}, set())
