"""Where the series of a query come from: the job that Prometheus scrapes, by the beginning of a metric's name."""

import re
from collections.abc import Mapping
from typing import Final

# The first match counts.
_SOURCES: Final[Mapping[str, str]] = {
    "ray_run_": "exporter: the run's Lease",
    "hyperpod_node_usd_": "exporter: the node's type and its list price",
    "hyperpod_node_": "exporter: the node's labels and conditions",
    "ray_image_build_": "exporter: the newest Job of the image build",
    "ray_reaper_": "reaper",
    "ray_sleeper_": "sleeper",
    "job_supervisor_": "job-supervisor",
    "ray_training_": "ray: worker 0 of a job with the library",
    "ray_node_gpus_": "ray: each node with GPUs",
    "ray_node_gram_": "ray: each node with GPUs",
    "ray_": "ray: heads and workers",
    "DCGM_": "dcgm: each node with GPUs",
    "node_amazonefa_": "efa: each node with EFA",
    "efa_": "efa: each node with EFA",
    "up": "Prometheus itself",
}
_METRIC: Final = re.compile(r"\b(?:ray|hyperpod|job_supervisor|DCGM|node_amazonefa|efa)_\w+|\bup\b(?=\{|\)|$| )")


def metrics(expression: str) -> list[str]:
    """Return the metrics that an expression reads, each once."""
    # Labels and their values can look like metrics.
    bare = re.sub(r"by \([^)]*\)|on \([^)]*\)|[{][^}]*[}]", "", expression)
    return list(dict.fromkeys(_METRIC.findall(bare)))


def source(metric: str) -> str:
    """Return what feeds a metric. Raises LookupError if nothing does."""
    for beginning, fed_by in _SOURCES.items():
        if metric.startswith(beginning):
            return fed_by
    raise LookupError(f"{metric}: nothing feeds it")
