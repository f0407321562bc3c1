"""Write an entry of a kubeconfig for an environment's EKS cluster: kubectl then gets tokens from the AWS CLI."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from config import EksEnvironment

_LISTS: Final = ("clusters", "users", "contexts")


class KubeconfigError(Exception):
    """The file is no kubeconfig, or an entry of this name belongs to another cluster; the message says which."""


def entry(environment: EksEnvironment, cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return a kubeconfig with one context, named as the EKS cluster. `cluster` is EKS's description of it."""
    name = cluster["name"]
    command = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["eks", "get-token", "--region", environment.region, "--cluster-name", name, "--output", "json"],
        "interactiveMode": "Never",
    }
    server = {"server": cluster["endpoint"], "certificate-authority-data": cluster["certificateAuthority"]["data"]}
    context = {"cluster": name, "user": name, "namespace": environment.ray.namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": server}],
        "users": [{"name": name, "user": {"exec": command}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }


def merge(file: Path, new: Mapping[str, Any]) -> bool:
    """Add the entries to the file and return whether it changed; keep all others, and the current context.

    Raises KubeconfigError if the file is no kubeconfig, or if it has an entry of this name for another server. Entries
    of this name for the same server are renewed.
    """
    before = _read(file)
    merged = {**new, **before}
    for kind in _LISTS:
        names = {each["name"] for each in new[kind]}
        merged[kind] = [*(each for each in before.get(kind) or [] if each["name"] not in names), *new[kind]]
    if (existing := _server(before, new)) and existing != _server(new, new):
        name = new["clusters"][0]["name"]
        raise KubeconfigError(
            f"{file} clusters: {name} belongs to another server, {existing}. Fix: remove it, or choose another --file"
        )
    if merged == before:
        return False
    _write(file, merged)
    return True


def _server(config: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    name = new["clusters"][0]["name"]
    found = (each["cluster"]["server"] for each in config.get("clusters") or [] if each["name"] == name)
    return str(next(found, ""))


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{file} cannot be read: {error}. Fix: choose another --file") from error
    try:
        found = yaml.safe_load(text) or {}
        if not all("name" in each for kind in _LISTS for each in found.get(kind) or []):
            raise ValueError("an entry has no name")
    except (yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise KubeconfigError(
            f"{file} is no kubeconfig: {reason}. Fix: correct it, or choose another --file"
        ) from error
    return dict(found)


def _write(file: Path, config: Mapping[str, Any]) -> None:
    """Replace the file at once; only its owner can read it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A link, such as one into a folder of configurations, stays a link.
        target = file.resolve()
        with tempfile.NamedTemporaryFile("w", dir=target.parent, prefix=".kubeconfig-", delete=False) as new:
            yaml.safe_dump(dict(config), new, sort_keys=False)
        Path(new.name).replace(target)
    except OSError as error:
        raise KubeconfigError(f"{file} cannot be written: {error}. Fix: choose another --file") from error
