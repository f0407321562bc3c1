"""The table of a report: a reviewer who reads nothing else decides rightly."""

from dataclasses import replace
from typing import Any

import pytest

from config.estimates.costs import SleepingNodes
from ops.review.model import Change, ComparedRow, Danger, Effect, EnvironmentVerdict, StandingCosts
from ops.review.report import costs, markdown, outcome, summary
from ops.review.report.summary import Words
from tests.unit.ops.review.report.verdicts import DIGEST, change, everything, five_changes, verdict

CODE = change("Deployment ray/reaper", "code", Effect.IN_PLACE)


def table(text: str) -> list[str]:
    """Return the rows of the first table, without its header."""
    lines = text.splitlines()
    first = lines.index("| environment | change | what happens | who does what, when |")
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(line)
    return rows


def test_five_changes_say_what_happens_to_training_and_who_must_act() -> None:
    assert table(markdown.report(verdict(everything("prod")))) == [
        "| prod | **cost of all changes together** | not shown: the deployment fails as it stands |  |",
        "| prod | **file system**: throughput 250 → 500 MB/s per TiB "
        "| ⛔ **data lost**<br>A new file system is empty, and the old one is deleted. "
        "| Reviewer: approve `data-loss`, or reject the change."
        "<br>Operator, before the deployment: save the data. |",
        "| prod | **instance group worker-group-2**: removed with its 4 nodes "
        "| **nodes removed**<br>HyperPod does not drain the nodes. "
        "| Operator, before the deployment: run `ops scale worker-group-2 0 --env prod`."
        "<br>`hyperpod.confirm_group_removal` confirms it: no approval is needed. |",
        "| prod | **instance group worker-group-3**: type ml.g5.8xlarge → ml.p5.48xlarge "
        "| **deployment fails**<br>HyperPod cannot change a group's type. | Author: give the group another name. |",
        "| prod | **RayCluster ray/rayml**: image package torch 2.6.0 → 2.7.0 "
        "| **needs rollout**<br>KubeRay keeps running pods. "
        "| Operator, after the deployment: run `ops rollout rayml --env prod`. |",
        "| prod | **instance group worker-group-1**: count 4 → 5 | **in place**<br>HyperPod adds one node. | nobody |",
    ]


def test_headline_says_what_fails_what_is_lost_and_what_needs_an_approval() -> None:
    both = verdict(everything("prod"), EnvironmentVerdict("dev", (CODE,)))
    assert summary.headline(both) == (
        "Data is lost: file system (prod). The deployment of prod fails as it stands. Jobs may end. "
        "1 change needs an approval."
    )
    assert summary.headline(verdict(EnvironmentVerdict("dev", (CODE,)))) == "No change needs an approval."
    assert summary.headline(verdict(EnvironmentVerdict("dev"))) == (
        "Nothing that runs changes. No change needs an approval."
    )


def lowered(title: str, resource: str, by: str = "") -> Change:
    dangers = frozenset({Danger.LOWER_PROTECTION})
    return change(title, "Retain → Delete", Effect.IN_PLACE, resource=resource, dangers=dangers, confirmed_by=by)


def test_headline_names_first_what_a_lifted_protection_leaves_to_the_next_destroy() -> None:
    lifted = (
        lowered("stack storage", "Stack storage", "protect"),
        lowered("deleter of objects", "Custom::S3AutoDeleteObjects Deleter", "protect"),
        lowered("data bucket", "AWS::S3::Bucket Data", "protect"),
        lowered("image repository", "AWS::ECR::Repository Repository", "protect"),
        lowered("file system", "AWS::FSx::FileSystem FileSystem", "protect"),
    )
    assert summary.headline(verdict(EnvironmentVerdict("prod", lifted))).startswith(
        "prod loses its protection: the next destroy deletes file system, data bucket, image repository. "
    )
    assert summary.headline(verdict(EnvironmentVerdict("prod", lifted[:1]))).startswith(
        "prod loses its protection: the next destroy deletes its stacks. "
    )


def test_headline_names_what_is_less_protected_or_more_public() -> None:
    endpoint = change("EKS cluster", "public", Effect.IN_PLACE, dangers=frozenset({Danger.PUBLIC_ENDPOINT}))
    found = EnvironmentVerdict("dev", (lowered("data bucket", "AWS::S3::Bucket Data"), endpoint))
    assert summary.headline(verdict(found)).startswith(
        "Less protected: data bucket (dev). Open to more of the Internet: EKS cluster (dev). "
    )


