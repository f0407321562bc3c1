"""Loggers over three attempts of a run: one record, and each step once, whatever the attempts repeat or cannot send."""

import json
import os
import pickle
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import pytest

from ray_resume.checkpoint_store import CheckpointStore, Saved
from ray_resume.runs import Run
from ray_resume.storage import open_storage
from ray_resume.tracking import logger as logging
from ray_resume.tracking.logger import Logger, Result, numbers
from ray_resume.tracking.mlflow_logger import MlflowLogger
from ray_resume.tracking.tensorboard_logger import TensorBoardLogger
from tests.jobs.support.paths import REPOSITORY
from tests.jobs.support.runs import Runs
from tests.support.mlflow_calls import LOGGER_CALLS
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

SCRIPT: Final = Path(__file__).with_name("support") / "tracked_training.py"
SERVER: Final = REPOSITORY / ".venv-mlflow" / "bin" / "mlflow"

Steps = dict[str, list[tuple[int, float]]]
"""The steps and values of each metric, in the order of the tracker."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("RUN_NAME", "RUN_STORAGE", "RUN_ATTEMPT", "RUN_SERIES"):
        monkeypatch.delenv(name, raising=False)
    return Run.from_environment("job", str(tmp_path / "runs"), every=10)


@pytest.fixture
def store(run: Run) -> CheckpointStore:
    made = CheckpointStore(open_storage(run.storage, run.name))
    made.settle({"steps": 40, "seed": 7})
    return made


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a store in files: a database or a server costs more and needs the whole of MLflow."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return (tmp_path / "mlflow").as_uri()


class Trial:
    def __init__(self, status: str) -> None:
        self.status = status


def report(logger: Logger, step: int) -> None:
    """Report a step as Ray Train does, with what Ray adds."""
    result = {"loss": 1 / (step + 1), "step": step, "training_iteration": 3, "pid": 7, "config": {}, "note": "a text"}
    logger.on_trial_result(iteration=0, trials=[], trial=None, result=result)


def three_attempts(logger: Logger, store: CheckpointStore) -> None:
    """Train 30 steps in three attempts, of which each begins with Ray's copy of the first one's logger.

    The first is killed after step 14, the second after it has committed step 20 and before it has reported it.
    """
    kept = pickle.dumps(logger)
    for attempt, (begin, end) in enumerate([(0, 14), (10, 20), (20, 30)], 1):
        writer, _ = store.begin(attempt)
        logger = pickle.loads(kept)  # noqa: S301
        logger.setup()
        for step in range(begin + 1, end + 1):
            if step % 10 == 0:
                store.commit(Saved(step, writer), {"loss": 1 / (step + 1)})
            if (attempt, step) != (2, 20):
                report(logger, step)
        if attempt == 3:
            logger.on_experiment_end(trials=[Trial("TERMINATED")])
        else:
            drained(logger)


def drained(logger: Logger) -> None:
    """Wait until a program that is killed next has sent what it had."""
    sent = threading.Event()
    assert logger._unsent is not None
    logger.close = lambda **_: sent.set()  # type: ignore[method-assign]
    logger._unsent.put(None)
    assert sent.wait(REHEARSAL_PATIENCE_SECONDS)


EXPECTED: Final[list[Any]] = [(step, pytest.approx(1 / (step + 1))) for step in range(1, 31)]


def in_mlflow(client: Any, run_id: str) -> Steps:
    metrics = client.get_run(run_id).data.metrics
    return {name: [(one.step, one.value) for one in client.get_metric_history(run_id, name)] for name in metrics}


def in_tensorboard(folder: Path) -> Steps:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_three_attempts_are_one_run_in_mlflow(run: Run, store: CheckpointStore, uri: str) -> None:
    from mlflow import MlflowClient

    three_attempts(MlflowLogger(run, tracking_uri=uri, experiment="digits"), store)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("digits")
    assert experiment is not None
    [found] = client.search_runs([experiment.experiment_id])
    assert (found.info.run_name, found.info.status) == ("job", "FINISHED")
    assert found.data.params == {"steps": "40", "seed": "7"}
    steps = in_mlflow(client, found.info.run_id)
    assert steps.keys() == {"loss", "step"}
    assert steps["loss"] == EXPECTED


class Recorder(BaseHTTPRequestHandler):
    """A tracking server without a memory that records the paths of its calls in `server.calls`."""

    RUN: ClassVar = {
        "info": {
            "run_id": "r",
            "run_uuid": "r",
            "experiment_id": "1",
            "status": "RUNNING",
            "lifecycle_stage": "active",
        },
        "data": {},
    }
    ANSWERS: ClassVar[dict[str, Any]] = {
        "experiments/create": {"experiment_id": "1"},
        "runs/create": {"run": RUN},
        "runs/get": {"run": RUN},
        "runs/update": {"run_info": RUN["info"]},
        "runs/log-batch": {},
        "runs/log-parameter": {},
        "runs/search": {},
    }

    def answer(self) -> None:
        path = urlsplit(self.path).path.removeprefix("/api/2.0/mlflow/")
        self.server.calls.add(path)  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        known = self.ANSWERS.get(path)
        body = json.dumps({"error_code": "RESOURCE_DOES_NOT_EXIST"} if known is None else known).encode()
        self.send_response(404 if known is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer


def test_logger_makes_the_calls_that_ray_pods_have_rights_for_and_no_other(run: Run, store: CheckpointStore) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    calls: set[str] = set()
    server.calls = calls  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    logger = MlflowLogger(run, tracking_uri=f"http://127.0.0.1:{server.server_port}", experiment="digits")
    logger.open(store)
    logger.log(Result(1, {"loss": 0.5}, 1.0))
    logger.close(done=True)
    server.shutdown()
    assert calls == set(LOGGER_CALLS.values())


def test_program_that_was_killed_before_it_noted_the_mlflow_run_makes_no_second_one(
    run: Run, store: CheckpointStore, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    first = MlflowLogger(run, tracking_uri=uri)
    put = MlflowLogger._put

    def before_the_note(store: CheckpointStore, record: dict[str, str]) -> None:
        if "run_id" in record:
            raise KeyboardInterrupt
        put(store, record)

    with monkeypatch.context() as killed:
        killed.setattr(MlflowLogger, "_put", staticmethod(before_the_note))
        with pytest.raises(KeyboardInterrupt):
            first.open(store)
    second = MlflowLogger(run, tracking_uri=uri)
    second.open(store)
    second.log(Result(1, {"loss": 0.5}, 1.0))
    [found] = MlflowClient(uri).search_runs(["0"])
    assert found.data.metrics == {"loss": 0.5, "step": 1.0}


def test_three_attempts_are_one_curve_in_tensorboard(run: Run, store: CheckpointStore) -> None:
    three_attempts(TensorBoardLogger(run), store)
    assert in_tensorboard(Path(run.storage) / run.name / "tensorboard") == {"loss": EXPECTED}


def test_workers_that_ray_train_restarts_repeat_no_step_in_tensorboard(run: Run, store: CheckpointStore) -> None:
    store.begin(1)
    logger = TensorBoardLogger(run)
    logger.setup()
    for step in (1, 2, 3, 2, 3, 4):
        report(logger, step)
    logger.on_experiment_end(trials=[Trial("ERROR")])
    [(_, values)] = in_tensorboard(Path(run.storage) / run.name / "tensorboard").items()
    assert [step for step, _ in values] == [1, 2, 3, 4]


class Tracker(Logger):
    """A tracker that is away at first."""

    calls: list[str]
    away: list[bool]

    def open(self, _: CheckpointStore) -> None:
        self.calls.append("open")

    def log(self, result: Result) -> None:
        if self.away and self.away.pop():
            raise ConnectionError("the tracker is away")
        self.calls.append(f"step {result.step}")

    def close(self, *, done: bool) -> None:
        self.calls.append(f"done {done}")


def test_tracker_that_answers_late_gets_the_steps_before_a_checkpoint_too(run: Run, store: CheckpointStore) -> None:
    """The checkpoint that a logger takes from the storage is the newest of when its attempt began."""
    writer, _ = store.begin(1)
    answers = threading.Event()
    logger = Tracker(run)
    logger.calls, logger.away = [], []
    logger.open = lambda _: answers.wait(REHEARSAL_PATIENCE_SECONDS)  # type: ignore[assignment,method-assign]
    logger.setup()
    report(logger, 9)
    store.commit(Saved(10, writer), {"loss": 0.1})
    report(logger, 10)
    answers.set()
    logger.on_experiment_end(trials=[Trial("TERMINATED")])
    assert logger.calls == ["step 9", "step 10", "done True"]


@pytest.mark.parametrize(("status", "done"), [("TERMINATED", True), ("ERROR", False)])
def test_tracker_that_is_away_gets_everything_later_and_delays_nothing(
    *,
    run: Run,
    store: CheckpointStore,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: str,
    done: bool,
) -> None:
    monkeypatch.setattr(logging, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(logging, "_LAST_RETRY_SECONDS", 0.01)
    logger = Tracker(run)
    logger.calls, logger.away = [], [True] * 5
    logger.setup()
    for step in (1, 2):
        report(logger, step)
    logger.on_experiment_end(trials=[Trial(status)])
    assert logger.calls == ["open", "step 1", "step 2", f"done {done}"]
    assert capsys.readouterr().out.count("not logged yet: ConnectionError('the tracker is away')") == 1


def test_metrics_are_the_numbers_that_workers_report() -> None:
    result = {"loss": 0.5, "step": 3, "epochs": 1, "time_total_s": 1.0, "done": False, "flag": True, "list": [1]}
    assert numbers(result) == {"loss": 0.5, "epochs": 1.0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real MLflow server with SQLite, on a free port of the loopback address."""
    from embedded_account.machine.processes import free_port

    directory = tmp_path_factory.mktemp("mlflow")
    assert SERVER.exists(), "Fix: make setup-mlflow"
    port = free_port()
    words = ["server", "--backend-store-uri", f"sqlite:///{directory}/mlflow.db", "--workers", "1"]
    words += ["--default-artifact-root", str(directory / "artifacts"), "--host", "127.0.0.1", "--port", str(port)]
    with (directory / "log.txt").open("wb") as log:
        process = subprocess.Popen([SERVER, *words], stdout=log, stderr=log, cwd=directory, start_new_session=True)
    try:
        wait_until(lambda: _answers(port), "the MLflow server", REHEARSAL_PATIENCE_SECONDS)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _answers(port: int) -> bool:
    from urllib.request import urlopen

    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.long
