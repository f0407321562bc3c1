"""The table of regions agrees with independent records: moto's copy of answers of EC2's API, and botocore's data."""

import gzip
import json
from importlib.resources import files
from pathlib import Path
from typing import Final

import botocore.session
import moto
import pytest
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from config.facts.instance_types import catalogue
from config.facts.regions import regions, regions_with

pytestmark = pytest.mark.table("config/facts/regions.yaml")
TYPES: Final = pytest.mark.table("config/facts/instance_types.yaml")
OFFERINGS: Final = Path(moto.__file__).parent / "ec2" / "resources" / "instance_type_offerings" / "region"
RECORDED: Final = sorted(path.name.removesuffix(".json.gz") for path in OFFERINGS.iterdir())


@pytest.mark.parametrize("code", sorted(regions()))
def test_zone_ids_are_those_of_ec2(code: str) -> None:
    """The record comes from one account, which lacks zones that are closed to new accounts."""
    recorded = {zone.zone_id for zone in RegionsAndZonesBackend.zones.get(code, [])}
    assert recorded <= set(regions()[code])
    assert {zone.rpartition("-")[0] for zone in recorded} <= {zone.rpartition("-")[0] for zone in regions()[code]}


def test_no_region_that_ec2_knows_is_missing() -> None:
    others = ("cn-", "us-gov-", "us-iso", "eu-iso", "eusc-")
    assert {code for code in RegionsAndZonesBackend.zones if not code.startswith(others)} <= set(regions())


def test_regions_of_amazon_managed_grafana_are_those_of_botocore() -> None:
    assert regions_with("grafana") == {*botocore.session.get_session().get_available_regions("grafana")}


def test_regions_that_make_budgets_are_those_of_cfn_lint() -> None:
    """cfn-lint has a list of CloudFormation's resource types for almost every region."""
    lists = {code: files("cfnlint") / "data" / "schemas" / "providers" / f"{code}.json" for code in regions()}
    has = {code for code, types in lists.items() if types.is_file() and '"AWS::Budgets::Budget"' in types.read_text()}
    assert regions_with("budgets") == has


@TYPES
@pytest.mark.parametrize("code", RECORDED)
def test_types_are_those_that_ec2_offers(code: str) -> None:
    content = json.loads(gzip.decompress((OFFERINGS / f"{code}.json.gz").read_bytes()))
    offered = {f"ml.{each['InstanceType']}" for each in content} & catalogue().keys()
    ours = {kind.name for kind in catalogue().values() if code in kind.regions}
    assert offered - ours == set(), f"EC2 offers them in {code}"
    assert ours - offered == set(), f"EC2 does not offer them in {code}"


@TYPES
def test_a_region_without_a_record_offers_nothing_that_is_known() -> None:
    unknown = set(regions()) - set(RECORDED)
    assert unknown
    assert not unknown & {code for kind in catalogue().values() for code in kind.regions}
