"""Sequences in which the workers sleep in some templates, and the function sets their count at any moment."""

import json
from collections.abc import Collection
from functools import partial

from botocore.exceptions import ClientError
from hypothesis import strategies as st
from hypothesis.stateful import rule

from embedded_account.hyperpod.bench import HyperPodBench
from handlers.group_counts import index as function
from handlers.hyperpod_cluster import index
from handlers.hyperpod_cluster.request import SLEEPING
from tests.handlers.support import sequences
from tests.handlers.support.edits import WORKERS, edited
from tests.handlers.support.framework import Properties
from tests.handlers.support.invariants import UPDATABLE
from tests.handlers.support.judging import NAME
from tests.handlers.support.sequences import Sequences
from tests.handlers.support.steps import Deploying


def asleep(bench: HyperPodBench, edits: Collection[str]) -> Properties:
    """Return the properties with these edits; the workers sleep in two of three kinds of templates."""
    properties = edited(bench, edits)
    names = {group["InstanceGroupName"] for group in properties["InstanceGroups"]}
    sleeps = WORKERS in names and sum(map(len, edits)) % 3 != 1
    return properties | ({SLEEPING: {WORKERS: 1 if "labels" in edits else 0}} if sleeps else {})


def range_of_workers(properties: Properties) -> list[int] | None:
    """Return the range of the workers in a template; None if they do not sleep."""
    least = properties.get(SLEEPING, {}).get(WORKERS)
    counts = {each["InstanceGroupName"]: int(each["InstanceCount"]) for each in properties["InstanceGroups"]}
    return None if least is None else [int(least), counts[WORKERS]]


class SleepingSequences(Sequences):
    """One sequence with the function, whose caller asks for what the last complete deployment wants."""

    def __init__(self) -> None:
        super().__init__()
        self.patch.setattr(sequences, "edited", asleep)
        self.patch.setattr(function, "_client", lambda: self.operator)
        self.patch.setenv("CLUSTER_NAME", NAME)
        self.wanted: list[int] | None = None

    @rule(wakes=st.booleans())
    def set_the_count(self, *, wakes: bool) -> None:
        """Let the workers wake or sleep, unless somebody raised them by hand: what counts then is another promise."""
        template, world = self._template_of_the_function(), self.bench.hyperpod.world
        by_hand = WORKERS in self.must_hold.raised_by_hand or self.deeds.autoscaled
        # While reads lag, the function can send what is older than the last update.
        if template is None or self.wanted is None or by_hand or world.faults.lag_minutes or NAME in self.foreign:
            return
        image = next(each.get("ImageId") for each in template["InstanceGroups"] if each["InstanceGroupName"] == WORKERS)
        self.patch.setenv("RANGES", json.dumps({WORKERS: range_of_workers(template)}))
        self.patch.setenv("IMAGES", json.dumps({WORKERS: image} if image else {}))
        try:
            answer = function.handle({"counts": {WORKERS: self.wanted[wakes]}}, None)
        except function.InvalidRequestError:
            self.seen["function: invalid"] += 1
        except ClientError:
            self.seen["function: failed"] += 1
        else:
            self.seen[f"function: {answer['refused'][:30] or 'accepted'}"] += 1

    def deploy(self, how: Deploying) -> None:
        """Deploy, and let the function act twice while time passes for the requests."""
        first, wakes = sum(map(len, how.edits)) % 5, len(how.edits) % 2 == 0
        for position, each in ((first, wakes), (first + 3, not wakes)):
            self.stacks.framework.at_pause(position, partial(self.set_the_count, wakes=each))
        super().deploy(how)

    def look(self, step: str) -> None:
        super().look(step)
        if self.stacks.status in UPDATABLE:
            self.wanted = range_of_workers(self.stacks.properties) if self.stacks.has_cluster else None

    def _template_of_the_function(self) -> Properties | None:
        """Return the template of which the function is: it is updated before the cluster, and deleted after all."""
        if not (self.stacks.living and self.stacks.has_cluster):
            return None
        if self.stacks.status in UPDATABLE:
            return self.stacks.properties if range_of_workers(self.stacks.properties) else None
        sent = (each for each in reversed(self.stacks.requests) if each["ResourceType"] == index.CLUSTER)
        templates = (each["ResourceProperties"] for each in sent if each["RequestType"] != "Delete")
        return next((each for each in templates if range_of_workers(each)), None)
