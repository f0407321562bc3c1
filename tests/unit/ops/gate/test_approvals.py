"""The files with approvals."""

from datetime import date
from pathlib import Path

import pytest

from ops.gate.approvals import Approval, ApprovalsError, misplaced, read
from ops.review.model import Change, Danger, Effect
from ops.review.report.approvals import entries

DIGEST = "0123456789abcdef" * 4
GOOD = """\
approvals:
  - stack: storage
    resource: AWS::FSx::FileSystem FileSystem
    change: data-loss
    digest: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    reason: its data is in the bucket
    expires: "2026-12-31"
"""


def write(checkout: Path, text: str, name: str = "dev.yaml") -> Path:
    file = checkout / "environments" / "approvals" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_entry_is_read_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD)
    assert read(tmp_path, "dev") == [
        Approval(
            "storage",
            "AWS::FSx::FileSystem FileSystem",
            Danger.DATA_LOSS,
            DIGEST,
            "its data is in the bucket",
            date(2026, 12, 31),
            file,
            2,
        )
    ]


def test_entry_for_what_is_in_no_stack_names_none(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("stack: storage\n    ", ""))
    assert [each.stack for each in read(tmp_path, "dev")] == [""]


@pytest.mark.parametrize("resource", ["Role a: b # c", "Role  two spaces", "Role [x]", 'Role "q"', "Rôle \n x", "123"])
@pytest.mark.parametrize("digest", [DIGEST, "1" * 64, f"{'0' * 62}e5"])
def test_entry_that_the_review_prints_is_read_as_it_was_meant(resource: str, digest: str, tmp_path: Path) -> None:
    change = Change("storage", resource, "role", "what", Effect.IN_PLACE, digest=digest)
    text = "\n".join(["approvals:", *entries(change, [Danger.DATA_LOSS, Danger.UNKNOWN])])
    write(tmp_path, text.replace("YYYY-MM-DD", "2026-12-31").replace("WHY", "it was tried"))
    assert [(each.stack, each.resource, each.change, each.digest) for each in read(tmp_path, "dev")] == [
        ("storage", resource, danger, digest) for danger in (Danger.DATA_LOSS, Danger.UNKNOWN)
    ]


def test_environment_without_a_file_has_no_approvals(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert read(tmp_path, "prod") == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("change: data-loss", "change: data", "dev.yaml:4 approvals.0.change: 'data' is invalid: no change"),
        ("data-loss", "'*'", "approvals.0.change: '*' is invalid"),
        ("reason: its data is in the bucket", "reason: ' '", "approvals.0.reason: ' ' is invalid: it must be a text"),
        ("its data is in the bucket", "WHY", "dev.yaml:6 approvals.0.reason: 'WHY' is invalid: it says too little"),
        ("its data is in the bucket", "looks good", "Allowed: at least 3 words"),
        ('expires: "2026-12-31"', "", "approvals.0.expires: (missing) is invalid"),
        ('"2026-12-31"', '"31.12.2026"', "it is no date"),
        ('"2026-12-31"', '"20261231"', "it is no date"),
        (
            "    reason:",
            "    because: x\n    reason:",
            "dev.yaml:6 approvals.0.because: 'x' is invalid",
        ),
        ("approvals:", "approval:", "the key is unknown"),
        ("resource: AWS::FSx::FileSystem FileSystem", "resource: [a]", "approvals.0.resource"),
        ("stack: storage", "stack: ''", "approvals.0.stack: '' is invalid: it must be a text"),
        (f'digest: "{DIGEST}"', "", "approvals.0.digest: (missing) is invalid"),
        (DIGEST, DIGEST[:12], "approvals.0.digest: '0123456789ab' is invalid: it is no digest of a change"),
        (DIGEST, DIGEST.upper(), "it is no digest of a change"),
    ],
)
def test_wrong_entry_is_refused_with_file_and_line(before: str, after: str, message: str, tmp_path: Path) -> None:
    assert before in GOOD
    write(tmp_path, GOOD.replace(before, after, 1))
    with pytest.raises(ApprovalsError) as error:
        read(tmp_path, "dev")
    assert message in str(error.value)
    assert "Allowed:" in str(error.value)


def test_second_approval_of_the_same_change_is_refused_whatever_its_reason_and_day(tmp_path: Path) -> None:
    entry = GOOD.removeprefix("approvals:\n")
    write(tmp_path, GOOD + entry.replace("2026-12-31", "2026-11-30").replace("bucket", "other bucket"))
    with pytest.raises(ApprovalsError, match=r"dev\.yaml:8 .*line 2 approves the same.*Fix: remove one of them"):
        read(tmp_path, "dev")
    write(tmp_path, GOOD + entry.replace("data-loss", "unknown"))
    assert len(read(tmp_path, "dev")) == 2


def test_number_of_removable_nodes_stands_alone_or_beside_approvals(tmp_path: Path) -> None:
    for text, number in (("removable_nodes: 4\n", 0), (f"removable_nodes: 0\n{GOOD}", 1)):
        write(tmp_path, text)
        assert len(read(tmp_path, "dev")) == number
    for wrong in ("-1", "true", "'4'", "1.5", "[4]"):
        write(tmp_path, f"removable_nodes: {wrong}\n{GOOD}")
        with pytest.raises(ApprovalsError, match=r"dev\.yaml:1 removable_nodes: .*it is no number of nodes"):
            read(tmp_path, "dev")


@pytest.mark.parametrize(
    "text", ["approvals:\n  resource: x\n", "approvals: []\nmore: 1\n", "approvals:\n  - x\n", "- x\n"]
)
def test_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    with pytest.raises(ApprovalsError):
        read(tmp_path, "dev")


def test_file_of_no_environment_is_found(tmp_path: Path) -> None:
    for name in ("dev.yaml", "gone.yaml", "dev.yml"):
        write(tmp_path, GOOD, name)
    found = [str(each) for each in misplaced(tmp_path, ["dev"])]
    assert [text.split(" is invalid")[0].split(": ")[1] for text in found] == ["file 'dev.yml'", "file 'gone.yaml'"]
