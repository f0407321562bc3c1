"""The differences of rendered Kubernetes objects and Helm values, as YAML."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from config.labels import TEMPLATE_LABEL
from ops.review.assembly import Pair
from ops.review.kubernetes.charts import RenderedRelease
from ops.review.kubernetes.sides import sides
from ops.review.model import Difference

_CONTEXT: Final = 3


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Return True: an alias would hide a value."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def differences(pair: Pair) -> Iterator[Difference]:
    """Yield the diff of each object and of each release's values, keys sorted.

    Raises ReviewError if an object cannot be read.
    """
    both = sides(pair)
    jobs = both.replaced_jobs()
    gone = {old.key for old in jobs.values()}
    for before, after in both.pairs():
        if before and after is None and before.key in gone:
            continue
        one = after or before
        earlier = jobs.get(after.key, before) if after else before
        if one and (diff := _diff(*(_read(side.body) if side else None for side in (earlier, after)))):
            yield Difference(one.resource, diff)
    old, new = both.before.releases, both.after.releases
    for address in dict.fromkeys([*old, *new]):
        before_values, after_values = (_values(side.get(address)) for side in (old, new))
        if diff := _diff(before_values, after_values):
            release = new.get(address) or old[address]
            yield Difference(f"values of {release.source.name.rpartition('/')[2]}", diff)


def notes(pair: Pair) -> Iterator[str]:
    """Yield a note for each release whose chart was not rendered, or does not render.

    Raises ReviewError if an object cannot be read.
    """
    both = sides(pair)
    found = {**both.before.releases, **both.after.releases}
    for release in found.values():
        if release.objects is None:
            why = release.error or "Helm or the chart is missing"
            yield f"{pair.environment}: the chart of {release.source.name} was not rendered: {why}."


def _read(value: Any) -> Any:
    """Return an object without what only this project's programs and scanners read."""
    if isinstance(value, Mapping):
        return {key: _read(each) for key, each in value.items() if key != TEMPLATE_LABEL and not _is_scanned(key)}
    return [_read(each) for each in value] if isinstance(value, list) else value


def _is_scanned(key: str) -> bool:
    return key.startswith("checkov.io/")


def _values(release: RenderedRelease | None) -> Any:
    return dict(release.values) if release else None


def _diff(before: Any, after: Any) -> str:
    lines = difflib.unified_diff(_lines(before), _lines(after), n=_CONTEXT, lineterm="")
    return "\n".join(list(lines)[2:])


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    # PyYAML writes no block for a text with trailing blanks, so they go: this text is only read by people.
    return yaml.dump(_stripped(value), Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=1000).splitlines()


def _stripped(value: Any) -> Any:
    if isinstance(value, str) and "\n" in value:
        return "\n".join(line.rstrip().replace("\t", "    ") for line in value.splitlines()) + "\n"
    if isinstance(value, dict):
        return {key: _stripped(each) for key, each in value.items()}
    return [_stripped(each) for each in value] if isinstance(value, list) else value
