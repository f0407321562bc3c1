"""List the rights of jobs on SageMaker's MLflow tracking server.

Source: service authorization reference, "Actions, resources, and condition keys for Amazon SageMaker with MLflow". Each
action is a call of MLflow's REST API.
"""

from typing import Final

LOGGING_ACTIONS: Final = (
    "CreateExperiment",
    "CreateRun",
    "GetExperiment",
    "GetExperimentByName",
    "GetMetricHistory",
    "GetRun",
    "ListArtifacts",
    "LogBatch",
    "LogInputs",
    "LogMetric",
    "LogModel",
    "LogParam",
    "SearchExperiments",
    "SearchRuns",
    "SetExperimentTag",
    "SetTag",
    "UpdateRun",
)
"""Logging and reading runs. Jobs delete nothing, and change no experiment and no registered model."""
