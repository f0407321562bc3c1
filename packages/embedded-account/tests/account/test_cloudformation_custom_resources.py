"""Test the protocol between CloudFormation and the functions of custom resources."""

import json
import re
import threading
from typing import Any

import pytest
import requests
from botocore.exceptions import ClientError

from embedded_account.cloudformation import custom_resources
from embedded_account.context import Account
from embedded_account.testing.stacks import FakeFunctions, StackDeployer, Template, att, failing, parameter, respond
from embedded_account.testing.waiting import PATIENCE_SECONDS

Event = dict[str, Any]


def of(token: str, **properties: Any) -> Template:
    return {"Resources": {"C": custom(token, **properties)}}


def custom(token: str, **properties: Any) -> dict[str, Any]:
    return {"Type": "Custom::Thing", "Properties": {"ServiceToken": token, **properties}}


def always(physical_id: str) -> Any:
    return lambda _: {"PhysicalResourceId": physical_id}


def test_requests_carry_everything_as_text(stacks: StackDeployer, functions: FakeFunctions) -> None:
    token = functions.function("f", always("thing-1"))
    assert stacks.deploy("s", of(token, Count=4, On=True, List=[1, {"A": False}])) == "CREATE_COMPLETE"
    (create,) = functions.requests
    address = create.pop("ResponseURL")
    assert address.startswith("http://127.0.0.1:")
    assert re.search(r"[?&]X-Amz-Date=\d{8}T\d{6}Z&", address), "AWS's address is presigned, and says when"
    assert len(create.pop("RequestId")) == 36
    assert create == {
        "RequestType": "Create",
        "ServiceToken": token,
        "StackId": stacks.describe("s")["StackId"],
        "LogicalResourceId": "C",
        "ResourceType": "Custom::Thing",
        "ResourceProperties": {"ServiceToken": token, "Count": "4", "On": "true", "List": ["1", {"A": "false"}]},
    }
    assert stacks.physical_id("s", "C") == "thing-1"


def test_update_and_delete_name_the_resource_and_the_old_properties(
    stacks: StackDeployer, functions: FakeFunctions
) -> None:
    token = functions.function("f", always("thing-1"))
    stacks.deploy("s", of(token, Count=4))
    stacks.deploy("s", of(token, Count=5))
    stacks.delete("s")
    assert functions.types() == ["Create", "Update", "Delete"]
    _, update, delete = functions.requests
    assert update["PhysicalResourceId"] == delete["PhysicalResourceId"] == "thing-1"
    assert update["OldResourceProperties"] == {"ServiceToken": token, "Count": "4"}
    assert update["ResourceProperties"]["Count"] == delete["ResourceProperties"]["Count"] == "5"
    assert "OldResourceProperties" not in delete
    assert len({request["RequestId"] for request in functions.requests}) == 3


