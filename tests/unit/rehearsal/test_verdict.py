"""The verdict of a rehearsal: the resources that are left, sorted by owner, and the last table."""

import dataclasses
import io
import re
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


def shown(*items: dict[str, Any], protected: tuple[str, ...] = ()) -> str:
    """Return the verdict's table as text, with one space between words."""
    printed = io.StringIO()
    leftovers = verdict.sort_leftovers(items, protected)
    verdict.show(Console(file=printed, width=200), leftovers, SEEN)
    return " ".join(printed.getvalue().split())


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


def test_nothing_left_is_clean_and_says_so() -> None:
    assert verdict.sort_leftovers([], []).clean
    assert "resources without an owner 0" in shown()


def test_the_table_says_what_was_real_what_was_simulated_and_which_charts_were_used() -> None:
    text = shown()
    for row in (*verdict.real_with_eks(SEEN), *verdict.SIMULATED, "generated stand-ins"):
        assert row in text
    assert "Kubernetes v1.35.4: etcd, API server" in text


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


def test_many_resources_of_a_type_are_summed_up_with_the_reason() -> None:
    text = shown(*[item("background:lambda", id=f"group-{n}", note="AWS keeps logs") for n in range(9)])
    summary = re.search(r"left by AWS itself .*Logs LogGroup: group-0, .* and (\d) more \(AWS keeps logs\)", text)
    assert summary
    assert summary[0].count("group-") + int(summary[1]) == 9


def test_resources_of_nobody_are_counted_and_named() -> None:
    text = shown(item("nobody", "AWS::EC2::NetworkInterface", "eni-1"), item("nobody", "AWS::FSx::FileSystem", "fs-2"))
    assert re.search(r"resources without an owner 2 .*NetworkInterface.* eni-1 .*FileSystem.* fs-2", text)


def test_resources_that_should_be_gone_are_named() -> None:
    assert re.search(r"left, unexpected .*LogGroup.* rayhp-logs", shown(item("rayhp-dev-ray", id="rayhp-logs")))


def test_what_a_protected_environment_keeps_is_named() -> None:
    assert "fs-1" in shown(item("storage", "AWS::FSx::FileSystem", "fs-1"), protected=("storage",))


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
def test_with_slurm_the_verdict_claims_no_kubernetes_and_says_whether_slurm_ran(version: str | None) -> None:
    printed = io.StringIO()
    seen = verdict.SlurmSeen(version, scripts=False, why_not="" if version else "apt cannot fetch Slurm. Fix: use [it]")
    verdict.show(Console(file=printed, width=200), verdict.sort_leftovers([], ()), seen)
    said = " ".join(printed.getvalue().split())
    ran = "Slurm 22.05.8: jobs, a lost node"
    left_out = "NOT RUN real Slurm: apt cannot fetch Slurm. Fix: use [it]. This rehearsal shows nothing of jobs"
    assert (ran in said, left_out in said) == ((True, False) if version else (False, True))
    assert not [word for word in ("Kubernetes:", "KubeRay", "kwok", "CSI", "Helm") if word in said]
    assert "so no lifecycle script runs" in said
    assert "IAM permissions: enforced for people" in said


def test_lifecycle_scripts_are_real_where_nodes_ran_them() -> None:
    ran = verdict.real_with_slurm(verdict.SlurmSeen(None, scripts=True))
    assert any(line.startswith("lifecycle scripts: this project's, from the lifecycle bucket") for line in ran)
    assert "no lifecycle script runs" not in " ".join(
        verdict.simulated_with_slurm(verdict.SlurmSeen(None, scripts=True))
    )
