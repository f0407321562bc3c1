"""The catalogue of instance types agrees with AWS's SDK and with moto's record of EC2."""

import re
from fnmatch import fnmatchcase
from typing import Any

import pytest
from botocore.loaders import Loader
from moto.ec2.models.instance_types import INSTANCE_TYPES
from pydantic import ValidationError
from ruamel.yaml import YAML

from config.estimates import costs
from config.facts.instance_types import (
    CATALOGUE_FILE,
    InstanceType,
    InstanceTypeFacts,
    catalogue,
    instance_type,
    regions_of,
)
from config.facts.regions import regions
from config.facts.tables import read_table

pytestmark = pytest.mark.table("config/facts/instance_types.yaml")
ALL = list(catalogue().values())
HYPERPOD_TYPES = set(Loader().load_service_model("sagemaker", "service-2")["shapes"]["ClusterInstanceType"]["enum"])
LEFT_OUT: dict[str, str] = read_table(CATALOGUE_FILE)["left_out"]
FACTS: dict[str, Any] = {
    "vcpus": 8,
    "memory_gib": 32,
    "threads_per_core": (1, 2),
    "pod_cap": 14,
    "ips_per_node": 15,
}


def by_name(kind: InstanceType) -> str:
    return kind.name


@pytest.mark.parametrize("kind", ALL, ids=by_name)
def test_nominal_figures_are_ec2_s(kind: InstanceType) -> None:
    """moto contains a record of EC2's DescribeInstanceTypes."""
    ec2 = INSTANCE_TYPES[kind.name.removeprefix("ml.")]
    network, cpu = ec2["NetworkInfo"], ec2["VCpuInfo"]
    gpus = ec2.get("GpuInfo", {}).get("Gpus", [])
    neuron = ec2.get("NeuronInfo", {}).get("NeuronDevices", [])
    assert kind.vcpus == cpu["DefaultVCpus"]
    assert kind.memory_gib == ec2["MemoryInfo"]["SizeInMiB"] // 1024
    assert list(kind.threads_per_core) == cpu.get("ValidThreadsPerCore", [1, 2])
    assert kind.accelerators == sum(each["Count"] for each in (*gpus, *neuron))
    assert kind.accelerator_resource == ("nvidia.com/gpu" if gpus else "aws.amazon.com/neuron" if neuron else None)
    assert kind.efa == network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    assert ec2["ProcessorInfo"]["SupportedArchitectures"] == ["x86_64"]


@pytest.mark.parametrize("kind", ALL, ids=by_name)
def test_estimates_follow_the_rules_that_the_file_states(kind: InstanceType) -> None:
    network = INSTANCE_TYPES[kind.name.removeprefix("ml.")]["NetworkInfo"]
    assert kind.pod_cap == network["Ipv4AddressesPerInterface"] - 1
    assert kind.ips_per_node == kind.pod_cap + network["MaximumNetworkCards"]
    assert kind.hugepages_mib == (2 * (110 * kind.vcpus + 1) if kind.efa else 0)


@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("ml.g5.2xlarge", 14),
        ("ml.g5.8xlarge", 29),
        ("ml.g5.48xlarge", 49),
        ("ml.p4d.24xlarge", 49),
        ("ml.p5.48xlarge", 49),
        ("ml.m5.2xlarge", 14),
        ("ml.m5.12xlarge", 29),
        ("ml.t3.medium", 5),
    ],
)
def test_pod_caps_that_aws_documents_are_in_the_file(name: str, pods: int) -> None:
    kind = catalogue()[name]
    assert kind.pod_cap == pods
    assert "pod_cap" not in kind.unverified


@pytest.mark.parametrize(("name", "addresses"), [("p5", 81), ("p5e", 81), ("trn2", 65)])
def test_addresses_that_are_documented_are_in_the_file(name: str, addresses: int) -> None:
    kind = catalogue()[f"ml.{name}.48xlarge"]
    assert kind.ips_per_node == addresses
    assert "ips_per_node" not in kind.unverified


@pytest.mark.table("packages/embedded-account/pyproject.toml")
def test_moto_s_record_of_ec2_has_every_type_of_the_catalogue() -> None:
    unknown = {name for name in catalogue() if name.removeprefix("ml.") not in INSTANCE_TYPES}
    assert unknown == set(), "a newer moto knows a newer type"


