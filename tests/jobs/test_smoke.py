"""The smoke test, called as `ops smoke` calls it: every worker takes part, and a wrong or missing part is reported."""

import json
import os
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch

import ray_resume
import smoke
from tests.jobs.support.paths import RAY_JOBS
from tests.jobs.support.ray_nodes import Nodes
from tests.support.waiting import PATIENCE_SECONDS, REHEARSAL_PATIENCE_SECONDS


def run(nodes: Nodes) -> dict[str, Any]:
    """Return what the script prints on the nodes."""
    argv = [sys.executable, str(RAY_JOBS / "smoke.py"), f"--patience={PATIENCE_SECONDS:.0f}"]
    env = os.environ | {"RAY_ADDRESS": nodes.address}
    ended = subprocess.run(
        argv, env=env, capture_output=True, text=True, check=False, timeout=REHEARSAL_PATIENCE_SECONDS
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    [line] = [line for line in ended.stdout.splitlines() if line.startswith(smoke.MARK)]
    found: dict[str, Any] = json.loads(line.removeprefix(smoke.MARK))
    return found


def test_every_worker_takes_part_and_the_head_does_not(nodes: Nodes) -> None:
    found = run(nodes)
    assert found["problems"] == []
    assert sorted(worker["address"] for worker in found["workers"]) == sorted(
        node.node_ip_address for node in nodes.workers
    )
    for worker in found["workers"]:
        assert (worker["device"], worker["gpus"], worker["network"]) == ("cpu", 0, ["gloo"])
        assert worker["seconds"] > 0
        assert worker["gigabytes_per_second"] > 0


def test_a_library_that_a_worker_cannot_use_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ray_resume._MODULES, "Checkpoints", "not_there")
    with pytest.raises(ModuleNotFoundError, match="not_there"):
        smoke.Rank().inspect()


def test_a_node_has_one_row_with_its_slowest_process_and_every_network() -> None:
    looks = [{"address": name, "device": "GPU", "gpus": 2} for name in ("a", "a", "b")]
    speeds = [(1.0, ["OFI"]), (2.0, ["Socket"]), (3.0, ["OFI"])]
    results = [{"seconds": s, "gigabytes_per_second": 1 / s, "network": network} for s, network in speeds]
    assert smoke.merged(looks, results) == [
        {
            "address": "a",
            "device": "GPU",
            "gpus": 2,
            "seconds": 2.0,
            "gigabytes_per_second": 0.5,
            "network": ["OFI", "Socket"],
        },
        {"address": "b", "device": "GPU", "gpus": 2, "seconds": 3.0, "gigabytes_per_second": 1 / 3, "network": ["OFI"]},
    ]


def test_a_wrong_sum_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.all_reduce", lambda *_: None)
    with pytest.raises(ValueError, match="the all-reduce of rank 1 gave a wrong sum, not 6"):
        smoke.timed_all_reduce(smoke.values_of("gloo", 1), 1, 3)


def test_the_reduced_tensor_outlives_its_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the end of a group of gloo can wait for ever for a thread that frees the tensor."""
    reduced: list[weakref.ref[torch.Tensor]] = []
    ends: list[bool] = []
    monkeypatch.setattr("torch.distributed.init_process_group", lambda *_, **__: None)
    monkeypatch.setattr("torch.distributed.barrier", lambda: None)
    monkeypatch.setattr("torch.distributed.all_reduce", lambda values: reduced.append(weakref.ref(values)))
    monkeypatch.setattr(
        "torch.distributed.destroy_process_group", lambda: ends.append(all(one() is not None for one in reduced))
    )
    smoke.Rank().reduce("gloo", 0, 1, "nowhere:1", 1)
    assert reduced
    assert ends == [True]