def test_another_id_after_an_update_deletes_the_old_one_in_the_cleanup(
    stacks: StackDeployer, functions: FakeFunctions
) -> None:
    token = functions.function("f", lambda event: {"PhysicalResourceId": f"v{event['ResourceProperties']['Count']}"})
    stacks.deploy("s", of(token, Count=1))
    stacks.deploy("s", of(token, Count=2))
    assert functions.types() == ["Create", "Update", "Delete"]
    assert functions.requests[-1]["PhysicalResourceId"] == "v1"
    assert functions.requests[-1]["ResourceProperties"]["Count"] == "1"
    assert stacks.physical_id("s", "C") == "v2"
    events = stacks.events("s")
    assert events.index(("s", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")) < events.index(("C", "DELETE_IN_PROGRESS"))


def test_data_is_read_by_name_and_by_path(stacks: StackDeployer, functions: FakeFunctions) -> None:
    data = {"Plain": "a", "Dotted.Key": "b", "Nested": {"Inner": "c"}, "Number": 7}
    token = functions.function("f", lambda _: {"PhysicalResourceId": "x", "Data": data})
    template = of(token)
    names = ["Plain", "Dotted.Key", "Nested.Inner", "Number"]
    template["Outputs"] = {f"O{index}": {"Value": att("C", name)} for index, name in enumerate(names)}
    stacks.deploy("s", template)
    assert stacks.outputs("s") == {"O0": "a", "O1": "b", "O2": "c", "O3": "7"}


def test_attribute_that_was_not_returned_fails_the_referring_resource(
    stacks: StackDeployer, functions: FakeFunctions
) -> None:
    token = functions.function("f", always("x"))
    template = of(token)
    template["Resources"]["P"] = parameter(att("C", "Missing"))
    assert stacks.deploy("s", template) == "ROLLBACK_COMPLETE"
    why = stacks.reason("s", "P", "CREATE_FAILED")
    assert why.startswith("CustomResource attribute error: Vendor response doesn't contain Missing key in object")


def test_independent_custom_resources_run_at_the_same_time(stacks: StackDeployer, functions: FakeFunctions) -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE_SECONDS)

    def answer(event: Event) -> dict[str, str]:
        meeting.wait()
        return {"PhysicalResourceId": event["LogicalResourceId"]}

    token = functions.function("f", answer)
    template = {"Resources": {name: custom(token) for name in "ABC"}}
    assert stacks.deploy("s", template) == "CREATE_COMPLETE"
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_reason_of_a_failure_is_reported_and_the_id_is_deleted(stacks: StackDeployer, functions: FakeFunctions) -> None:
    def answer(event: Event) -> dict[str, str]:
        failed = event["RequestType"] == "Create"
        return {"Status": "FAILED", "Reason": "no room", "PhysicalResourceId": "half"} if failed else {}

    assert stacks.deploy("s", of(functions.function("f", answer))) == "ROLLBACK_COMPLETE"
    why = stacks.reason("s", "C", "CREATE_FAILED")
    assert why.startswith(
        "Received response status [FAILED] from custom resource. Message returned: no room (RequestId:"
    )
    assert functions.types() == ["Create", "Delete"]
    assert functions.requests[1]["PhysicalResourceId"] == "half"


def test_function_that_fails_is_tried_three_times_and_then_told_to_delete_an_unknown_id(
    stacks: StackDeployer, functions: FakeFunctions
) -> None:
    def answer(event: Event) -> dict[str, str]:
        if event["RequestType"] == "Create":
            raise RuntimeError("it broke")
        return {}

    assert stacks.deploy("s", of(functions.function("f", answer))) == "ROLLBACK_COMPLETE"
    assert functions.types() == ["Create", "Create", "Create", "Delete"]
    assert len({request["RequestId"] for request in functions.requests[:3]}) == 1
    why = stacks.reason("s", "C", "CREATE_FAILED")
    assert "CloudFormation did not receive a response from your Custom Resource" in why
    assert "it broke" in why
    unknown = functions.requests[-1]["PhysicalResourceId"]
    assert unknown.startswith("s-C-")
    assert len(unknown) == len("s-C-") + 12


def test_function_that_recovers_is_not_invoked_again(stacks: StackDeployer, functions: FakeFunctions) -> None:
    def answer(_: Event) -> dict[str, str]:
        if len(functions.requests) < 3:
            raise RuntimeError("not yet")
        return {"PhysicalResourceId": "x"}

    assert stacks.deploy("s", of(functions.function("f", answer))) == "CREATE_COMPLETE"
    assert functions.types() == ["Create"] * 3


def test_answer_may_come_after_the_function_has_returned(stacks: StackDeployer, functions: FakeFunctions) -> None:
    def answer(event: Event) -> None:
        threading.Timer(0.2, respond, [event], {"PhysicalResourceId": "late"}).start()

    assert stacks.deploy("s", of(functions.function("f", answer))) == "CREATE_COMPLETE"
    assert stacks.physical_id("s", "C") == "late"


def test_missing_response_fails_at_the_service_timeout(stacks: StackDeployer, functions: FakeFunctions) -> None:
    token = functions.function("f", lambda event: None if event["RequestType"] == "Create" else {})
    assert stacks.deploy("s", of(token, ServiceTimeout=1)) == "ROLLBACK_COMPLETE"
    assert "did not receive a response" in stacks.reason("s", "C", "CREATE_FAILED")


def test_missing_response_fails_after_cloudformation_s_hour(
    stacks: StackDeployer, functions: FakeFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS::CloudFormation::CustomResource, ServiceTimeout: the default is 3600 seconds; here it is one of them."""
    assert custom_resources.DEFAULT_TIMEOUT_SECONDS == 3600
    monkeypatch.setattr(custom_resources, "DEFAULT_TIMEOUT_SECONDS", 1)
    token = functions.function("f", lambda event: {} if event["RequestType"] == "Delete" else None)
    assert stacks.deploy("s", of(token)) == "ROLLBACK_COMPLETE"
    assert "did not receive a response" in stacks.reason("s", "C", "CREATE_FAILED")


@pytest.mark.parametrize("seconds", [0, 3601, "7200", "an hour", 1.5])
def test_service_timeout_is_an_hour_at_most(
    stacks: StackDeployer, functions: FakeFunctions, seconds: float | str
) -> None:
    token = functions.function("f", always("x"))
    with pytest.raises(ClientError, match=f"{seconds} is not an integer from 1 to 3600"):
        stacks.deploy("s", of(token, ServiceTimeout=seconds))
    assert stacks.deploy("t", of(token, ServiceTimeout="3600")) == "CREATE_COMPLETE"


def test_answer_after_the_timeout_is_refused(stacks: StackDeployer, functions: FakeFunctions) -> None:
    token = functions.function("f", always("x"))
    stacks.deploy("s", of(token))
    assert respond(functions.requests[0]) == 403


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"Data": {"Big": "x" * 4096}, "PhysicalResourceId": "x"}, "Response object is too long."),
        ({"PhysicalResourceId": "x", "RequestId": "another"}, "Value of property RequestId must match"),
        ({"PhysicalResourceId": "x", "StackId": "another"}, "Value of property StackId must match"),
        ({}, "Invalid PhysicalResourceId"),
        ({"PhysicalResourceId": "x", "Status": "DONE"}, "Status must be SUCCESS or FAILED"),
        ({"PhysicalResourceId": "x", "Status": "FAILED"}, "Reason is required"),
        ({"PhysicalResourceId": "x", "Data": "text"}, "Data must be an object"),
    ],
)
def test_malformed_answer_fails_the_resource(
    stacks: StackDeployer, functions: FakeFunctions, answer: dict[str, Any], why: str
) -> None:
    token = functions.function("f", lambda event: answer if event["RequestType"] == "Create" else {})
    assert stacks.deploy("s", of(token)) == "ROLLBACK_COMPLETE"
    assert why in stacks.reason("s", "C", "CREATE_FAILED")


def test_answer_that_is_no_json_fails_the_resource(stacks: StackDeployer, functions: FakeFunctions) -> None:
    def answer(event: Event) -> dict[str, str] | None:
        if event["RequestType"] == "Delete":
            return {}
        requests.put(event["ResponseURL"], data="ok", timeout=PATIENCE_SECONDS)
        return None

    stacks.deploy("s", of(functions.function("f", answer)))
    assert "it is not JSON" in stacks.reason("s", "C", "CREATE_FAILED")


def test_failed_delete_keeps_the_stack_and_can_be_retried(stacks: StackDeployer, functions: FakeFunctions) -> None:
    stuck = threading.Event()
    stuck.set()

    def answer(event: Event) -> dict[str, str]:
        failed = event["RequestType"] == "Delete" and stuck.is_set()
        return {"Status": "FAILED" if failed else "SUCCESS", "Reason": "in use", "PhysicalResourceId": "x"}

    stacks.deploy("s", of(functions.function("f", answer)))
    assert stacks.delete("s") == "DELETE_FAILED"
    assert "in use" in stacks.reason("s", "C", "DELETE_FAILED")
    stuck.clear()
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_rollback_sends_an_update_back_to_the_old_properties(stacks: StackDeployer, functions: FakeFunctions) -> None:
    token = functions.function("f", always("x"))
    stacks.deploy("s", of(token, Count=4))
    update = of(token, Count=5)
    update["Resources"]["Bad"] = {**failing(), "DependsOn": "C"}
    assert stacks.deploy("s", update) == "UPDATE_ROLLBACK_COMPLETE"
    back = functions.requests[-1]
    assert functions.types() == ["Create", "Update", "Update"]
    assert (back["ResourceProperties"]["Count"], back["OldResourceProperties"]["Count"]) == ("4", "5")


def test_failed_update_is_rolled_back_too(stacks: StackDeployer, functions: FakeFunctions) -> None:
    def answer(event: Event) -> dict[str, str]:
        failed = event["RequestType"] == "Update" and event["ResourceProperties"]["Count"] == "5"
        return {"Status": "FAILED" if failed else "SUCCESS", "Reason": "no", "PhysicalResourceId": "x"}

    token = functions.function("f", answer)
    stacks.deploy("s", of(token, Count=4))
    assert stacks.deploy("s", of(token, Count=5)) == "UPDATE_ROLLBACK_COMPLETE"
    assert functions.requests[-1]["ResourceProperties"]["Count"] == "4"


def test_replacement_is_rolled_back_by_an_update_and_a_delete_of_the_new_id(
    stacks: StackDeployer, functions: FakeFunctions
) -> None:
    token = functions.function("f", lambda event: {"PhysicalResourceId": f"v{event['ResourceProperties']['Count']}"})
    stacks.deploy("s", of(token, Count=1))
    update = of(token, Count=2)
    update["Resources"]["Bad"] = {**failing(), "DependsOn": "C"}
    assert stacks.deploy("s", update) == "UPDATE_ROLLBACK_COMPLETE"
    assert [(r["RequestType"], r.get("PhysicalResourceId")) for r in functions.requests[1:]] == [
        ("Update", "v1"),
        ("Update", "v2"),
        ("Delete", "v2"),
    ]
    assert stacks.physical_id("s", "C") == "v1"


def test_replacement_that_failed_leaves_the_old_one_alone(stacks: StackDeployer, functions: FakeFunctions) -> None:
    def answer(event: Event) -> dict[str, str]:
        if event["RequestType"] == "Update":
            return {"Status": "FAILED", "Reason": "no", "PhysicalResourceId": "new"}
        return {"PhysicalResourceId": event.get("PhysicalResourceId", "old")}

    token = functions.function("f", answer)
    stacks.deploy("s", of(token, Count=1))
    assert stacks.deploy("s", of(token, Count=2)) == "UPDATE_ROLLBACK_COMPLETE"
    assert [(r["RequestType"], r["PhysicalResourceId"]) for r in functions.requests[1:]] == [
        ("Update", "old"),
        ("Delete", "new"),
    ]
    assert stacks.physical_id("s", "C") == "old"


def test_another_service_token_is_refused(stacks: StackDeployer, functions: FakeFunctions) -> None:
    first, second = functions.function("f", always("x")), functions.function("g", always("x"))
    stacks.deploy("s", of(first))
    stacks.deploy("s", of(second))
    assert stacks.reason("s", "C", "UPDATE_FAILED") == "Modifying service token is not allowed."


def test_unchanged_properties_send_no_request(stacks: StackDeployer, functions: FakeFunctions) -> None:
    token = functions.function("f", always("x"))
    stacks.deploy("s", of(token))
    template = of(token)
    template["Outputs"] = {"O": {"Value": "1"}}
    stacks.deploy("s", template)
    assert functions.types() == ["Create"]


def test_generic_type_is_a_custom_resource_too(stacks: StackDeployer, functions: FakeFunctions) -> None:
    template = of(functions.function("f", always("x")))
    template["Resources"]["C"]["Type"] = "AWS::CloudFormation::CustomResource"
    stacks.deploy("s", template)
    assert functions.requests[0]["ResourceType"] == "AWS::CloudFormation::CustomResource"


def test_answers_never_reach_the_journal(stacks: StackDeployer, functions: FakeFunctions, account: Account) -> None:
    before = len(account.journal.entries())
    token = functions.function("f", lambda _: {"PhysicalResourceId": "x", "NoEcho": True, "Data": {"Key": "s3cret"}})
    stacks.deploy("s", of(token))
    assert "s3cret" not in json.dumps(account.journal.entries(before))


def test_retry_that_cannot_delete_what_failed_leaves_nothing_without_a_stack(
    stacks: StackDeployer, functions: FakeFunctions
) -> None:
    """Without a rollback, the next deployment replaces what an earlier one left."""

    def never(_request: Event) -> dict[str, str]:
        return {"Status": "FAILED", "Reason": "no", "PhysicalResourceId": "thing-1"}

    token = functions.function("f", never)
    without_rollback = {"DisableRollback": True}
    assert stacks.deploy("s", of(token), execution=without_rollback) == "CREATE_FAILED"
    assert stacks.deploy("s", of(token), execution=without_rollback) == "UPDATE_FAILED"
    assert functions.types() == ["Create", "Delete"]
    assert stacks.physical_id("s", "C") == "thing-1"
    functions.behaviours[token] = always("thing-1")
    assert stacks.deploy("s", of(token), execution=without_rollback) == "UPDATE_COMPLETE"
    assert functions.types() == ["Create", "Delete", "Delete", "Create"]
