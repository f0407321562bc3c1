"""Each table of facts has sources and tests, and docs/reference/contracts.md lists it."""

import re
from typing import Final

import pytest

from tests.tiers import REPOSITORY
from tests.unit.contracts.contract import Contract, contracts, held, page

SOURCE: Final = re.compile(r"[\w.-]+/[\w.-]+ [0-9a-f]{8} \S+|https://\S+ \d{4}-\d{2}-\d{2}")
ALL: Final = contracts()


def listed(value: str | list[str]) -> list[str]:
    """Return the sources of a fact: one, or one for each version."""
    return [value] if isinstance(value, str) else value


@pytest.mark.parametrize("contract", ALL, ids=[each.name for each in ALL])
def test_each_fact_has_a_source_and_a_test(contract: Contract) -> None:
    used = {source for fact in contract.facts.values() for source in listed(fact["source"])}
    assert set(contract.sources) == used
    assert [each for each in contract.sources.values() if not SOURCE.fullmatch(each)] == []
    assert set.union(*held(contract).values()) == set(contract.facts)


def test_the_page_lists_each_contract() -> None:
    text = (REPOSITORY / "docs/reference/contracts.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert rows == list(page(ALL)), "Fix: replace the page's rows by: " + "\n" + "\n".join(page(ALL))
