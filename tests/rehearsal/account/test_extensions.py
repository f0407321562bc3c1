"""What this project adds to the embedded account."""

import pytest

from config.facts.charts_lock import STAND_IN_MARKER, STAND_IN_MARKER_VALUE
from embedded_account.context import Account
from embedded_account.inventory.report import collect
from embedded_account.testing.clients import Clients
from rehearsal.extensions import stand_in_marker

pytestmark = pytest.mark.product


def test_templates_find_the_mark_and_the_inventory_leaves_it_out(account: Account, clients: Clients) -> None:
    stand_in_marker.install(account)
    found = clients("ssm").get_parameter(Name=STAND_IN_MARKER)["Parameter"]
    assert found["Value"] == STAND_IN_MARKER_VALUE
    clients("ssm").put_parameter(Name=f"{STAND_IN_MARKER}-of-a-user", Value="x", Type="String")
    assert [(item.id, item.owner) for item in collect(account)] == [(f"{STAND_IN_MARKER}-of-a-user", "nobody")]
