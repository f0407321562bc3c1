"""`ops destroy`: its plan, what it refuses, and how it resumes after an interruption; rehearsals run it whole."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

import config
from config import naming
from config.estimates import costs
from config.model import Company
from ops.commands.whole import app
from ops.destroy import run, show, steps
from ops.destroy.plan import Staying, plan
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import RAY_CLUSTERS, RAY_JOBS, make_ready

DEV = config.load("dev")
KEPT = {
    "Resources": {"Data": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain"}, "Role": {"Type": "AWS::IAM::Role"}}
}


@dataclass
class FakeStack:
    """One stack of the fake CloudFormation."""

    status: str = "CREATE_COMPLETE"
    protected: bool = False
    template: dict[str, Any] = field(default_factory=lambda: KEPT)
    events: list[dict[str, str]] = field(default_factory=list)
    given_up: str = ""
    """The state of one more resource, if it has one."""


class FakeCloudFormation:
    """CloudFormation with the stacks that a test gives, by part."""

    operation = ""

    def __init__(self, **stacks: FakeStack) -> None:
        self.stacks = {naming.stack(DEV, part): stack for part, stack in stacks.items()}

    def describe_stacks(self, StackName: str) -> dict[str, Any]:
        name = StackName.removeprefix("arn:")
        stack = self.stacks.get(name)
        if stack is None and StackName != name:
            stack = FakeStack("DELETE_COMPLETE")
        if stack is None:
            message = f"Stack with id {name} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")
        found = {"StackId": f"arn:{name}", "StackStatus": stack.status, "EnableTerminationProtection": stack.protected}
        return {"Stacks": [found]}

    def get_template(self, StackName: str) -> dict[str, Any]:
        return {"TemplateBody": self.stacks[StackName.removeprefix("arn:")].template}

    def get_paginator(self, operation: str) -> "FakeCloudFormation":
        paginator = FakeCloudFormation()
        paginator.stacks, paginator.operation = self.stacks, operation
        return paginator

    def paginate(self, StackName: str) -> list[dict[str, Any]]:
        stack = self.stacks[StackName.removeprefix("arn:")]
        if self.operation == "describe_stack_events":
            return [{"StackEvents": stack.events}]
        summaries = [
            {
                "LogicalResourceId": id,
                "PhysicalResourceId": f"physical-{id}",
                "ResourceType": resource["Type"],
                "ResourceStatus": "CREATE_COMPLETE",
            }
            for id, resource in stack.template["Resources"].items()
        ]
        given_up = {"LogicalResourceId": "Gone", "ResourceType": "AWS::IAM::Role", "ResourceStatus": stack.given_up}
        return [{"StackResourceSummaries": [*summaries, *([given_up] if stack.given_up else [])]}]


@pytest.fixture
def destroy(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs `ops destroy --env dev` against a fake CloudFormation and a fake CDK CLI."""

    def invoke(
        cloudformation: FakeCloudFormation, *arguments: str, cdk: Callable[[Sequence[str]], str] = lambda _: ""
    ) -> Result:
        @dataclass
        class Account:
            environment: config.Environment

            def client(self, service: str) -> Any:
                assert service == "cloudformation"
                return cloudformation

        def argv(assembly: str) -> list[str]:
            manifest = json.loads(Path(assembly, "manifest.json").read_text())
            return [sys.executable, "-c", cdk(list(manifest["artifacts"]))]

        monkeypatch.setattr(steps, "CallerAccount", Account)
        monkeypatch.setattr(run, "_argv", argv)
        return CliRunner().invoke(app, ["destroy", "--env", "dev", *arguments])

    return invoke


def test_plan_names_what_stays_and_why() -> None:
    made = plan(FakeCloudFormation(ray=FakeStack(), storage=FakeStack(protected=True)), DEV)
    assert [(each.stack.part, dict(each.kinds)) for each in made.going] == [("ray", {"IAM::Role": 1})]
    kept = Staying("S3::Bucket physical-Data", "stack rayhp-dev-ray says that it is kept", holds_data=True)
    assert kept in made.staying
    assert any(each.title == "stack rayhp-dev-storage" and each.holds_data for each in made.staying)


def test_plan_says_that_the_companys_key_stays() -> None:
    key = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    keyed = DEV.model_copy(update={"company": Company(kms_key=key)})
    kept = Staying("KMS key 1234abcd-12ab-34cd-56ef-1234567890ab", "it is the company's")
    assert kept in plan(FakeCloudFormation(ray=FakeStack()), keyed).staying
    assert kept not in plan(FakeCloudFormation(ray=FakeStack()), DEV).staying


def test_plan_names_what_holds_data_and_says_what_is_kept_at_a_price() -> None:
    template = {"Resources": {"Files": {"Type": "AWS::FSx::FileSystem"}, "Role": {"Type": "AWS::IAM::Role"}}}
    cloudformation = FakeCloudFormation(storage=FakeStack(template=template), eks=FakeStack(protected=True))
    shown = "\n".join(show.lines(plan(cloudformation, DEV), DEV))
    assert "  rayhp-dev-storage: 2 resources, among them\n    - file system physical-Files\n" in shown
    assert re.search(r"stack rayhp-dev-eks: it has .*\(holds data\), about US\$ 0\.\d\d per hour$", shown, re.MULTILINE)


