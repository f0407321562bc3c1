"""Kubeconfig files."""

from collections.abc import Mapping
from pathlib import Path

import yaml


def write_kubeconfig(path: Path, name: str, cluster: Mapping[str, str], user: Mapping[str, str]) -> None:
    """Write a kubeconfig with one cluster, one user and one context, all of one name."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": dict(cluster)}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