def test_hyperpod_s_api_takes_every_type_of_the_catalogue() -> None:
    assert catalogue().keys() - HYPERPOD_TYPES == set(), "a newer botocore knows a newer type"


def test_types_of_hyperpod_s_api_missing_from_the_catalogue_are_listed_as_left_out() -> None:
    missing = HYPERPOD_TYPES - catalogue().keys()
    left_out = {
        name: [pattern for pattern in LEFT_OUT if fnmatchcase(name, f"ml.{pattern}")]
        for name in HYPERPOD_TYPES | catalogue().keys()
    }
    assert {name for name in missing if not left_out[name]} == set()
    assert {name for name in catalogue() if left_out[name]} == set()
    assert {pattern for patterns in left_out.values() for pattern in patterns} == LEFT_OUT.keys()
    assert all(LEFT_OUT.values())


def test_every_type_says_where_its_figures_come_from() -> None:
    assert all(kind.source != InstanceTypeFacts.model_fields["source"].default for kind in ALL)


def test_the_catalogue_has_no_duplicate_keys() -> None:
    assert YAML(typ="safe").load(CATALOGUE_FILE) == read_table(CATALOGUE_FILE)


@pytest.mark.table("config/estimates/prices.yaml")
def test_the_prices_have_no_duplicate_keys() -> None:
    assert YAML(typ="safe").load(costs.PRICES_FILE) == read_table(costs.PRICES_FILE)


def test_a_price_is_that_of_the_type_s_row() -> None:
    priced = costs.prices()["instances"]
    assert priced["ml.m5.large"] == catalogue()["ml.m5.large"].usd_per_hour == 0.115
    assert priced["m5.large"] == catalogue()["ml.m5.large"].ec2_usd_per_hour == 0.096
    assert "ml.p4de.24xlarge" not in priced


@pytest.mark.parametrize("kind", ALL, ids=by_name)
def test_regions_of_a_type_are_known_and_in_the_order_of_their_table(kind: InstanceType) -> None:
    assert kind.regions == tuple(code for code in regions() if code in kind.regions)


def test_a_size_that_is_not_listed_has_the_regions_of_its_family() -> None:
    assert regions_of("m5.metal") == regions_of("ml.m5.large") == catalogue()["ml.m5.large"].regions
    assert regions_of("ml.p5.48xlarge") != regions_of("ml.p5.4xlarge")
    assert regions_of("m7g.large") is None


def test_an_environment_s_own_figures_override_the_catalogue_s() -> None:
    own = InstanceTypeFacts(**FACTS)
    unknown, known = instance_type("ml.c8g.xlarge", own), instance_type("ml.p5.48xlarge", own)
    assert unknown
    assert (unknown.name, unknown.memory_gib, unknown.source) == ("ml.c8g.xlarge", 32, "the environment file")
    assert known
    assert known.memory_gib == 32
    assert instance_type("ml.p5.48xlarge", None) == catalogue()["ml.p5.48xlarge"]
    assert instance_type("ml.c8g.xlarge", None) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vcpus": 0}, "greater than 0"),
        ({"vcpus": "8"}, "valid integer"),
        ({"threads_per_core": (3,)}, "Input should be 1 or 2"),
        ({"threads_per_core": ()}, "at least 1 item"),
        ({"accelerators": 1}, "it has only accelerators"),
        ({"accelerator_resource": "nvidia.com/gpu"}, "it has only accelerator_resource"),
        ({"accelerators": 1, "accelerator_resource": "amd.com/gpu"}, "'nvidia.com/gpu', 'aws.amazon.com/neuron'"),
        ({"cores_per_accelerator": 2}, "cores_per_accelerator is 2 without Neuron devices"),
        (
            {"accelerators": 8, "accelerator_resource": "nvidia.com/gpu", "cores_per_accelerator": 2},
            "cores_per_accelerator is 2 without Neuron devices",
        ),
        ({"hugepages_mib": 32 * 1024}, "hugepages_mib 32768 is not less than memory_gib 32"),
        ({"unverified": ("price",)}, "Input should be 'vcpus'"),
        ({"gpus": 8}, "Extra inputs are not permitted"),
    ],
)
def test_impossible_figures_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        InstanceTypeFacts(**FACTS | wrong)


def test_every_figure_is_described_for_the_reference_page() -> None:
    assert all(field.description for field in InstanceTypeFacts.model_fields.values())
