"""The calls of MLflow's REST API that the training library's logger makes, by the names that IAM has for them."""

from typing import Final

LOGGER_CALLS: Final = {
    "CreateExperiment": "experiments/create",
    "CreateRun": "runs/create",
    "GetExperimentByName": "experiments/get-by-name",
    "GetRun": "runs/get",
    "LogBatch": "runs/log-batch",
    "LogParam": "runs/log-parameter",
    "SearchRuns": "runs/search",
    "UpdateRun": "runs/update",
}
"""Each action of IAM with the path that it permits. tests/jobs/test_tracking.py compares them with a real client."""
