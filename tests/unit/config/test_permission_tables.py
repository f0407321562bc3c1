"""The project's table of HyperPod's permissions agrees with the simulated service's own table."""

import pytest

from config.facts.hyperpod_permissions import CALLS, SERVICE_LINKED_ROLE, SERVICE_LINKED_ROLE_SERVICE
from embedded_account.hyperpod.permissions import required as required_permissions
from embedded_account.hyperpod.permissions.required import REQUIRED

pytestmark = pytest.mark.table("config/facts/hyperpod_permissions.py")
OF_OTHER_SERVICES = {"DescribeStackEvents", "DescribeStacks"}


def test_policies_are_written_from_what_the_service_asks_for() -> None:
    ours = {call: {(row.action, row.on, row.when) for row in rows} for call, rows in CALLS.items()}
    theirs = {call: {(each.action, each.on, each.when) for each in needed} for call, needed in REQUIRED.items()}
    assert {call: rows for call, rows in ours.items() if call not in OF_OTHER_SERVICES} == theirs


def test_both_know_the_service_linked_role_by_the_same_name() -> None:
    theirs = (required_permissions.SERVICE_LINKED_ROLE, required_permissions.SERVICE_LINKED_ROLE_SERVICE)
    assert theirs == (SERVICE_LINKED_ROLE, SERVICE_LINKED_ROLE_SERVICE)
