"""The verdict of a rehearsal: the resources that are left, sorted by owner, and the last table."""

import dataclasses
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from config import load
from rehearsal.report import verdict
from rehearsal.run import mirror

SEEN = verdict.EksSeen(kuberay="1.2.0", kubernetes="1.35", ran="v1.35.4", charts="generated stand-ins")


def item(owner: str, kind: str = "AWS::Logs::LogGroup", id: str = "a", note: str = "") -> dict[str, Any]:
    """Return an item of the account's inventory."""
    return {"service": "logs", "type": kind, "id": id, "arn": f"arn:{id}", "owner": owner, "note": note}


Show = Callable[..., str]


@pytest.fixture
def show(tmp_path: Path) -> Show:
    """Returns the verdict's screen as text, with one space between words; writes its file to `tmp_path`."""

    def shown(*items: dict[str, Any], protected: tuple[str, ...] = (), seen: Any = SEEN, width: int = 200) -> str:
        printed = io.StringIO()
        leftovers = verdict.sort_leftovers(items, protected)
        verdict.show(Console(file=printed, width=width), leftovers, seen, tmp_path / verdict.NAME)
        return printed.getvalue() if width < 200 else " ".join(printed.getvalue().split())

    return shown


def test_an_inventory_is_sorted_by_owner() -> None:
    items = {
        "protected": item("rayhp-prod-storage"),
        "background": item("background:eks"),
        "bootstrap": item("bootstrap"),
        "nobody": item("nobody"),
        "unexpected": item("rayhp-prod-ray"),
    }
    leftovers = verdict.sort_leftovers(list(items.values()), ["rayhp-prod-storage"])
    for name, expected in items.items():
        assert getattr(leftovers, name) == [expected], name


def test_the_bootstrap_protected_stacks_and_aws_s_own_leftovers_are_clean() -> None:
    items = [item("bootstrap"), item("background:lambda"), item("storage")]
    assert verdict.sort_leftovers(items, ["storage"]).clean


def test_a_resource_of_nobody_is_not_clean() -> None:
    assert not verdict.sort_leftovers([item("nobody")], []).clean


def test_a_stack_that_should_be_gone_is_not_clean() -> None:
    assert not verdict.sort_leftovers([item("storage")], []).clean


def test_nothing_left_is_clean_and_says_so(show: Show) -> None:
    assert verdict.sort_leftovers([], []).clean
    assert "resources without an owner 0" in show()


def test_the_screen_names_what_was_real_simulated_and_not_enforced_and_a_file_says_more(
    show: Show, tmp_path: Path
) -> None:
    text = show()
    rows = (*verdict.real_with_eks(SEEN), *verdict.simulated_with_eks(SEEN), *verdict.NOT_ENFORCED)
    details = " ".join((tmp_path / verdict.NAME).read_text().split())
    for row in rows:
        assert row.partition(":")[0] in text
        assert row in details
    assert "Kubernetes v1.35.4: etcd, API server" in details
    assert f"What each name means: {tmp_path / verdict.NAME}" in text


def test_the_verdict_fits_on_one_screen_of_80_columns(show: Show) -> None:
    left = [item("bootstrap", f"AWS::S3::Bucket{n}") for n in range(6)]
    left += [item("background:eks", id=f"/aws/logs/{n}", note="AWS keeps logs of functions") for n in range(9)]
    lines = show(*left, width=80).splitlines()
    assert len(lines) <= 36
    assert max(map(len, lines[:-1])) <= 80


def test_what_this_project_simulates_is_not_called_real() -> None:
    real = " ".join(verdict.real_with_eks(SEEN))
    for word in ("CloudFormation", "rollback", "IAM", "HyperPod"):
        assert word not in real


