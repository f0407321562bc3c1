"""The checks run in parallel and answer in order; what keeps one from looking is its result."""

from collections.abc import Iterator
from io import StringIO
from threading import Barrier
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from rich.console import Console
from rich.measure import Measurement

import config
from ops.preflight.check import Check, CheckFinding, CheckFunction, CheckStatus, failed, passed, warned
from ops.preflight.checks import CHECKS, checks_of
from ops.preflight.here import Here
from ops.preflight.run import AT_ONCE, run, worst
from ops.preflight.table import fixes, summary, table


def results(*checks: Check) -> list[Any]:
    def nobody(service: str) -> Any:
        raise AssertionError(service)

    return run(Here(config.load("small"), nobody), checks, Console(file=StringIO()))


def raising(error: Exception) -> CheckFunction:
    def look(_here: Here[Any]) -> Iterator[CheckFinding]:
        yield passed("one is fine", "one")
        raise error

    return look


def refusal(code: str, message: str, status: int = 400) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "DescribeVpcs")


def test_as_many_checks_look_at_once_as_are_allowed_and_the_rows_keep_their_order() -> None:
    together = Barrier(AT_ONCE)

    def look(_here: Here[Any]) -> Iterator[CheckFinding]:
        # A check that was alone would wait here for ever.
        together.wait(timeout=60)
        yield passed("met the others")

    names = [f"check {n}" for n in range(AT_ONCE)]
    assert [row.check for row in results(*(Check(name, look) for name in names))] == names


@pytest.mark.parametrize(
    ("error", "verdict", "found", "fix"),
    [
        (
            refusal("UnauthorizedOperation", "User x is not authorized to perform: ec2:DescribeVpcs because no policy"),
            CheckStatus.WARN,
            "no permission to read (ec2:DescribeVpcs)",
            "let your role call ec2:DescribeVpcs, and run the command again",
        ),
        (
            refusal("AccessDenied", "Access Denied", 403),
            CheckStatus.WARN,
            "no permission to read (DescribeVpcs)",
            "let your role call DescribeVpcs, and run the command again",
        ),
        (
            refusal("ThrottlingException", "Rate exceeded"),
            CheckStatus.FAIL,
            "not checked: AWS refuses DescribeVpcs (ThrottlingException): Rate exceeded",
            "run the command again",
        ),
        (
            EndpointConnectionError(endpoint_url="https://ec2"),
            CheckStatus.FAIL,
            'not checked: AWS does not answer: Could not connect to the endpoint URL: "https://ec2"',
            "check the network, then run the command again",
        ),
    ],
)
def test_what_keeps_a_check_from_looking_is_its_result_and_keeps_what_it_found(
    error: Exception, verdict: CheckStatus, found: str, fix: str
) -> None:
    first, second, other = results(Check("a", raising(error)), Check("b", lambda _: iter([passed("fine")])))
    assert (first.check, first.verdict) == ("a: one", CheckStatus.PASS)
    assert (second.check, second.verdict, second.found, second.fix) == ("a", verdict, found, fix)
    assert (other.check, other.found) == ("b", "fine")


def test_a_mistake_in_a_check_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        results(Check("a", raising(ZeroDivisionError())))


def test_the_worst_verdict_decides_and_only_what_has_a_fix_is_listed() -> None:
    rows = results(
        Check("a", lambda _: iter([passed("fine")])),
        Check("b", lambda _: iter([warned("may fail", "mend b"), failed("fails", "mend c", "c")])),
    )
    assert worst(rows) is CheckStatus.FAIL
    assert worst(rows[:2]) is CheckStatus.WARN
    assert worst(rows[:1]) is CheckStatus.PASS
    assert summary(rows) == "1 pass, 1 warn, 1 fail"
    assert list(fixes(rows)) == ["", "To mend:", "  b:", "    mend b", "  b: c:", "    mend c", ""]
    assert list(fixes(rows[:1])) == [""]


def test_each_check_names_what_it_asks_and_the_source_of_its_demand() -> None:
    for check in CHECKS:
        text = check.inspect.__doc__ or ""
        assert "Source:" in text, check.title
        assert "AWS: " in text or "Kubernetes: " in text, check.title


def test_the_table_fits_80_columns_beside_the_longest_name_of_a_resource() -> None:
    bucket = "b" * 50
    rows = results(Check("names of the EKS cluster and its log group", lambda _: iter([passed("is free", bucket)] * 2)))
    console = Console(file=StringIO(), width=80)
    drawn = table(rows)
    assert Measurement.get(console, console.options, drawn).minimum <= 80
    console.print(drawn)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.count(bucket) == 2
    assert shown.count("names of the EKS") == 1


def test_slurm_needs_no_check_of_what_eks_needs() -> None:
    slurm, eks = (checks_of(config.load_any(name)) for name in ("slurm", "small"))
    assert eks == CHECKS
    assert [check.title for check in CHECKS if check not in slurm] == [
        *("chart", "quota", "quota", "EKS cluster", "EKS add-on", "EKS add-on", "Kubernetes API"),
        *("HyperPod's EKS cluster", "names of the EKS cluster and its log group"),
        *("names of Container Insights' log groups", "name of the repository"),
    ]
