"""The table of a report: a reviewer who reads nothing else decides rightly."""

from dataclasses import replace

import pytest

from ops.review.model import Bill, Danger, Effect, EnvironmentVerdict
from ops.review.report import costs, markdown, summary
from ops.review.report.summary import Words
from tests.unit.ops.review.report.verdicts import change, everything, five_changes, verdict

CODE = change("Deployment ray/reaper", "code", Effect.IN_PLACE)


def table(text: str) -> list[str]:
    """Return the rows of the first table, without its header."""
    lines = text.splitlines()
    first = lines.index("| environment | change | what happens | cost | who must act |")
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(line)
    return rows


def test_five_changes_say_what_happens_to_training_and_who_must_act() -> None:
    assert table(markdown.report(verdict(everything("prod")))) == [
        "| prod | **file system**: throughput 250 → 500 MB/s per TiB "
        "| ⛔ **data lost**<br>A new file system is empty, and the old one is deleted. "
        "| +US$ 24.58 per hour (US$ 98.32 → US$ 122.90)<br>+US$ 17,943 per month (US$ 71,774 → US$ 89,717)"
        "<br>+2 GPUs (8 → 10) "
        "| a reviewer: approve `data-loss`, or drop the change. Save the data before the deployment. |",
        "| prod | **instance group worker-group-2**: removed with its 4 nodes "
        "| **nodes removed**<br>HyperPod does not drain the nodes. |  "
        "| Before the deployment: `ops scale worker-group-2 0 --env prod`. "
        "`hyperpod.confirm_group_removal` confirms it. |",
        "| prod | **instance group worker-group-3**: type ml.g5.8xlarge → ml.p5.48xlarge "
        "| **refused**<br>HyperPod cannot change a group's type. |  | Give the group another name. |",
        "| prod | **RayCluster ray/rayml**: image package torch 2.6.0 → 2.7.0 "
        "| **needs rollout**<br>KubeRay keeps running pods. |  "
        "| After the deployment: `ops rollout rayml --env prod`. |",
        "| prod | **instance group worker-group-1**: count 4 → 5 "
        "| **in place**<br>HyperPod adds one node. |  | nobody |",
    ]


def test_headline_names_the_worst_effect_and_what_the_gate_stops() -> None:
    both = verdict(everything("prod"), EnvironmentVerdict("dev", (CODE,)))
    assert summary.headline(both) == "Worst effect: data lost, in prod. The gate stops 1 change."
    assert summary.headline(verdict(EnvironmentVerdict("dev", (CODE,)))) == (
        "Worst effect: in place, in dev. The gate stops nothing."
    )
    assert summary.headline(verdict(EnvironmentVerdict("dev"))) == "Nothing that runs changes. The gate stops nothing."


def test_gate_stops_what_is_dangerous_and_not_confirmed() -> None:
    text = markdown.report(verdict(everything("prod")))
    assert (
        "**⛔ The gate stops** these changes until `environments/approvals/ENVIRONMENT.yaml` approves each:\n\n"
        "- prod: `AWS::FSx::FileSystem FileSystem`: `data-loss`. File system: throughput 250 → 500 MB/s per TiB.\n\n"
    ) in text
    assert (
        "Confirmed already:\n\n- prod: `hyperpod.confirm_group_removal` confirms `group-removed` of instance group "
        "worker-group-2: removed with its 4 nodes.\n"
    ) in text


def test_unknown_effect_needs_an_approval_whatever_its_dangers() -> None:
    [row] = summary.rows(verdict(EnvironmentVerdict("dev", (change("thing", "x", Effect.UNKNOWN),))))
    assert row.stops
    assert row.action == "a reviewer: approve `unknown`, or drop the change."


def test_changes_of_nothing_are_counted_and_not_listed() -> None:
    nothing = change("template", "description", Effect.NOTHING)
    only, mixed = EnvironmentVerdict("dev", (nothing, nothing)), EnvironmentVerdict("prod", (CODE, nothing))
    text = markdown.report(verdict(mixed, only))
    assert [row.title for row in summary.rows(verdict(mixed, only))] == ["Deployment ray/reaper", "nothing that runs"]
    assert "Not listed: 3 changes of texts that nothing reads at run time." in text
    assert "description" not in text


def test_change_of_nothing_with_a_danger_is_listed() -> None:
    odd = change("thing", "x", Effect.NOTHING, dangers=frozenset({Danger.RUNS_CODE}))
    [row] = summary.rows(verdict(EnvironmentVerdict("dev", (odd,))))
    assert (row.title, row.stops) == ("thing", True)


