"""The handlers' policies in the template suffice for the simulator, which refuses a call without its dependent rights.

With the policies, every scenario succeeds; without any single action, one scenario fails and names the action. The
handlers' tests check themselves that they make no call beyond the policies (`Framework.watch`).
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from config import load, naming
from config.facts.hyperpod_permissions import HANDLER_CALLS, actions_of
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.journal import Clock, Journal
from embedded_account.services.iam.policies import Policy, PolicyDecision, evaluate
from handlers.hyperpod_cluster import index
from tests.handlers.support.clients import NO_RETRIES, DirectClient, Stacks
from tests.handlers.support.cloudformation import STACK_ID, CloudFormation
from tests.handlers.support.framework import Properties, Response
from tests.synth.support.synthesis import Assembly

TEARDOWN: dict[str, Any] = {"ResourceType": index.TEARDOWN, "LogicalResourceId": "Teardown"}


def needed_by(handler: str) -> list[str]:
    """Return the actions that the calls of a handler need, according to the table of permissions."""
    return sorted(action for actions in actions_of(HANDLER_CALLS[handler]).values() for action in actions)


class GuardedStacks(Stacks):
    """A CloudFormation that checks the running function's policy, because the simulator checks SageMaker only."""

    def __init__(self, cloudformation: CloudFormation, policies: Mapping[str, Policy]) -> None:
        super().__init__(cloudformation.status, lambda: None)
        self._framework, self._policies = cloudformation.framework, policies

    def describe_stacks(self, **request: str) -> dict[str, Any]:
        self._check("DescribeStacks", request["StackName"])
        return super().describe_stacks(**request)

    def describe_stack_events(self, **request: str) -> dict[str, Any]:
        self._check("DescribeStackEvents", request["StackName"])
        return super().describe_stack_events(**request)

    def _check(self, call: str, stack_id: str) -> None:
        policy, action = self._policies[self._framework.running], f"cloudformation:{call}"
        if evaluate([policy], action, stack_id, {}) is not PolicyDecision.ALLOW:
            message = f"not authorized to perform: {action}"
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": message}}, call)


@pytest.fixture
def bench() -> Iterator[HyperPodBench]:
    with HyperPodBench() as bench:
        yield bench


@pytest.fixture
def cloudformation(bench: HyperPodBench, monkeypatch: pytest.MonkeyPatch) -> CloudFormation:
    return CloudFormation(bench, monkeypatch)


def logical_id(dev: Assembly, handler: str) -> str:
    """Return the logical id of a handler's role in the template."""
    functions = dev.templates["hyperpod"].properties("AWS::Lambda::Function")
    [role] = [each["Role"]["Fn::GetAtt"][0] for each in functions if each["Handler"].endswith(f".{handler}")]
    return str(role)


def policy(dev: Assembly, bench: HyperPodBench, handler: str, without: str = "") -> dict[str, Any]:
    """Return the deployed policy of a handler, with its references resolved to the test bench's resources."""
    role = {"Ref": logical_id(dev, handler)}
    [found] = [p for p in dev.templates["hyperpod"].properties("AWS::IAM::Policy") if role in p["Roles"]]
    document: dict[str, Any] = _resolved(found["PolicyDocument"], dev, bench)
    for statement in document["Statement"]:
        actions = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        # A policy must not be empty: keep an action that nothing uses.
        statement["Action"] = [action for action in actions if action != without] or ["none:None"]
    return document


def _resolved(value: Any, dev: Assembly, bench: HyperPodBench) -> Any:
    match value:
        case {"Ref": "AWS::StackId"} | {"Fn::GetAtt": [_, "Arn"]}:
            return STACK_ID if "Ref" in value else bench.execution_role
        case {"Fn::ImportValue": name}:
            return bench.eks.clusters["eks"].arn if "Arn" in name else "eks"
        case {"Fn::Join": [separator, parts]}:
            return separator.join(_resolved(part, dev, bench) for part in parts)
        case dict():
            return {key: _resolved(item, dev, bench) for key, item in value.items()}
        case list():
            return [_resolved(item, dev, bench) for item in value]
    return value


def actions(document: dict[str, Any]) -> list[str]:
    return sorted(action for statement in document["Statement"] for action in statement["Action"])


