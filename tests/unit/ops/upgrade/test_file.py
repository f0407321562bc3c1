"""What `ops upgrade --to` writes into an environment's file."""

import pytest

import config
from ops.errors import RefusedError
from ops.upgrade.file import with_set

HEAD = "# Ours\nproject: p\n\n"
RAY = "# The RayClusters\nray:\n  # the walkthrough's\n  version: 2.42.1\n  clusters: []   # none\n"


def test_a_set_is_written_and_the_keys_that_override_it_go() -> None:
    text = f"{HEAD}kuberay:\n  version: 1.6.2\n  namespace: kuberay\n\n{RAY}"
    assert with_set(config.load("dev"), text, "fixed") == (
        f"{HEAD}kuberay:\n  namespace: kuberay\n\nversions: fixed\n\n"
        "# The RayClusters\nray:\n  # the walkthrough's\n  clusters: []   # none\n"
    )


def test_a_set_in_the_file_is_replaced_and_its_comment_stays() -> None:
    text = "versions: walkthrough   # why\nray: {clusters: []}\n"
    assert with_set(config.load("dev"), text, "fixed") == "versions: fixed   # why\nray: {clusters: []}\n"


def test_a_mapping_that_only_overrides_goes_as_a_whole() -> None:
    text = "versions: fixed\nkuberay:\n  version: 1.6.2\nray: {version: 2.42.1, clusters: []}\n"
    assert with_set(config.load("dev"), text, "fixed") == "versions: fixed\nray: {clusters: []}\n"


def test_a_second_time_changes_nothing() -> None:
    once = with_set(config.load("dev"), f"{HEAD}{RAY}", "fixed")
    assert with_set(config.load("dev"), once, "fixed") == once


def test_an_image_of_ones_own_keeps_its_ray() -> None:
    environment = config.load("dev")
    image = environment.image.model_copy(update={"uri": "registry/ray:2.42.1"})
    own = environment.model_copy(update={"image": image})
    with pytest.raises(
        RefusedError, match=r"image.uri has Ray 2\.42\.1, and `--to fixed` needs Ray 2\.56\.1.* Fix: build"
    ):
        with_set(own, RAY, "fixed")
    assert with_set(own, RAY, "walkthrough") == f"versions: walkthrough\n\n{RAY}"
