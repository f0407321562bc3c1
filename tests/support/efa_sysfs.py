"""The part of sysfs that shows EFA's counters, as Linux lays it out.

Names are those of drivers/infiniband/hw/efa/efa_verbs.c and drivers/infiniband/core/sysfs.c. No EFA device was there.
"""

import os
from collections.abc import Mapping
from pathlib import Path

# Linux 5.15, before the driver knew RDMA writes.
OLDER = {
    "tx_bytes": 91_000_000,
    "tx_pkts": 12_000,
    "rx_bytes": 82_000_000,
    "rx_pkts": 11_000,
    "rx_drops": 3,
    "send_bytes": 1_000,
    "send_wrs": 10,
    "recv_bytes": 2_000,
    "recv_wrs": 20,
    "rdma_read_wrs": 400,
    "rdma_read_bytes": 70_000_000,
    "rdma_read_wr_err": 1,
    "rdma_read_resp_bytes": 60_000_000,
}
# The driver of EFA's installer: RDMA writes, and the counters of Nitro v4.
NEWER = {
    **OLDER,
    "rdma_write_wrs": 300,
    "rdma_write_bytes": 50_000_000,
    "rdma_write_wr_err": 2,
    "rdma_write_recv_bytes": 40_000_000,
    "retrans_bytes": 9_000,
    "retrans_pkts": 9,
    "retrans_timeout_events": 4,
    "unresponsive_remote_events": 5,
    "impaired_remote_conn_events": 6,
}
PCI = "0000:4f:00.0"


def add_device(sys: Path, name: str, counters: Mapping[str, int], *, driver: str = "efa", pci: str = PCI) -> Path:
    """Add a device with one port below `sys`, and return the folder of the port's counters."""
    own = sys / "devices" / "pci0000:43" / pci
    folder = own / "infiniband" / name / "ports" / "1" / "hw_counters"
    folder.mkdir(parents=True)
    for counter, value in {**counters, "lifespan": 10}.items():
        (folder / counter).write_text(f"{value}\n")
    # The folder of drivers is not there: the exporter's pod has only `class` and `devices`.
    (own / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    device = own / "infiniband" / name
    (device / "device").symlink_to("../..")
    classes = sys / "class" / "infiniband"
    classes.mkdir(parents=True, exist_ok=True)
    (classes / name).symlink_to(os.path.relpath(device, classes))
    return folder