@pytest.mark.parametrize(("chosen", "ran"), [("1.34", "v1.34.4"), ("1.32", "v1.33.13"), ("1.3", "v1.33.13")])
def test_the_verdict_names_the_kubernetes_that_ran_and_says_when_it_is_not_the_chosen_one(
    chosen: str, ran: str
) -> None:
    seen = dataclasses.replace(SEEN, kubernetes=chosen, ran=ran)
    [real] = (row for row in verdict.real_with_eks(seen) if row.startswith("Kubernetes"))
    assert real.startswith(f"Kubernetes {ran}: ")
    instead = [row for row in verdict.simulated_with_eks(seen) if row.startswith(f"Kubernetes {chosen}: ")]
    said = f"Kubernetes {chosen}: it cannot be built here; {ran} ran, the nearest version that can"
    assert instead == ([] if chosen == "1.34" else [said])


def test_many_resources_of_a_type_are_summed_up_with_the_reason(show: Show) -> None:
    text = show(*[item("background:lambda", id=f"group-{n}", note="AWS keeps logs") for n in range(9)])
    summary = re.search(r"left by AWS itself .*Logs LogGroup: group-0, .* and (\d) more \(AWS keeps logs\)", text)
    assert summary
    assert summary[0].count("group-") + int(summary[1]) == 9


def test_resources_of_nobody_are_counted_and_named(show: Show) -> None:
    text = show(item("nobody", "AWS::EC2::NetworkInterface", "eni-1"), item("nobody", "AWS::FSx::FileSystem", "fs-2"))
    assert re.search(r"resources without an owner 2 .*NetworkInterface.* eni-1 .*FileSystem.* fs-2", text)


def test_resources_that_should_be_gone_are_named(show: Show) -> None:
    assert re.search(r"left, unexpected .*LogGroup.* rayhp-logs", show(item("rayhp-dev-ray", id="rayhp-logs")))


def test_what_a_protected_environment_keeps_is_named(show: Show) -> None:
    assert "fs-1" in show(item("storage", "AWS::FSx::FileSystem", "fs-1"), protected=("storage",))


def test_an_image_from_another_registry_than_the_environments_is_found() -> None:
    closed = load("closed")
    fine = {
        f"{closed.image_registry}/kuberay/operator:v1.2.0": "kuberay/operator",
        f"{mirror.STAND_INS}coredns": "kube-system/coredns",
        "905418368575.dkr.ecr.us-west-2.amazonaws.com/hyperpod-health-monitoring-agent:1": "aws-hyperpod/agent",
    }
    elsewhere = {
        "quay.io/kuberay/operator:v1.2.0": "kuberay/other",
        "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/plugin:1": "kube-system/plugin",
    }
    assert mirror.from_elsewhere(closed, fine | elsewhere) == elsewhere


@pytest.mark.parametrize("version", ["22.05.8", None])
def test_with_slurm_the_verdict_claims_no_kubernetes_and_says_whether_slurm_ran(
    show: Show, tmp_path: Path, version: str | None
) -> None:
    seen = verdict.SlurmSeen(version, scripts=False, why_not="" if version else "apt cannot fetch Slurm. Fix: use [it]")
    said = " ".join([show(seen=seen), *(tmp_path / verdict.NAME).read_text().split()])
    ran = "Slurm 22.05.8: jobs, a lost node"
    left_out = "NOT RUN real Slurm: apt cannot fetch Slurm. Fix: use [it]. This rehearsal shows nothing of jobs"
    assert (ran in said, left_out in said) == ((True, False) if version else (False, True))
    assert not [word for word in ("Kubernetes:", "KubeRay", "kwok", "CSI", "Helm") if word in said]
    assert "so no lifecycle script runs" in said
    assert "IAM: trust policies of people" in said


def test_lifecycle_scripts_are_real_where_nodes_ran_them() -> None:
    ran = verdict.real_with_slurm(verdict.SlurmSeen(None, scripts=True))
    assert any(line.startswith("lifecycle scripts: this project's, from the lifecycle bucket") for line in ran)
    assert "no lifecycle script runs" not in " ".join(
        verdict.simulated_with_slurm(verdict.SlurmSeen(None, scripts=True))
    )