def test_one_tag_on_many_resources_is_one_row() -> None:
    tagged = tuple(change(f"bucket {n}", "Tags.cost unset → 42", Effect.IN_PLACE) for n in range(6))
    other = change("VPC", "Tags.cost unset → 42; EnableDnsSupport true → false", Effect.IN_PLACE)
    acted = change("role", "Tags.cost unset → 42", Effect.IN_PLACE, dangers=frozenset({Danger.UNKNOWN}))
    _, *rows = table(markdown.report(verdict(EnvironmentVerdict("dev", (*tagged, other, acted)))))
    assert [row.split(" | ")[1] for row in rows] == [
        "**VPC**: Tags.cost unset → 42; EnableDnsSupport true → false",
        "**role**: Tags.cost unset → 42",
        "**tags of 6 resources**: Tags.cost unset → 42",
    ]
    _, *rows = table(markdown.report(verdict(EnvironmentVerdict("dev", tagged[:5]))))
    assert len(rows) == 5


def test_answers_name_what_fails_ends_and_is_lost_and_count_the_steps() -> None:
    prod = replace(everything("prod"), dependents={"hyperpod": ("platform", "ray")})
    ray = replace(CODE, stack="ray")
    assert dict(outcome.answers(verdict(replace(prod, changes=(*prod.changes, ray))))) == {
        "Deployment": "prod fails on instance group worker-group-3. CloudFormation then rolls stack hyperpod back, "
        "and the changes of stack ray are not deployed.",
        "Running jobs": "may end or lose workers: file system, instance group worker-group-2 (prod). "
        "end at the `ops rollout` after the deployment: RayCluster ray/rayml (prod).",
        "Data": "lost: file system (prod).",
        "Before and after": "1 step of the author, 2 steps before the deployment, 1 step after the "
        "deployment: the last column says which.",
    }


def test_answers_say_so_where_nothing_applies() -> None:
    assert list(outcome.answers(verdict(EnvironmentVerdict("dev", (CODE,))))) == [
        ("Deployment", "this review finds nothing that makes it fail."),
        ("Running jobs", "nothing ends them."),
        ("Data", "nothing is lost."),
        ("Before and after", "nothing to do."),
    ]
    assert list(outcome.answers(verdict(EnvironmentVerdict("dev")))) == []


@pytest.mark.parametrize(
    ("more", "subject", "answer"),
    [
        ({"fails_unless": "stack ray is destroyed"}, "Deployment", "dev fails unless stack ray is destroyed."),
        ({"effect": Effect.UNKNOWN}, "Running jobs", "unknown: Deployment ray/reaper (dev, prod)."),
        ({"effect": Effect.UNKNOWN}, "Data", "unknown: Deployment ray/reaper (dev, prod)."),
        ({"effect": Effect.KEPT, "dangers": frozenset({Danger.DATA_LOSS})}, "Data", "kept in the account"),
        ({"dangers": frozenset({Danger.DATA_LOSS})}, "Data", "at risk: Deployment ray/reaper (dev, prod)."),
    ],
)
def test_answer_to_a_change(more: dict[str, Any], subject: str, answer: str) -> None:
    both = verdict(*(EnvironmentVerdict(name, (replace(CODE, **more),)) for name in ("dev", "prod")))
    assert dict(outcome.answers(both))[subject].startswith(answer)


def test_equal_changes_of_one_thing_share_a_row() -> None:
    parts = [replace(CODE, what=what) for what in ("head: image", "workers: image")]
    other = replace(CODE, what="command", effect=Effect.NEEDS_ROLLOUT)
    rows = [row for row in summary.rows(verdict(EnvironmentVerdict("dev", (*parts, other)))) if row.effect]
    assert [(row.what, row.effect) for row in rows] == [
        ("head: image; workers: image", Effect.IN_PLACE),
        ("command", Effect.NEEDS_ROLLOUT),
    ]


def test_gate_stops_what_is_dangerous_and_not_confirmed() -> None:
    text = markdown.report(verdict(everything("prod")))
    assert (
        "⛔ A reviewer who accepts what needs an approval adds to `environments/approvals/prod.yaml`, "
        "under `approvals:`\n\n```yaml\n"
        '  - stack: "hyperpod"\n    resource: "AWS::FSx::FileSystem FileSystem"\n    change: data-loss\n'
        f'    digest: "{DIGEST}"\n    reason: WHY\n'
        '    expires: "YYYY-MM-DD"\n```\n\n'
    ) in text
    assert (
        "Confirmed already:\n\n- prod: `hyperpod.confirm_group_removal` confirms `group-removed` of instance group "
        "worker-group-2: removed with its 4 nodes.\n"
    ) in text


