"""The Ray nodes of the jobs' tests."""

from pathlib import Path

from ray._private.utils import get_ray_address_file

from tests.jobs.support.ray_nodes import Nodes


def test_head_is_noted_in_a_folder_of_its_own(nodes: Nodes) -> None:
    """Not in /tmp/ray, which may not exist, and where other Ray clusters write their addresses."""
    noted = Path(get_ray_address_file(None))
    assert noted.read_text() == nodes.address
    assert Path("/tmp/ray") not in noted.parents
