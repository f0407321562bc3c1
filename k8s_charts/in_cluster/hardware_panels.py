"""The panels of the dashboards of GPUs and EFA: id, title, Grafana's unit, and queries with their legends.

The pod that uses a GPU is a label of its series and changes with it, so each query aggregates over the pods.
"""

from typing import Final

_GROUP: Final = 'instance_group=~"$group"'
_EACH: Final = "{{node}} {{gpu}}"


def _efa(counter: str, *labels: str, function: str = "rate", minutes: int = 2) -> str:
    return f"sum by ({', '.join(('node', *labels))}) ({function}(node_amazonefa_{counter}{{{_GROUP}}}[{minutes}m]))"


def _of_node(function: str, metric: str, *labels: str, known: str = "") -> str:
    chosen = f'{_GROUP},{known}!=""' if known else _GROUP
    return f"{function} by ({', '.join(('node', *labels))}) ({metric}{{{chosen}}})"


GPU_PANELS: Final = (
    (
        1,
        "GPUs",
        "short",
        (f"count by (instance_group) (DCGM_FI_DEV_GPU_TEMP{{{_GROUP}}})", "{{instance_group}}"),
    ),
    (2, "Multiprocessors at work", "percentunit", (_of_node("avg", "DCGM_FI_PROF_SM_ACTIVE"), "{{node}}")),
    (3, "Tensor cores at work", "percentunit", (_of_node("avg", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"), "{{node}}")),
    (4, "Memory at work", "percentunit", (_of_node("avg", "DCGM_FI_PROF_DRAM_ACTIVE"), "{{node}}")),
    (5, "A kernel runs", "percent", (_of_node("avg", "DCGM_FI_DEV_GPU_UTIL"), "{{node}}")),
    # DCGM counts MiB.
    (6, "Memory in use", "bytes", (f"{_of_node('max', 'DCGM_FI_DEV_FB_USED', 'gpu')} * 1024 * 1024", _EACH)),
    (
        7,
        "Hottest GPU and memory",
        "celsius",
        (_of_node("max", "DCGM_FI_DEV_GPU_TEMP"), "{{node}} GPU"),
        (_of_node("max", "DCGM_FI_DEV_MEMORY_TEMP"), "{{node}} memory"),
    ),
    (8, "Power", "watt", (_of_node("sum", "DCGM_FI_DEV_POWER_USAGE"), "{{node}}")),
    (
        9,
        "Slower clocks in five minutes, by reason",
        "short",
        (
            _of_node("sum", "DCGM_EXP_CLOCK_EVENTS_COUNT", "clock_event", known="clock_event"),
            "{{node}} {{clock_event}}",
        ),
    ),
    (
        10,
        "NVLink",
        "Bps",
        (_of_node("sum", "DCGM_FI_PROF_NVLINK_TX_BYTES"), "{{node}} sends"),
        (_of_node("sum", "DCGM_FI_PROF_NVLINK_RX_BYTES"), "{{node}} receives"),
    ),
    (
        11,
        "NVLink's errors since the driver's start",
        "short",
        (_of_node("sum", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"), "{{node}} checksums"),
        (_of_node("sum", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"), "{{node}} recoveries"),
    ),
    (
        12,
        "XID errors in five minutes, applications' too",
        "short",
        (_of_node("max", "DCGM_EXP_XID_ERRORS_COUNT", "gpu", "xid", known="xid"), f"{_EACH} XID {{{{xid}}}}"),
    ),
    (
        13,
        "Memory errors since the driver's start",
        "short",
        (_of_node("max", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "gpu"), f"{_EACH} corrected"),
        (_of_node("max", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "gpu"), f"{_EACH} uncorrectable"),
    ),
    (
        14,
        "Replaced rows of memory",
        "short",
        (_of_node("max", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "gpu"), f"{_EACH} corrected"),
        (_of_node("max", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "gpu"), f"{_EACH} uncorrectable"),
        (_of_node("max", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "gpu"), f"{_EACH} failed"),
    ),
)

EFA_PANELS: Final = (
    (
        1,
        "EFA devices",
        "short",
        (f"sum by (instance_group) (efa_devices{{{_GROUP}}})", "{{instance_group}}"),
        (f"sum by (instance_group) (efa_unreadable{{{_GROUP}}})", "{{instance_group}} unreadable"),
    ),
    (2, "Throughput", "Bps", (_efa("tx_bytes"), "{{node}} sends"), (_efa("rx_bytes"), "{{node}} receives")),
    (
        3,
        "RDMA",
        "Bps",
        (_efa("rdma_read_bytes"), "{{node}} reads"),
        (_efa("rdma_write_bytes"), "{{node}} writes"),
    ),
    (4, "Packets", "pps", (_efa("tx_pkts"), "{{node}} sends"), (_efa("rx_pkts"), "{{node}} receives")),
    (5, "Dropped packets", "pps", (_efa("rx_drops", "device"), "{{node}} {{device}}")),
    (
        6,
        "Failed RDMA operations in five minutes",
        "short",
        (_efa("rdma_read_wr_err", function="increase", minutes=5), "{{node}} reads"),
        (_efa("rdma_write_wr_err", function="increase", minutes=5), "{{node}} writes"),
    ),
    (7, "Packets sent again", "pps", (_efa("retrans_pkts"), "{{node}}")),
    (
        8,
        "Connections in trouble in five minutes",
        "short",
        (_efa("retrans_timeout_events", function="increase", minutes=5), "{{node}} timeouts"),
        (_efa("impaired_remote_conn_events", function="increase", minutes=5), "{{node}} impaired"),
        (_efa("unresponsive_remote_events", function="increase", minutes=5), "{{node}} unresponsive"),
    ),
)