def test_unknown_effect_needs_an_approval_whatever_its_dangers() -> None:
    [_, row] = summary.rows(verdict(EnvironmentVerdict("dev", (change("thing", "x", Effect.UNKNOWN),))))
    assert row.stops
    assert row.actions == ("Reviewer: approve `unknown`, or reject the change.",)


def test_changes_of_nothing_are_counted_and_not_listed() -> None:
    nothing = change("template", "description", Effect.NOTHING)
    only, mixed = EnvironmentVerdict("dev", (nothing, nothing)), EnvironmentVerdict("prod", (CODE, nothing))
    text = markdown.report(verdict(mixed, only))
    assert [row.title for row in summary.rows(verdict(mixed, only))] == [
        "cost of all changes together",
        "Deployment ray/reaper",
        "nothing that runs",
    ]
    assert "3 changes without effect (descriptions, comments) are not listed." in text
    assert "template" not in text


def test_change_of_nothing_with_a_danger_is_listed() -> None:
    odd = change("thing", "x", Effect.NOTHING, dangers=frozenset({Danger.RUNS_CODE}))
    [_, row] = summary.rows(verdict(EnvironmentVerdict("dev", (odd,))))
    assert (row.title, row.stops) == ("thing", True)


def test_environments_with_equal_changes_and_unchanged_costs_share_their_rows() -> None:
    def rollout(name: str) -> EnvironmentVerdict:
        action = f"Operator, after the deployment: run `ops rollout rayml --env {name}`."
        return EnvironmentVerdict(
            name, (replace(CODE, action=action),), StandingCosts(len(name), 0), StandingCosts(len(name), 0)
        )

    other = replace(rollout("small"), after=StandingCosts(7, 0))
    rows = list(summary.rows(verdict(rollout("dev"), rollout("prod"), other)))
    run = "Operator, after the deployment: run `ops rollout rayml --env"
    assert [(row.environment, row.actions) for row in rows] == [
        ("dev, prod", ()),
        ("dev, prod", (f"{run} NAME`.",)),
        ("small", ()),
        ("small", (f"{run} small`.",)),
    ]
    assert rows[0].cost == ("unchanged",)


def test_many_created_things_share_a_row_unless_somebody_must_act() -> None:
    new = [change(f"thing {number}", "created", Effect.CREATED) for number in range(6)]
    opened = change("port", "created", Effect.CREATED, dangers=frozenset({Danger.OPENED_PORT}))
    many, few = EnvironmentVerdict("dev", (opened, *new, CODE)), EnvironmentVerdict("prod", tuple(new[:5]))
    assert [(row.title, row.what) for row in summary.rows(verdict(many))][1:] == [
        ("port", ""),
        ("Deployment ray/reaper", "code"),
        ("6 changes", "thing 0, thing 1, thing 2, thing 3, thing 4, thing 5"),
    ]
    assert [row.title for row in summary.rows(verdict(few))][1:] == [each.title for each in new[:5]]


def test_equal_gaps_in_the_prices_are_no_change_of_costs() -> None:
    bill = StandingCosts(1, 0, ("KMS key",))
    rows = list(summary.rows(verdict(*(EnvironmentVerdict(name, (CODE,), bill, bill) for name in ("a", "b")))))
    assert [(row.environment, row.cost) for row in rows] == [("a, b", ("unchanged",)), ("a, b", ())]


def test_costs_are_explained_once_below_the_table() -> None:
    text = markdown.report(verdict(deployable(everything("prod")), deployable(everything("dev"))))
    assert text.count("Costs are on-demand list prices of what runs all the time; a month has 730 hours.") == 1
    assert text.count("Not in these figures, because the price table lacks them: KMS key.") == 1
    assert "price" not in markdown.report(verdict(EnvironmentVerdict("dev")))


