"""The policy that the company's key needs: as the page shows it, and closed to everybody else."""

import json
import re
from pathlib import Path

from config import load
from config.key_policy import key_policy, named_principals
from config.load import EXAMPLES
from config.model import Notifications

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "company-rules.md"


def test_the_page_shows_the_policy_of_the_example() -> None:
    [shown] = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert json.loads(shown) == key_policy(load("closed", EXAMPLES))


def test_services_and_other_peoples_roles_need_a_condition_or_a_name() -> None:
    """`*` is nobody without its conditions, and logs of another account are nobody's here."""
    for statement in key_policy(load("closed", EXAMPLES))["Statement"]:
        principal = statement["Principal"]
        if principal == {"AWS": "*"}:
            assert set(statement["Condition"]) == {"ArnLike", "StringEquals", "StringLike"}
            assert statement["Condition"]["StringEquals"]["kms:CallerAccount"] == "111122223333"
        elif "Service" in principal:
            [place] = statement["Condition"]["ArnLike"].values()
            assert place.startswith("arn:aws:logs:us-west-2:111122223333:")
        else:
            assert principal["AWS"].startswith("arn:aws:iam::111122223333:")


def test_the_policy_names_all_who_depend_on_it_alone() -> None:
    closed = load("closed", EXAMPLES)
    notified = closed.model_copy(update={"notifications": Notifications(email="ml@example.com")})
    paid = closed.model_copy(update={"notifications": Notifications(email="ml@example.com", monthly_budget_usd=9)})
    for environment in (closed, notified, paid):
        text = json.dumps(key_policy(environment))
        assert all(f'"{name}"' in text for name in named_principals(environment))
    assert "events.amazonaws.com" in json.dumps(key_policy(notified))
    assert "events.amazonaws.com" not in json.dumps(key_policy(closed))
    assert "budgets.amazonaws.com" not in json.dumps(key_policy(notified))
    [budget] = [each for each in key_policy(paid)["Statement"] if each["Sid"] == "Budget"]
    assert budget["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "111122223333"},
        "ArnLike": {"aws:SourceArn": "arn:aws:budgets::111122223333:*"},
    }
