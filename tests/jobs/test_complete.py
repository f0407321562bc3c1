"""One run with all that `ray_resume.main` takes, on real Ray."""

import re
from contextlib import suppress
from urllib.request import urlopen

import pytest

from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import JOB, Runs
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

SCRIPT = JOB.with_name("complete_training.py")
GAUGES = {
    "ray_training_step",
    "ray_training_loss",
    "ray_training_goodput_ratio",
    "ray_training_interval_seconds waiting",
}


def gauges(nodes: Nodes) -> dict[str, float]:
    """Return Ray's gauges of the run, as Prometheus reads them at the nodes whose agents answer."""
    found: dict[str, float] = {}
    for node in nodes.workers:
        address, text = f"http://{node.node_ip_address}:{node.metrics_export_port}/metrics", ""
        with suppress(OSError), urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
        for name, labels, value in re.findall(r"^(ray_training_\w+)\{(.*)\} (\S+)$", text, re.MULTILINE):
            assert 'run="job"' in labels
            part = re.search(r'part="(\w+)"', labels)
            found[f"{name} {part[1]}" if part else name] = float(value)
    return found


@pytest.mark.sampled(2, of="runs on real Ray")
def test_run_is_watched_ends_with_its_hook_and_is_extended(nodes: Nodes, runs: Runs) -> None:
    trace = runs.storage / "trace.txt"
    first = runs.start(script=SCRIPT)
    found: dict[str, float] = {}

    def seen() -> bool:
        # Ray exports each gauge on its own: one answer of an agent can lack some.
        found.update(gauges(nodes))
        return found.keys() >= GAUGES or first.job.poll() is not None

    wait_until(seen, "the gauges of the waiting run", REHEARSAL_PATIENCE_SECONDS)
    assert found["ray_training_step"] == 5
    assert found["ray_training_loss"] == 5
    assert 0 < found["ray_training_goodput_ratio"] <= 1
    assert found["ray_training_interval_seconds waiting"] > 0
    (runs.storage / "go").touch()

    assert first.wait() == 0, first.output
    assert re.search(r"attempt 0001\.01: step 5: loss 5, \S+ steps/s, .*goodput \S+ %; seconds: ", first.output)
    assert runs.done()["metrics"] == {"weight": 10, "rows": 6}
    ended = ["result 5", "result 10", "hook 000000010@0001.01 10"]
    assert trace.read_text().splitlines() == ended

    longer = runs.start("--steps=12", script=SCRIPT)
    assert longer.wait() == 1, longer.output
    assert longer.resumed() == [10]
    assert trace.read_text().splitlines() == [*ended, "result 12", "hook 000000012@0002.01 12"]
    assert "job: all steps are trained, but on_done failed: ConnectionError" in longer.output
    assert not (runs.storage / "job" / "DONE.json").exists()