def test_gap_in_the_prices_that_changes_keeps_rows_apart() -> None:
    names = ("a", "b")
    bills = StandingCosts(1, 0, ("ml.x",)), StandingCosts(1, 0, ("ml.y",))
    rows = list(summary.rows(verdict(*(EnvironmentVerdict(name, (CODE,), *bills) for name in names))))
    assert [row.environment for row in rows if row.first] == ["a", "b"]


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
        (StandingCosts(98.32, 8), StandingCosts(98.32, 8)),
        ["unchanged: US$ 98.32 per hour, US$ 71,774 per month, 8 GPUs"],
    ),
    "new environment": (
        (None, StandingCosts(1, 0)),
        ["+US$ 1.00 per hour (US$ 0.00 → US$ 1.00)", "+US$ 730 per month (US$ 0 → US$ 730)"],
    ),
    "cheaper": (
        (StandingCosts(2, 2), StandingCosts(1, 1)),
        [
            "-US$ 1.00 per hour (US$ 2.00 → US$ 1.00)",
            "-US$ 730 per month (US$ 1,460 → US$ 730)",
            "-1 GPUs (2 → 1), -730 GPU-hours per month",
        ],
    ),
    "something stays": (
        (StandingCosts(2, 0), StandingCosts(2, 0, kept_usd_per_hour=1)),
        [
            "unchanged: US$ 2.00 per hour, US$ 1,460 per month, 0 GPUs",
            "US$ 1.00 of it per hour, US$ 730 per month, for what leaves its stack and stays",
        ],
    ),
    "a budget": (
        (StandingCosts(1, 0), StandingCosts(1, 0, budget_usd=20_000)),
        ["unchanged: US$ 1.00 per hour, US$ 730 per month, 0 GPUs", "budget added: US$ 20,000 per month"],
    ),
    "a higher budget": (
        (StandingCosts(1, 0, budget_usd=20_000), StandingCosts(1, 0, budget_usd=30_000)),
        ["unchanged: US$ 1.00 per hour, US$ 730 per month, 0 GPUs", "budget raised: US$ 20,000 → US$ 30,000 per month"],
    ),
    "a lower budget": (
        (StandingCosts(1, 0, budget_usd=20_000), StandingCosts(1, 0, budget_usd=500)),
        ["unchanged: US$ 1.00 per hour, US$ 730 per month, 0 GPUs", "budget lowered: US$ 20,000 → US$ 500 per month"],
    ),
    "no budget any more": (
        (StandingCosts(1, 0, budget_usd=20_000), StandingCosts(1, 0)),
        [
            "unchanged: US$ 1.00 per hour, US$ 730 per month, 0 GPUs",
            "budget removed: nobody is called any more at US$ 20,000 per month",
        ],
    ),
    "a group that may sleep": (
        (StandingCosts(4, 0), StandingCosts(4, 0, sleeping=(SleepingNodes("gpu", 1, 4, 0),))),
        [
            "unchanged: US$ 4.00 per hour, US$ 2,920 per month, 0 GPUs",
            "gpu may sleep: US$ 730 per month if nothing uses it, 2,920 if something always does",
        ],
    ),
    "a group that may sleep outside of its hours": (
        (StandingCosts(4, 0), StandingCosts(4, 0, sleeping=(SleepingNodes("gpu", 0, 4, 60),))),
        [
            "unchanged: US$ 4.00 per hour, US$ 2,920 per month, 0 GPUs",
            "gpu may sleep: awake in its hours only (60 of 168 hours a week), US$ 1,043 instead of 2,920 per month; "
            "in use outside of them, more",
        ],
    ),
    "a group whose hours of sleep change": (
        (
            StandingCosts(4, 0, sleeping=(SleepingNodes("gpu", 0, 4, 0), SleepingNodes("same", 0, 1, 0))),
            StandingCosts(4, 0, sleeping=(SleepingNodes("gpu", 0, 4, 84), SleepingNodes("same", 0, 1, 0))),
        ),
        [
            "unchanged: US$ 4.00 per hour, US$ 2,920 per month, 0 GPUs",
            "gpu sleeps by other rules: awake in its hours only (84 of 168 hours a week), US$ 1,460 instead of 2,920 "
            "per month; in use outside of them, more. "
            "Before: US$ 0 per month if nothing uses it, 2,920 if something always does",
        ],
    ),
    "a group that no longer sleeps, and one that is gone": (
        (
            StandingCosts(4, 0, sleeping=(SleepingNodes("gpu", 0, 4, 0), SleepingNodes("gone", 0, 1, 0))),
            StandingCosts(4, 0),
        ),
        [
            "unchanged: US$ 4.00 per hour, US$ 2,920 per month, 0 GPUs",
            "gpu no longer sleeps: all of its nodes cost at all times. "
            "Before: US$ 0 per month if nothing uses it, 2,920 if something always does",
        ],
    ),
    "without a price": (
        (StandingCosts(1, 8, ("ml.x",)), StandingCosts(1, 8, ("ml.y",))),
        ["unchanged: US$ 1.00 per hour, US$ 730 per month, 8 GPUs"],
    ),
}


