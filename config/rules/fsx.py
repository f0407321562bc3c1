"""Rules of the file system."""

from collections.abc import Iterator

from config.model import Environment
from config.rules.rule import error


@error("V9")
def file_system_size(environment: Environment) -> Iterator[tuple[str, str]]:
    """FSx CreateFileSystem, PERSISTENT_2 on SSD."""
    fsx = environment.fsx
    if fsx.capacity_gib != 1200 and (fsx.capacity_gib % 2400 or fsx.capacity_gib <= 0):
        yield "fsx.capacity_gib", f"{fsx.capacity_gib}; allowed: 1200 or a multiple of 2400"
    if fsx.throughput_mbps_per_tib not in (125, 250, 500, 1000):
        yield "fsx.throughput_mbps_per_tib", f"{fsx.throughput_mbps_per_tib}; allowed: 125, 250, 500, 1000"
