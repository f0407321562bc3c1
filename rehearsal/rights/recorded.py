"""Read the decisions about rights, and the policies that they were made with, from an account's journal."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from embedded_account.services.iam.policies import Context, Policy

AWS_POLICIES: Final = "arn:aws:iam::aws:policy/"
_PEOPLE: Final = re.compile(r"(deployer|operator|scientist|viewer|admin)(-\d+)?$")
_HASH: Final = re.compile(r"[0-9A-F]{8}$")

PolicySet = Mapping[str, Policy]
"""The policies of a role or a bucket, by name."""


@dataclass(frozen=True)
class RecordedDecision:
    """A recorded decision.

    `policies` holds the digests of the policies that it was made with, by ARN, and `boundary` that of the caller's
    permissions boundary, if it has one.
    """

    action: str
    resource: str
    context: Context
    outcome: str
    policies: Mapping[str, str]
    boundary: Mapping[str, str]


@dataclass
class Recording:
    """What one account decided.

    Attributes:
        policies: Sets of policies, by the ARN of a role or bucket and their digest.
        decisions: Each distinct decision once.
        owners: The stack's part and the construct of what a stack made: by a role's name, by a bucket's ARN.
    """

    policies: dict[tuple[str, str], PolicySet] = field(default_factory=dict)
    decisions: list[RecordedDecision] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)

    def owner(self, arn: str, policy: str) -> str | None:
        """Return whose a policy is: a part and its construct, or a kind of people; None if it is not this project's."""
        if people := _PEOPLE.search(policy):
            return people.group(1)
        return self.owners.get(arn) or self.owners.get(arn.rpartition("/")[2])


def read(journals: Iterable[Path]) -> Iterator[Recording]:
    """Yield the recording of each journal."""
    for journal in journals:
        with journal.open(encoding="utf-8") as lines:
            yield _recording(json.loads(line) for line in lines if '"kind": ' in line)


def _recording(entries: Iterable[Mapping[str, Any]]) -> Recording:
    made, seen = Recording(), set()
    for entry in entries:
        match entry["kind"]:
            case "policies":
                made.policies[entry["of"], entry["digest"]] = entry["policies"]
            case "cfn" if entry.get("physical_id"):
                made.owners |= _owned(entry)
            case "iam":
                key = json.dumps([entry[name] for name in _FIELDS], sort_keys=True)
                if key not in seen:
                    seen.add(key)
                    made.decisions.append(RecordedDecision(*(entry[name] for name in _FIELDS)))
    return made


_FIELDS: Final = ("action", "resource", "context", "decision", "policies", "boundary")


def _owned(entry: Mapping[str, Any]) -> dict[str, str]:
    part, name = entry["stack"].rpartition("-")[2], entry["physical_id"]
    if entry["stack"].startswith("CDKToolkit"):
        return {}
    owner = f"{part}: {_HASH.sub('', entry['logical_id'])}"
    match entry["type"]:
        case "AWS::IAM::Role":
            return {name: owner}
        case "AWS::S3::Bucket":
            return {f"arn:aws:s3:::{name}": f"{owner} (bucket policy)"}
    return {}