def scenarios(cloudformation: CloudFormation, properties: Properties) -> Iterator[Response]:
    """Run every path through the handlers that makes a call. Each must succeed, except the one that reports events."""
    bench, operator = cloudformation.bench, cloudformation.bench.client("sagemaker")
    yield cloudformation.create(properties)
    bench.advance(minutes=60)
    tagged = deepcopy(properties) | {"Tags": [{"Key": "team", "Value": "vision"}]}
    tagged["InstanceGroups"][1]["InstanceCount"] = 3
    yield cloudformation.update("ml-cluster", tagged, properties)
    bench.advance(minutes=60)
    operator.update_cluster_software(ClusterName="ml-cluster")
    yield cloudformation.update("ml-cluster", properties, tagged)
    bench.advance(minutes=60)
    grown = deepcopy(properties)
    grown["InstanceGroups"].append(bench.group("more", "ml.g5.2xlarge", 1))
    yield cloudformation.update("ml-cluster", grown, properties)
    # The end of the update clears the list of groups that it added.
    yield cloudformation.roll_back("ml-cluster", properties, grown)
    yield cloudformation.delete("ml-cluster")
    cloudformation.kill("CreateCluster")
    cloudformation.create(properties)
    # The cluster is still being created: on_event's deletion is refused, is_complete deletes it.
    yield cloudformation.delete("teardown", **TEARDOWN)
    yield cloudformation.create(properties)
    bench.advance(minutes=60)
    checked = deepcopy(properties)
    checked["InstanceGroups"][1] |= {"OnStartDeepHealthChecks": ["InstanceStress"], "InstanceCount": 4}
    yield cloudformation.update("ml-cluster", checked, properties)
    bench.advance(minutes=30)
    # During a rollback the handlers wait for the checks, and both handlers must recognise the rollback.
    yield cloudformation.roll_back("ml-cluster", properties, checked)
    yield cloudformation.delete("ml-cluster")
    bench.fault(fail_creation="No capacity.")
    failed = cloudformation.create(properties)
    told = "(its events could not be read" not in failed.reason
    yield Response(told, failed.physical_id, reason=failed.reason)


def through_botocore(bench: HyperPodBench, role: str) -> Any:
    """Return a client with the role, as a function has it."""
    return bench.client("sagemaker", role_arn=role, config=NO_RETRIES)


def directly(bench: HyperPodBench, role: str) -> DirectClient:
    """Return a client with the role that calls the simulator directly."""
    session = bench.client("sts").assume_role(RoleArn=role, RoleSessionName="test")
    return DirectClient(bench, session["Credentials"]["AccessKeyId"])


def first_failure(
    dev: Assembly,
    cloudformation: CloudFormation,
    *,
    on_event: str = "",
    is_complete: str = "",
    client: Callable[[HyperPodBench, str], Any] = directly,
) -> Response | None:
    """Run the scenarios under the template's policies without one action; return the first failure."""
    bench = cloudformation.bench
    policies = {
        handler: policy(dev, bench, handler, without)
        for handler, without in (("on_event", on_event), ("is_complete", is_complete))
    }
    clients = [client(bench, bench.role(handler, document)) for handler, document in policies.items()]
    cloudformation.framework.use(clients[0], clients[1], GuardedStacks(cloudformation, policies))
    cloudformation.framework.invocation_seconds = 30
    request = bench.request(Tags=[{"Key": "project", "Value": "rayhp"}])
    return next((response for response in scenarios(cloudformation, request) if not response.succeeded), None)


@pytest.mark.parametrize("handler", HANDLER_CALLS)
def test_policy_is_what_the_calls_of_the_handler_need_and_no_more(
    dev: Assembly, bench: HyperPodBench, handler: str
) -> None:
    assert actions(policy(dev, bench, handler)) == needed_by(handler)


def record(bench: HyperPodBench, dev: Assembly, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the decisions to a file, with the owners of the roles, as an account does: `make test-rights` reads it."""
    journal = Journal(directory / "journal.jsonl", Clock())
    monkeypatch.setattr(bench, "record", journal.record)
    monkeypatch.setattr(bench, "record_once", journal.record_once)
    role = {"stack": naming.stack(load("dev"), "hyperpod"), "type": "AWS::IAM::Role"}
    for handler in HANDLER_CALLS:
        journal.record("cfn", **role, logical_id=logical_id(dev, handler), physical_id=handler)


def test_policies_suffice_for_every_path_through_the_handlers(
    dev: Assembly,
    cloudformation: CloudFormation,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record(cloudformation.bench, dev, tmp_path_factory.mktemp("decisions"), monkeypatch)
    assert first_failure(dev, cloudformation, client=through_botocore) is None


@pytest.mark.parametrize("action", needed_by("on_event"))
def test_on_event_needs_each_of_its_actions(dev: Assembly, cloudformation: CloudFormation, action: str) -> None:
    failed = first_failure(dev, cloudformation, on_event=action)
    assert failed is not None, f"nothing needs {action}"
    assert action in failed.reason


@pytest.mark.parametrize("action", needed_by("is_complete"))
def test_is_complete_needs_each_of_its_actions(dev: Assembly, cloudformation: CloudFormation, action: str) -> None:
    failed = first_failure(dev, cloudformation, is_complete=action)
    assert failed is not None, f"nothing needs {action}"