STACKS = ("ray", "platform", "hyperpod", "eks", "storage", "network")
"""In the order of their deletion."""
DATA = {
    "AWS::FSx::FileSystem": "file system physical-it",
    "AWS::S3::Bucket": "bucket physical-it",
    "AWS::ECR::Repository": "images of repository physical-it",
    "AWS::SageMaker::MlflowTrackingServer": "MLflow tracking server physical-it",
    "AWS::APS::Workspace": "metrics of workspace physical-it",
    "AWS::Logs::LogGroup": "log group physical-it",
}


def test_data_is_listed_by_its_value_over_all_stacks() -> None:
    """The kinds are listed above as `ops` names them: the log groups of the first stack come last."""
    kinds = list(DATA)
    resources = {part: {"it": {"Type": kind}} for part, kind in zip(STACKS, reversed(kinds), strict=True)}
    stacks = {part: FakeStack(template={"Resources": each}) for part, each in resources.items()}
    assert plan(FakeCloudFormation(**stacks), DEV).data == list(DATA.values())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the questions that a person is asked, who answers no."""
    questions: list[str] = []

    def confirmed(question: str) -> bool:
        questions.append(question)
        return False

    monkeypatch.setattr(steps, "confirmed", confirmed)
    return questions


@pytest.mark.parametrize("kind", DATA)
def test_data_is_named_in_words_before_the_question(
    destroy: Callable[..., Result], asked: list[str], kind: str
) -> None:
    cloudformation = FakeCloudFormation(storage=FakeStack(template={"Resources": {"it": {"Type": kind}}}))
    result = destroy(cloudformation)
    assert result.exit_code == 1
    assert f"this data is deleted for good; nothing brings it back\n  {DATA[kind]}\n" in result.stdout
    assert asked == ["Destroy dev in account 111122223333, and delete this data for good?"]


def test_data_that_stays_is_not_called_deleted(destroy: Callable[..., Result], asked: list[str]) -> None:
    kept = {"Resources": {"it": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain"}}}
    result = destroy(FakeCloudFormation(storage=FakeStack(template=kept), network=FakeStack(protected=True)))
    assert "for good" not in result.output
    assert asked == ["Destroy dev in account 111122223333?"]


@pytest.mark.parametrize(("policy", "is_deleted"), [(None, True), ("Delete", True), ("Retain", False)])
def test_the_file_system_that_the_driver_made_is_data_of_the_ray_stack(policy: str | None, is_deleted: bool) -> None:
    fsx = DEV.fsx.model_copy(update={"provisioning": "dynamic", "reclaim_policy": policy})
    dynamic = DEV.model_copy(update={"fsx": fsx})
    made = plan(FakeCloudFormation(ray=FakeStack()), dynamic)
    assert ("file system of the claim" in made.data) == is_deleted


def test_a_stack_waits_for_those_that_use_it_also_if_one_between_is_gone(tmp_path: Path) -> None:
    left = [each.stack for each in plan(FakeCloudFormation(ray=FakeStack(), network=FakeStack()), DEV).going]
    run.write_assembly(tmp_path, DEV, left)
    made = json.loads((tmp_path / "manifest.json").read_text())["artifacts"]
    assert {name: each["dependencies"] for name, each in made.items()} == {
        "rayhp-dev-ray": ["rayhp-dev-network"],
        "rayhp-dev-network": [],
    }


def test_what_an_environment_keeps_costs_what_its_estimate_says() -> None:
    parts = costs.by_part(DEV)
    assert sum(parts.values()) == pytest.approx(sum(line.usd_per_hour or 0 for line in costs.estimate(DEV)))
    assert parts["hyperpod"] > parts["eks"] > parts["network"] > 0


@pytest.mark.parametrize("status", ["DELETE_COMPLETE", "DELETE_SKIPPED"])
def test_stack_does_not_own_what_it_deleted_or_left_behind(status: str) -> None:
    made = plan(FakeCloudFormation(ray=FakeStack(given_up=status)), DEV)
    assert made.going[0].kinds == {"IAM::Role": 1}


def test_stacks_go_before_what_they_use() -> None:
    parts = ("network", "storage", "eks", "hyperpod", "platform", "ray")
    made = plan(FakeCloudFormation(**{part: FakeStack() for part in parts}), DEV)
    assert [each.stack.part for each in made.going] == ["ray", "platform", "hyperpod", "eks", "storage", "network"]


def test_dry_run_starts_no_program(destroy: Callable[..., Result]) -> None:
    def cdk(names: Sequence[str]) -> str:
        raise AssertionError(names)

    result = destroy(FakeCloudFormation(network=FakeStack()), "--dry-run", cdk=cdk)
    assert result.exit_code == 0
    assert "rayhp-dev-network" in result.stdout


def test_without_a_stack_there_is_nothing_to_destroy(destroy: Callable[..., Result]) -> None:
    result = destroy(FakeCloudFormation(), "--yes")
    assert result.exit_code == 0
    assert "there is nothing to destroy" in result.stdout


def test_stack_that_is_being_changed_refuses_the_destroy(destroy: Callable[..., Result]) -> None:
    result = destroy(FakeCloudFormation(network=FakeStack("UPDATE_IN_PROGRESS")), "--yes")
    assert result.exit_code == 1
    assert "rayhp-dev-network (UPDATE_IN_PROGRESS)" in result.stderr


def test_unknown_jobs_refuse_the_destroy_unless_forced(
    destroy: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ops.errors import UnreachableError

    def connect(_: config.Environment) -> Any:
        raise UnreachableError("there is no EKS cluster yet. Fix: deploy the eks stack")

    monkeypatch.setattr(steps, "connect", connect)
    cloudformation = FakeCloudFormation(ray=FakeStack())
    refused = destroy(cloudformation, "--yes")
    assert refused.exit_code == 1
    assert "running jobs are unknown (override with `--force`)" in refused.stderr

    def cdk(names: Sequence[str]) -> str:
        cloudformation.stacks.clear()
        return ""

    assert destroy(cloudformation, "--yes", "--force", cdk=cdk).exit_code == 0


def test_ray_job_on_a_ray_cluster_of_its_own_refuses_the_destroy(destroy: Callable[..., Result], apis: Apis) -> None:
    """KubeRay made the RayCluster; the environment's file does not name it."""
    make_ready(apis)
    apis.kubernetes[RAY_CLUSTERS] = {"items": [{"metadata": {"name": "train-raycluster-x2k9p"}}]}
    status = {"rayClusterName": "train-raycluster-x2k9p", "jobStatus": "RUNNING"}
    labels = {"ray-on-hyperpod/run": "train", "ray-on-hyperpod/cluster": "rayml"}
    metadata = {"name": "train", "labels": labels, "creationTimestamp": "2026-11-01T10:00:00Z"}
    apis.kubernetes[RAY_JOBS] = {"items": [{"metadata": metadata, "spec": {"entrypoint": "a"}, "status": status}]}
    result = destroy(FakeCloudFormation(ray=FakeStack()), "--yes")
    assert result.exit_code == 1
    assert "RayCluster ray/train-raycluster-x2k9p has unfinished jobs: RayJob train" in result.stderr


