"""`ops job profile`: which worker is asked, for how long, and how the trace is found."""

import json

import pytest

from tests.unit.ops.jobs.test_checkpoint import (  # noqa: F401 - fixtures
    FakeHead,
    a_job,
    head,
    ops,
    refused,
    run_of_train,
)
from tests.unit.ops.jobs.test_job import cluster  # noqa: F401 - a fixture
from tests.unit.support.fake_apis import Apis

TRACE = "profiles/1763900000.000-0a1b2c3d/worker-3-steps-120-131.json.gz"
ANSWER = {"run": "train", "trace": TRACE, "begin": 120, "end": 131, "seconds": 61.2, "reason": ""}


@pytest.mark.parametrize(
    ("storage", "copied"),
    [
        ("/fsx/ray/runs", f"kubectl exec -n ray head -- cat /fsx/ray/runs/train/{TRACE} > {TRACE.rpartition('/')[2]}"),
        ("s3://bucket/runs/", f"aws s3 cp s3://bucket/runs/train/{TRACE} ."),
    ],
)
def test_worker_is_asked_and_the_command_says_how_to_open_the_trace(
    run_of_train: Apis,  # noqa: F811
    head: FakeHead,  # noqa: F811
    storage: str,
    copied: str,
) -> None:
    environment = {"env_vars": {"RUN_NAME": "train", "RUN_STORAGE": storage}}
    head.listed = [a_job("train-2", runtime_env=environment)]
    head.ends = ("SUCCEEDED", json.dumps(ANSWER))
    result = ops("job", "profile", "train", "--seconds", "60", "--worker", "3")
    assert result.exit_code == 0, result.output
    told = result.stdout.splitlines()
    assert told[0] == "run train: worker 3 profiled steps 120 to 131, 61.2 s"
    assert told[1] == f"trace: {storage.rstrip('/')}/train/{TRACE}"
    assert told[2] == f"copy:  {copied}"
    assert "https://ui.perfetto.dev" in told[3]
    [(_, request)] = run_of_train.changes
    assert request["entrypoint"] == "python -m ray_resume profile --seconds=60 --worker=3 --timeout=300"
    assert request["runtime_env"] == environment
    assert request["metadata"] == {"profile-of": "train-2"}


def test_worker_that_records_nothing_is_reported(run_of_train: Apis, head: FakeHead) -> None:  # noqa: F811
    head.ends = ("FAILED", "worker 9 of run train was not profiled: there is no worker 9. Allowed: 0 to 7")
    said = refused("job", "profile", "train", "--worker", "9")
    assert "job train-2 has no profile. Fix: see whether it trains (`ops job logs train`)." in said
    assert said.endswith("Allowed: 0 to 7")


@pytest.mark.parametrize("wrong", [("--seconds", "0"), ("--seconds", "601"), ("--worker", "-1")])
def test_bounds(run_of_train: Apis, head: FakeHead, wrong: tuple[str, str]) -> None:  # noqa: F811
    assert ops("job", "profile", "train", *wrong).exit_code == 2
    assert run_of_train.changes == []