@pytest.mark.parametrize(("bills", "lines"), COSTS.values(), ids=COSTS)
def test_costs_show_before_after_and_the_difference(
    bills: tuple[StandingCosts | None, StandingCosts], lines: list[str]
) -> None:
    groups = ComparedRow("gpu", {"count": "4"}, {"count": "4"}), ComparedRow("gone", {"count": "4"}, {})
    assert list(costs.of(EnvironmentVerdict("dev", (CODE,), *bills, groups))) == lines


def test_a_sum_says_that_it_counts_groups_that_sleep_as_awake() -> None:
    bill = StandingCosts(4, 0, sleeping=(SleepingNodes("gpu", 0, 4, 0),))
    said = "Groups that sleep count with all of their nodes."
    assert said in costs.notes(verdict(EnvironmentVerdict("dev", (CODE,), bill, bill)))
    awake = StandingCosts(4, 0)
    assert said not in list(costs.notes(verdict(EnvironmentVerdict("dev", (CODE,), awake, awake))))
    assert not costs.are_unchanged(EnvironmentVerdict("dev", (CODE,), awake, bill))
    assert costs.are_unchanged(EnvironmentVerdict("dev", (CODE,), bill, bill))


def test_environments_whose_budgets_changed_do_not_share_a_row_of_costs() -> None:
    bills = StandingCosts(1, 0), StandingCosts(1, 0, budget_usd=500)
    rows = list(summary.rows(verdict(*(EnvironmentVerdict(name, (CODE,), *bills) for name in ("a", "b")))))
    assert [row.environment for row in rows if row.first] == ["a", "b"]


def test_total_adds_the_differences_of_all_environments() -> None:
    prod = deployable(everything("prod"))
    dev = EnvironmentVerdict("dev", (), None, StandingCosts(1, 1))
    assert costs.total(verdict(prod, dev)) == "All environments: +US$ 25.58 per hour, +US$ 18,673 per month, +3 GPUs."
    unchanged = EnvironmentVerdict("dev", (), StandingCosts(1, 1), StandingCosts(1, 1))
    assert costs.total(verdict(unchanged, unchanged)) == ""
    assert costs.total(verdict(everything("prod"))) == ""


def test_nobody_pays_for_what_a_failing_deployment_would_have_brought() -> None:
    failing = everything("prod")
    assert list(costs.of(failing)) == ["not shown: the deployment fails as it stands"]
    assert list(costs.of(deployable(failing))) == [
        "+US$ 24.58 per hour (US$ 98.32 → US$ 122.90)",
        "+US$ 17,943 per month (US$ 71,774 → US$ 89,717)",
        "+2 GPUs (8 → 10), +1,460 GPU-hours per month",
    ]
    dev, small = (EnvironmentVerdict(name, (), None, StandingCosts(1, 1)) for name in ("dev", "small"))
    assert costs.total(verdict(failing, dev, small)) == (
        "All environments that can be deployed: +US$ 2.00 per hour, +US$ 1,460 per month, +2 GPUs."
    )
    assert list(costs.notes(verdict(failing))) == []
    # One that may succeed is shown.
    doubtful = replace(five_changes("prod")[0], fails_unless="the file system is empty")
    assert costs.of(replace(failing, changes=(doubtful,)))[0].startswith("+US$ 24.58")


def deployable(environment: EnvironmentVerdict) -> EnvironmentVerdict:
    changes = tuple(each for each in environment.changes if each.effect is not Effect.REFUSED)
    return replace(environment, changes=changes)


@pytest.mark.parametrize("words", Words)
def test_table_has_every_environment_and_effect_with_fewer_words(words: Words) -> None:
    both = verdict(everything("prod", times=30), everything("dev", times=30))
    found = {(row.environment, row.effect, row.stops) for row in summary.rows(both, words) if row.effect}
    effects = {(each.effect, each.effect is Effect.DATA_LOST) for each in five_changes("prod")}
    assert found == {(name, *effect) for name in ("prod", "dev") for effect in effects}


def test_grouped_rows_name_things_and_actions() -> None:
    grouped = list(summary.rows(verdict(everything("prod", times=2)), Words.GROUPED))
    assert [(row.title, row.what) for row in grouped][1:3] == [
        ("2 changes", "file system, file system 1"),
        ("2 changes", "instance group worker-group-2, instance group worker-group-2 1"),
    ]
    assert grouped[3].actions == ("Author: give the group another name.",)
