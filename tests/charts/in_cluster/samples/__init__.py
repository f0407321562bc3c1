"""What Ray exports, as Prometheus reads it.

`ray-2.42.1.txt` is the answer of a real head of Ray 2.42.1 with a task, an actor and the library's gauges, cut to the
families that the dashboards read (`tests/jobs/test_metrics.py` asks a running Ray). `gpu.txt` has what a
node without GPUs lacks: names and labels from ray 2.42.1, dashboard/modules/reporter/reporter_agent.py, and from the
library's meter.

`dcgm-4.8.2.txt` is written by hand: two GPUs, of which one is in use, in the form of NVIDIA/dcgm-exporter 4.5.3-4.8.2
(`rendermetrics/render_metrics.go`, `collector/expcollector.go`, `transformation/kubernetes.go`). No GPU was there.
"""
