"""Find rules of buckets and image repositories that delete more, or earlier."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ops.review.cloudformation.sides import Key, Risk
from ops.review.cloudformation.values import elements, mapping, nested, number, short, text
from ops.review.model import Danger

_AGES: Final = ("ExpirationInDays", "NoncurrentVersionExpirationInDays")
_DATES: Final = ("ExpirationDate", "Expiration")
_EVERYTHING: Final = float("inf")


@dataclass(frozen=True)
class Expiry:
    """What one rule deletes."""

    what: str
    """`noncurrent versions`, `ExpirationInDays`, `unfinished uploads`."""
    days: float
    kept: float = 0
    """How many of the newest replaced versions are kept."""
    prefix: str = ""
    tags: frozenset[str] = frozenset()
    larger: float = 0
    smaller: float = _EVERYTHING
    counted: bool = False
    """`days` is how many of the newest are kept, as of images."""

    def includes(self, other: "Expiry") -> bool:
        """Return whether it deletes all that the other one deletes, no later."""
        return (
            self.what == other.what
            and self.days <= other.days
            and self.kept <= other.kept
            and other.prefix.startswith(self.prefix)
            and self.tags <= other.tags
            and self.larger <= other.larger
            and self.smaller >= other.smaller
        )

    def of_the_same(self, other: "Expiry") -> bool:
        """Return whether both are about the same objects."""
        return (self.what, self.prefix, self.tags) == (other.what, other.prefix, other.tags)

    def words(self) -> str:
        """Return the objects in words."""
        scope = f" of {self.prefix}" if self.prefix else "" if self.what.startswith("images") else " of all objects"
        return f"{self.what}{scope}{' with tags' if self.tags else ''}"


def earlier_deletions(key: Key, kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Risk]:
    """Yield rules of a bucket or an image repository that delete more, or earlier."""
    if kind not in _RULES:
        return
    name, rules = _RULES[kind]
    old, new = (list(rules(side.get(name))) for side in (before, after))
    for each in new:
        if not any(wide.includes(each) for wide in old):
            was = next((one for one in old if one.of_the_same(each)), None)
            shown = f"{each.words()} {_days(each)}" + (f" instead of {_days(was)}" if was else "")
            yield Risk(key, Danger.LOWER_PROTECTION, f"{name}: {short(shown)}", "It deletes more data, or earlier.")


def _days(each: Expiry) -> str:
    kept = f", but {each.kept:g} kept" if each.kept else ""
    return f"{'beyond' if each.counted else 'after'} {each.days:g}{kept}"


def _bucket_rules(configuration: object) -> Iterator[Expiry]:
    if configuration is not None and not isinstance(configuration, Mapping):
        yield Expiry(text(configuration), 0)
    for rule in elements(mapping(configuration).get("Rules")):
        if not isinstance(rule, Mapping):
            yield Expiry(text(rule), 0)
        elif str(rule.get("Status")).lower() != "disabled":
            yield from _of_rule(rule)


def _of_rule(rule: Mapping[str, Any]) -> Iterator[Expiry]:
    scope: dict[str, Any] = {
        "prefix": str(rule.get("Prefix", "")),
        "tags": frozenset(text(each) for each in elements(rule.get("TagFilters"))),
        "larger": number(rule.get("ObjectSizeGreaterThan"), 0, unknown=0),
        "smaller": number(rule.get("ObjectSizeLessThan"), _EVERYTHING, unknown=_EVERYTHING),
    }
    for name, value in rule.items():
        if name in _AGES:
            yield Expiry(name, number(value, 0, unknown=0), **scope)
        elif name in _DATES:
            yield Expiry(f"{name} {short(value)}", 0, **scope)
        elif name == "NoncurrentVersionExpiration":
            found = mapping(value)
            kept = number(found.get("NewerNoncurrentVersions"), 0, unknown=0)
            days = number(found.get("NoncurrentDays"), 0, unknown=0)
            yield Expiry("noncurrent versions", days, kept, **scope)
        elif name == "AbortIncompleteMultipartUpload":
            days = number(mapping(value).get("DaysAfterInitiation"), 0, unknown=0)
            yield Expiry("unfinished uploads", days, **scope)


def _image_rules(policy: object) -> Iterator[Expiry]:
    """Yield for each rule of a repository the days or the number of images that it keeps."""
    document = policy.get("LifecyclePolicyText") if isinstance(policy, Mapping) else policy
    if document is None:
        return
    parsed = nested(str(document))
    if not isinstance(parsed, Mapping):
        yield Expiry(text(document), 0)
        return
    for rule in elements(parsed.get("rules")):
        selection = dict(mapping(mapping(rule).get("selection")))
        kept = number(selection.pop("countNumber", None), 0, unknown=0)
        counted = selection.get("countType") == "imageCountMoreThan"
        words = ", ".join(short(each) for _, each in sorted(selection.items()))
        yield Expiry(f"images {words}", kept, counted=counted)


_RULES: Final[Mapping[str, tuple[str, Callable[[object], Iterator[Expiry]]]]] = {
    "AWS::S3::Bucket": ("LifecycleConfiguration", _bucket_rules),
    "AWS::ECR::Repository": ("LifecyclePolicy", _image_rules),
}