def test_unanswered_question_destroys_nothing(destroy: Callable[..., Result]) -> None:
    result = destroy(FakeCloudFormation(network=FakeStack()))
    assert result.exit_code == 1


def test_stack_that_cannot_be_deleted_is_told_with_its_cause(destroy: Callable[..., Result]) -> None:
    cloudformation = FakeCloudFormation(network=FakeStack())

    def cdk(names: Sequence[str]) -> str:
        stack = "AWS::CloudFormation::Stack"
        event = {"LogicalResourceId": "Vpc", "ResourceType": "AWS::EC2::VPC", "ResourceStatus": "DELETE_FAILED"}
        cause = event | {"ResourceStatusReason": "has dependencies"}
        begin = {"LogicalResourceId": "s", "ResourceType": stack, "ResourceStatus": "DELETE_IN_PROGRESS"}
        cloudformation.stacks["rayhp-dev-network"] = FakeStack("DELETE_FAILED", events=[cause, begin, event])
        return "import sys; sys.exit(1)"

    result = destroy(cloudformation, "--yes", cdk=cdk)
    assert result.exit_code == 3
    assert "rayhp-dev-network: Vpc: has dependencies" in result.stderr
    assert result.stderr.count("Vpc") == 1, "the events of an earlier deletion are not told"


def test_deletion_that_a_killed_run_began_is_waited_for(
    destroy: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    cloudformation = FakeCloudFormation(hyperpod=FakeStack("DELETE_IN_PROGRESS"), network=FakeStack())
    calls: list[list[str]] = []

    def cdk(names: Sequence[str]) -> str:
        calls.append(list(names))
        if len(calls) == 1:
            return "import sys; sys.exit(1)"
        cloudformation.stacks.clear()
        return ""

    def time_passes(_: float) -> None:
        if calls:
            cloudformation.stacks.pop("rayhp-dev-hyperpod", None)

    monkeypatch.setattr("ops.destroy.run.time.sleep", time_passes)
    result = destroy(cloudformation, "--yes", cdk=cdk)
    assert result.exit_code == 0, result.output
    assert calls == [["rayhp-dev-hyperpod", "rayhp-dev-network"], ["rayhp-dev-network"]]


def test_program_that_fails_without_any_progress_is_told_with_its_last_lines(destroy: Callable[..., Result]) -> None:
    fails = "import sys; print('no charts'); sys.exit(1)"
    result = destroy(FakeCloudFormation(network=FakeStack()), "--yes", cdk=lambda _: fails)
    assert result.exit_code == 3
    assert "stacks are left: rayhp-dev-network (CREATE_COMPLETE)" in result.stderr
    assert "no charts" in result.stderr