def test_environments_with_equal_changes_and_unchanged_costs_share_their_rows() -> None:
    def rollout(name: str) -> EnvironmentVerdict:
        action = f"`ops rollout rayml --env {name}`"
        return EnvironmentVerdict(name, (replace(CODE, action=action),), Bill(len(name), 0), Bill(len(name), 0))

    other = replace(rollout("small"), after=Bill(7, 0))
    rows = list(summary.rows(verdict(rollout("dev"), rollout("prod"), other)))
    assert [(row.environment, row.action) for row in rows] == [
        ("dev, prod", "`ops rollout rayml --env NAME`."),
        ("small", "`ops rollout rayml --env small`."),
    ]
    assert rows[0].cost == ("unchanged",)


def test_many_created_things_share_a_row_unless_somebody_must_act() -> None:
    new = [change(f"thing {number}", "created", Effect.CREATED) for number in range(6)]
    opened = change("port", "created", Effect.CREATED, dangers=frozenset({Danger.OPENED_PORT}))
    many, few = EnvironmentVerdict("dev", (opened, *new, CODE)), EnvironmentVerdict("prod", tuple(new[:5]))
    assert [(row.title, row.what) for row in summary.rows(verdict(many))] == [
        ("port", "created"),
        ("Deployment ray/reaper", "code"),
        ("6 changes", "thing 0, thing 1, thing 2, thing 3, thing 4, thing 5"),
    ]
    assert [row.title for row in summary.rows(verdict(few))] == [each.title for each in new[:5]]


def test_equal_gaps_in_the_prices_are_no_change_of_costs() -> None:
    bill = Bill(1, 0, ("KMS key",))
    rows = list(summary.rows(verdict(*(EnvironmentVerdict(name, (CODE,), bill, bill) for name in ("a", "b")))))
    assert [(row.environment, row.cost) for row in rows] == [("a, b", ("unchanged",))]


def test_environments_that_were_not_compared_share_a_row_of_their_own() -> None:
    names = ("closed", "small")
    skipped = [EnvironmentVerdict(name, synthesised=False) for name in names]
    rows = list(summary.rows(verdict(EnvironmentVerdict("dev"), *skipped)))
    assert [(row.environment, row.title) for row in rows] == [
        ("dev", "nothing that runs"),
        ("closed, small", "nothing: no input of the synthesis differs"),
    ]


COSTS = {
    "unchanged": (
        (Bill(98.32, 8), Bill(98.32, 8)),
        ["unchanged: US$ 98.32 per hour, US$ 71,774 per month, 8 GPUs"],
    ),
    "new environment": (
        (None, Bill(1, 0)),
        ["+US$ 1.00 per hour (US$ 0.00 → US$ 1.00)", "+US$ 730 per month (US$ 0 → US$ 730)"],
    ),
    "cheaper": (
        (Bill(2, 2), Bill(1, 1)),
        ["-US$ 1.00 per hour (US$ 2.00 → US$ 1.00)", "-US$ 730 per month (US$ 1,460 → US$ 730)", "-1 GPUs (2 → 1)"],
    ),
    "without a price": (
        (Bill(1, 8, ("ml.x",)), Bill(1, 8, ("ml.y",))),
        ["unchanged: US$ 1.00 per hour, US$ 730 per month, 8 GPUs", "not included, without a price: ml.x, ml.y"],
    ),
}


@pytest.mark.parametrize(("bills", "lines"), COSTS.values(), ids=COSTS)
def test_costs_show_before_after_and_the_difference(bills: tuple[Bill | None, Bill], lines: list[str]) -> None:
    assert list(costs.of(EnvironmentVerdict("dev", (CODE,), *bills))) == lines


def test_total_adds_the_differences_of_all_environments() -> None:
    both = verdict(everything("prod"), EnvironmentVerdict("dev", (), None, Bill(1, 1)))
    assert costs.total(both) == "All environments: +US$ 25.58 per hour, +US$ 18,673 per month, +3 GPUs."
    assert costs.total(verdict(EnvironmentVerdict("dev", (), Bill(1, 1), Bill(1, 1)))) == ""


@pytest.mark.parametrize("words", Words)
def test_table_has_every_environment_and_effect_with_fewer_words(words: Words) -> None:
    both = verdict(everything("prod", times=30), everything("dev", times=30))
    found = {(row.environment, row.effect, row.stops) for row in summary.rows(both, words)}
    effects = {(each.effect, each.effect is Effect.DATA_LOST) for each in five_changes("prod")}
    assert found == {(name, *effect) for name in ("prod", "dev") for effect in effects}


def test_grouped_rows_name_things_and_actions() -> None:
    grouped = list(summary.rows(verdict(everything("prod", times=2)), Words.GROUPED))
    assert [(row.title, row.what) for row in grouped][:2] == [
        ("2 changes", "file system"),
        ("2 changes", "instance group worker-group-2"),
    ]
    assert grouped[2].action == "Give the group another name."
