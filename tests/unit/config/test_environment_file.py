"""The values that an environment file may have, and the refusal of others."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import config
from config import ConfigError, load, load_any
from config.load import DIRECTORY


@pytest.fixture
def dev(tmp_path: Path) -> Any:
    """Return the document of dev.yaml, with a method that loads it after a change."""

    class Changed:
        document = YAML(typ="safe", pure=True).load(DIRECTORY / "dev.yaml")

        def load(self) -> config.Environment:
            YAML().dump(self.document, tmp_path / "changed.yaml")
            return load("changed", tmp_path)

        def refusal(self) -> str:
            with pytest.raises(ConfigError) as refusal:
                self.load()
            return str(refusal.value)

    return Changed()


@pytest.mark.parametrize("name", config.available())
def test_every_committed_environment_is_valid(name: str) -> None:
    assert load_any(name).name == name


def test_a_missing_key_is_named_with_its_path(dev: Any) -> None:
    del dev.document["hyperpod"]["instance_groups"][1]["count"]
    assert (
        "hyperpod.instance_groups.1 (worker-group-1).count: (missing) is invalid: the key is required. "
        in dev.refusal()
    )


def test_an_unknown_key_is_refused(dev: Any) -> None:
    dev.document["fsx"]["capacity"] = 1200
    assert "fsx.capacity: key 'capacity' is invalid: the key is unknown here. " in dev.refusal()


def test_a_number_in_quotes_is_not_a_number(dev: Any) -> None:
    dev.document["hyperpod"]["instance_groups"][1]["count"] = "4"
    assert (
        "count: '4' is invalid: it is text. Allowed: a whole number, 0 to 6758. Fix: write it without quotes: 4."
        in dev.refusal()
    )


def test_a_version_without_quotes_is_not_a_text(dev: Any) -> None:
    dev.document["eks"]["version"] = 1.35
    assert 'Fix: write it in quotes: "1.35".' in dev.refusal()


def test_a_kubernetes_version_that_hyperpod_refuses_is_refused(dev: Any) -> None:
    dev.document["eks"]["version"] = "1.36"
    assert "eks.version: '1.36' is invalid: HyperPod does not support it. Allowed: 1.32, 1.33, " in dev.refusal()


def test_all_findings_are_reported_at_once(dev: Any) -> None:
    del dev.document["region"]
    dev.document["fsx"]["capacity_gib"] = 1300
    dev.document["network"]["zones"] = ["us-west-2a", "usw2-az1"]
    refusal = dev.refusal()
    assert "region: (missing) is invalid" in refusal
    assert "fsx.capacity_gib: 1300 is invalid" in refusal
    assert "network.zones.0" in refusal


def test_a_zone_is_given_by_its_id(dev: Any) -> None:
    dev.document["network"]["zones"] = ["us-west-2a", "us-west-2b"]
    assert "'us-west-2a' is invalid: it is the name of a zone, and names mean different zones" in dev.refusal()


def test_one_zone_is_not_enough_for_eks(dev: Any) -> None:
    dev.document["network"]["zones"] = ["usw2-az2"]
    assert "network.zones" in dev.refusal()


def test_an_unknown_instance_type_names_the_known_ones(dev: Any) -> None:
    dev.document["hyperpod"]["instance_groups"][1]["instance_type"] = "ml.p5.24xlarge"
    said = "'ml.p5.24xlarge' is invalid: it is not in the catalogue. Allowed: ml.p5.4xlarge, ml.p5.48xlarge. Fix: "
    assert f"{said}did you mean 'ml.p5.4xlarge'? Or state the figures in type_facts." in dev.refusal()


def test_an_unknown_instance_type_beside_a_budget_and_alarms_is_a_finding(dev: Any) -> None:
    dev.document["hyperpod"]["instance_groups"][1]["instance_type"] = "ml.zz.xlarge"
    dev.document["notifications"] = {"email": "a@example.com", "monthly_budget_usd": 100}
    dev.document["observability"] = {"container_insights": {}}
    assert "'ml.zz.xlarge' is invalid: it is not in the catalogue. " in dev.refusal()


def test_an_ec2_name_of_a_type_is_told_from_hyperpod_s(dev: Any) -> None:
    dev.document["hyperpod"]["instance_groups"][1]["instance_type"] = "p5.48xlarge"
    assert "instance_type: 'p5.48xlarge' is invalid: it is an EC2 type. " in dev.refusal()
    assert "Fix: write ml.p5.48xlarge." in dev.refusal()


@pytest.mark.parametrize("kind", ["m7g.xlarge", "c7gn.2xlarge", "t4g.large"])
def test_system_nodes_of_another_processor_are_refused(dev: Any, kind: str) -> None:
    dev.document["eks"]["system_nodes"] = {"instance_type": kind}
    assert f"instance_type: '{kind}' is invalid: it is a Graviton type" in dev.refusal()


@pytest.mark.parametrize("kind", ["m5.xlarge", "g5.xlarge", "c6i.2xlarge", "m6in.large"])
def test_system_nodes_of_any_x86_type_are_allowed(dev: Any, kind: str) -> None:
    dev.document["eks"]["system_nodes"] = {"instance_type": kind}
    assert dev.load().eks.system_nodes.instance_type == kind


def test_deep_health_checks_need_an_accelerator(dev: Any) -> None:
    dev.document["hyperpod"]["instance_groups"][0]["deep_health_checks"] = ["InstanceStress"]
    assert "ml.m5.2xlarge has no accelerators to test" in dev.refusal()


def test_ray_on_a_group_that_does_not_exist_is_refused(dev: Any) -> None:
    dev.document["ray"]["clusters"][0]["head"]["instance_group"] = "heads"
    said = (
        "'heads' is invalid: hyperpod.instance_groups has no group of this name. Allowed: head-group, worker-group-1. "
    )
    assert f"{said}Fix: did you mean 'head-group'?" in dev.refusal()


def test_replicas_outside_their_bounds_are_refused(dev: Any) -> None:
    dev.document["ray"]["clusters"][0]["workers"][0]["replicas"] = 11
    assert (
        "replicas: 11 is invalid: max_replicas is 10. Allowed: 1 to 10. Fix: change replicas, or max_replicas."
        in dev.refusal()
    )


def test_the_name_inside_must_be_the_file_s(dev: Any) -> None:
    dev.document["name"] = "prod"
    assert "name: 'prod' is invalid: it is not the file's name. Allowed: changed. " in dev.refusal()


def test_an_environment_cannot_be_changed_after_it_was_read() -> None:
    environment = load("dev")
    with pytest.raises(ValueError, match="frozen"):
        environment.region = "eu-west-1"  # type: ignore[misc]  # mypy refuses it as well


def test_a_missing_file_lists_the_existing_environments() -> None:
    with pytest.raises(ConfigError, match=f"there is no such file. Allowed: {config.allowed_names()}. Fix: "):
        load("staging")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "yaml:1: the file is invalid: it is empty"),
        ("- a\n- b\n", "yaml:1: the document is invalid: it is a list"),
        ("region: a\nregion: b\n", "yaml:2 region: key 'region' is invalid: line 1 has the same key"),
        ("region:\n\t- a\n", "yaml:2: the indentation is invalid: a tab"),
        ("region: [a\n", "yaml:2: the syntax is invalid"),
        ("region: 2024-01-01\n", "yaml:1 region: 2024-01-01 is invalid: it is a date"),
    ],
    ids=["empty", "list", "duplicate key", "tab", "open bracket", "date"],
)
def test_a_file_that_is_not_a_mapping_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "broken.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load("broken", tmp_path)


def test_node_subnets_hold_thousands_of_addresses_and_do_not_overlap() -> None:
    network = load("prod").network
    subnets = [
        subnet
        for zone in range(len(network.zones))
        for subnet in (network.node_subnet(zone), network.public_subnet(zone), network.control_plane_subnet(zone))
    ]
    assert all(subnet.subnet_of(network.vpc_cidr) for subnet in subnets)
    assert not any(a.overlaps(b) for index, a in enumerate(subnets) for b in subnets[index + 1 :])
    assert network.node_subnet(0).num_addresses == 16384
