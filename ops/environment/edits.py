"""Find the lines of an environment file that a person should edit, with their values before and after."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML


@dataclass(frozen=True)
class EditedLine:
    """A value of the file: its line (counted from 1), its key, and its values before and after."""

    file: Path
    number: int
    key: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.file.name}, line {self.number}: `{self.key}: {self.before}` becomes `{self.key}: {self.after}`"


def lower_counts(file: Path, group: str, count: int, replicas: dict[tuple[str, str], int]) -> list[EditedLine]:
    """Return the lines to edit so that the next deployment does not raise lowered counts again.

    `count` is the instance group's new count; `replicas` maps RayCluster and worker group to the new replicas.
    """
    document = YAML().load(file)
    lines = []
    for instance_group in document["hyperpod"]["instance_groups"]:
        if instance_group["name"] == group:
            lines += _lower(file, instance_group, count, "count", "min_count")
    for cluster in document["ray"]["clusters"]:
        for workers in cluster["workers"]:
            after = replicas.get((cluster["name"], workers["name"]))
            if after is not None:
                lines += _lower(file, workers, after, "replicas", "min_replicas")
    return lines


def _lower(file: Path, mapping: Any, after: int, *keys: str) -> list[EditedLine]:
    return [
        EditedLine(file, mapping.lc.key(key)[0] + 1, key, mapping[key], after)
        for key in keys
        if key in mapping and mapping[key] > after
    ]
