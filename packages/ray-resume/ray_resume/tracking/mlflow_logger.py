"""One MLflow run over all attempts of a run. It needs the package `mlflow-skinny`: `pip install ray-resume[mlflow]`."""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any, Final

from ray_resume.tracking.logger import STEP, Logger, Result

if TYPE_CHECKING:
    from ray_resume.checkpoint_store import CheckpointStore
    from ray_resume.runs import Run

_RECORD: Final = "tracking/mlflow.json"
_KEY: Final = "ray_resume.key"
_REFUSED: Final = re.compile(r"[^\w\-. /]")


class MlflowLogger(Logger):
    """Logs a run to MLflow. Its run id is in the run's storage: every attempt continues the same MLflow run.

    MLflow cannot delete a metric of a step: a step that was logged is not logged again when workers resume before it.
    """

    settings = (*Logger.settings, "_uri", "_experiment")

    def __init__(self, run: Run, *, tracking_uri: str | None = None, experiment: str | None = None) -> None:
        """Log to the server at `tracking_uri`, under `experiment`.

        Without them, MLflow's own variables count: MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME.
        """
        super().__init__(run)
        self._uri = tracking_uri
        self._experiment = experiment

    def open(self, store: CheckpointStore) -> None:
        from mlflow import MlflowClient  # noqa: PLC0415 (an extra)

        self._client: Any = MlflowClient(self._uri)
        record: dict[str, str] = json.loads(store.storage.read(_RECORD) or b"{}")
        if not record:
            # Before the MLflow run exists: if the program is killed between the two, its successor finds it by the key.
            record = {"key": uuid.uuid4().hex}
            self._put(store, record)
        if "run_id" not in record:
            record["run_id"] = self._found(record["key"]) or self._made(record["key"], store)
            self._put(store, record)
        self._id = record["run_id"]
        self._client.update_run(self._id, status="RUNNING")
        self._last = self._client.get_run(self._id).data.metrics.get(STEP, -1)

    def log(self, result: Result) -> None:
        from mlflow.entities import Metric  # noqa: PLC0415

        if result.step <= self._last:
            return
        # The step is a metric, too: MLflow's newest value of it says what was logged.
        values = {**result.metrics, STEP: float(result.step)}
        at = int(result.at * 1000)
        metrics = [Metric(_REFUSED.sub("_", name), value, at, result.step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)
        self._last = result.step

    def close(self, *, done: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if done else "FAILED")

    def _experiment_id(self) -> str:
        from mlflow.environment_variables import MLFLOW_EXPERIMENT_NAME  # noqa: PLC0415

        name = self._experiment or MLFLOW_EXPERIMENT_NAME.get() or "Default"
        known = self._client.get_experiment_by_name(name)
        return str(known.experiment_id if known else self._client.create_experiment(name))

    def _found(self, key: str) -> str | None:
        runs = self._client.search_runs([self._experiment_id()], f"tags.`{_KEY}` = '{key}'")
        return str(runs[0].info.run_id) if runs else None

    def _made(self, key: str, store: CheckpointStore) -> str:
        made = str(self._client.create_run(self._experiment_id(), tags={_KEY: key}, run_name=self._run).info.run_id)
        for name, value in json.loads(store.storage.read("run.json") or b"{}").items():
            self._client.log_param(made, _REFUSED.sub("_", name), value)
        return made

    @staticmethod
    def _put(store: CheckpointStore, record: dict[str, str]) -> None:
        store.storage.put(_RECORD, (json.dumps(record) + "\n").encode())
