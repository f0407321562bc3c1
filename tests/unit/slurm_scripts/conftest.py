"""A node for each test."""

from pathlib import Path

import pytest

from tests.unit.slurm_scripts.node import Node, make_node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Return a new compute node of a cluster that HyperPod configures by its API."""
    return make_node(tmp_path)


@pytest.fixture
def guide_node(node: Node) -> Node:
    """Return a new compute node of a cluster that provisioning_parameters.json configures; nothing is mounted."""
    node.parameters()
    (node.root / "mounted").unlink()
    return node
