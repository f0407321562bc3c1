"""Test the quotas that the account reports, and where a service enforces them."""

import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import requests
from botocore.exceptions import ClientError

from embedded_account import quotas_file
from embedded_account.context import Account
from embedded_account.services import service_quotas
from embedded_account.services.shared.refusal import Refusal
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith

P5 = "ml.p5.48xlarge for cluster usage"


@pytest.fixture
def quotas(clients: Clients) -> Any:
    return clients("service-quotas")


def listed(quotas: Any, operation: str, service: str) -> dict[str, float]:
    pages = quotas.get_paginator(operation).paginate(ServiceCode=service, PaginationConfig={"PageSize": 50})
    return {quota["QuotaName"]: quota["Value"] for page in pages for quota in page["Quotas"]}


def test_every_instance_type_of_hyperpod_has_a_quota_on_some_page(quotas: Any) -> None:
    found = listed(quotas, "list_service_quotas", "sagemaker")
    assert len(found) > 100
    assert P5 in found
    assert found == listed(quotas, "list_aws_default_service_quotas", "sagemaker")


def test_quotas_of_network_file_systems_and_clusters_have_their_codes(quotas: Any) -> None:
    for service, code, name in (
        ("vpc", "L-F678F1CE", "VPCs per Region"),
        ("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs"),
        ("fsx", "L-8F1B9C74", "Lustre Persistent_2 storage capacity"),
        ("eks", "L-1194D53C", "Clusters"),
    ):
        assert quotas.get_service_quota(ServiceCode=service, QuotaCode=code)["Quota"]["QuotaName"] == name


def test_a_changed_quota_leaves_the_default_as_it_was(account: Account, quotas: Any) -> None:
    service_quotas.apply(account, "eks", "L-1194D53C", 3)
    asked = {"ServiceCode": "eks", "QuotaCode": "L-1194D53C"}
    assert quotas.get_service_quota(**asked)["Quota"]["Value"] == 3
    assert quotas.get_aws_default_service_quota(**asked)["Quota"]["Value"] == 100


def test_the_quota_of_an_instance_type_is_the_one_that_hyperpod_enforces(account: Account, quotas: Any) -> None:
    def set_fault(**faults: Any) -> None:
        url = f"{account.endpoint}/_rehearsal/hyperpod/faults"
        requests.post(url, json=faults, headers=account.keys.control_headers, timeout=60).raise_for_status()

    set_fault(quota={"ml.p5.48xlarge": 4})
    try:
        assert listed(quotas, "list_service_quotas", "sagemaker")[P5] == 4
        assert listed(quotas, "list_aws_default_service_quotas", "sagemaker")[P5] == 0
    finally:
        set_fault(clear=True)
    assert listed(quotas, "list_service_quotas", "sagemaker")[P5] == 0, "the quota of a new account"


def test_quotas_of_a_file_are_reported_and_enforced(account: Account, clients: Clients, tmp_path: Path) -> None:
    file = tmp_path / "quotas.yaml"
    file.write_text('vpc: {VPCs per Region: 1}\nsagemaker: {"ml.p5* for cluster usage": 3}\n')
    given = quotas_file.read(file)
    with patch.dict(service_quotas._given, {(account.account_id, account.region): given}):
        found = listed(clients("service-quotas"), "list_service_quotas", "sagemaker")
        assert (found[P5], found["ml.p4d.24xlarge for cluster usage"]) == (3, 0)
        assert service_quotas.instances_of(account, "ml.p5.48xlarge") == 3
        clients("ec2").create_vpc(CidrBlock="10.0.0.0/16")
        with RefusedWith("VpcLimitExceeded", "The maximum number of VPCs has been reached"):
            clients("ec2").create_vpc(CidrBlock="10.1.0.0/16")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1]", "it is no mapping. Allowed: services and their quotas"),
        ("s3: {}", "s3 is invalid: it is no service with quotas. Allowed: vpc, ec2"),
        ("vpc: 5", "vpc: 5 is invalid: it is no mapping"),
        ("vpc: {VPCs per Region: many}", "vpc.VPCs per Region: 'many' is invalid: it is no quota. Allowed: a number"),
        ("vpc: {", "it cannot be read"),
    ],
)
def test_wrong_file_of_quotas_is_refused_with_what_is_allowed(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "quotas.yaml"
    file.write_text(text)
    with pytest.raises(quotas_file.QuotasFileError, match=re.escape(why)):
        quotas_file.read(file)


def test_what_is_unknown_or_not_simulated_is_refused(account: Account, quotas: Any) -> None:
    with RefusedWith("NoSuchResourceException", "Allowed: vpc, ec2, eks, fsx, sagemaker"):
        quotas.list_service_quotas(ServiceCode="glue")
    with RefusedWith("NoSuchResourceException", "no quota L-00000000"):
        quotas.get_service_quota(ServiceCode="eks", QuotaCode="L-00000000")
    with RefusedWith("IllegalArgumentException", "does not simulate QuotaAppliedAtLevel"):
        quotas.list_service_quotas(ServiceCode="eks", QuotaAppliedAtLevel="ALL")
    with pytest.raises(Refusal, match="no quota L-00000000"):
        service_quotas.apply(account, "eks", "L-00000000", 1)
    with pytest.raises(ClientError):
        quotas.request_service_quota_increase(ServiceCode="eks", QuotaCode="L-1194D53C", DesiredValue=200)