def test_training_that_is_killed_twice_is_one_run_of_a_real_mlflow_server(
    server: str, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real Ray, a real server, and SIGKILL of the program after some steps that are in no checkpoint."""
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    client, limit = MlflowClient(server), runs.trace / "limit.txt"

    def has_received(step: int) -> bool:
        found = client.search_runs(["0"])
        received = in_mlflow(client, found[0].info.run_id).get("loss", []) if found else []
        return step in [number for number, _ in received]

    def killed_after(step: int) -> None:
        """Kill the program once the server has the step: what it has not received is lost with the program."""
        limit.write_text(str(step))
        attempt = runs.start("--limit", str(limit), script=SCRIPT)
        wait_until(lambda: has_received(step), f"step {step} at the server", REHEARSAL_PATIENCE_SECONDS)
        attempt.job.kill()
        attempt.wait()

    killed_after(14)
    killed_after(25)
    limit.write_text("40")
    last = runs.start("--limit", str(limit), script=SCRIPT)
    assert last.wait() == 0, last.output
    records = [json.loads(file.read_text()) for file in (runs.storage / "job" / "attempts").glob("0*.json")]
    origins = sorted(int((record["resumed_from"] or "0").partition("@")[0]) for record in records)
    assert len(origins) >= 3
    [found] = client.search_runs(["0"])
    assert found.info.status == "FINISHED"
    # Workers train on for a moment after their program was killed: nobody takes what they report before a checkpoint.
    unheard = {step for origin in origins for step in range(max(0, origin - 9), origin)}
    for steps in (in_mlflow(client, found.info.run_id), in_tensorboard(runs.storage / "job" / "tensorboard")):
        logged = [step for step, _ in steps["loss"]]
        print(f"origins {origins}; steps logged: {logged}")
        assert logged == sorted(set(logged)), "no step twice"
        assert set(range(1, 41)) - set(logged) <= unheard
        assert {10, 20, 30, 40} <= set(logged)
    assert json.loads((runs.storage / "job" / "run.json").read_text()) == {"steps": 40}
