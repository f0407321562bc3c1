"""Values that the shell completes: environments, and what their files name. Nothing here asks AWS or Kubernetes."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

import config
from config import Environment
from config.findings import InvalidEnvironmentError


def environments(incomplete: str) -> list[str]:
    """Return the environments and examples that begin with `incomplete`."""
    return _matching([*config.available(), *config.examples()], incomplete)


def examples(incomplete: str) -> list[str]:
    """Return the examples that begin with `incomplete`."""
    return _matching(config.examples(), incomplete)


def jobs(incomplete: str) -> list[str]:
    """Return the project's jobs, and the Python files and folders here, that begin with `incomplete`."""
    from ops.jobs.package import own_jobs  # noqa: PLC0415 - only the shell's completion needs it here

    name = incomplete.rpartition("/")[2]
    folder = incomplete.removesuffix(name)
    files = [
        f"{folder}{path.name}/" if path.is_dir() else f"{folder}{path.name}"
        for path in sorted(Path(folder or ".").glob("*"))
        if (path.is_dir() or path.suffix == ".py") and (name.startswith(".") or not path.name.startswith("."))
    ]
    return _matching([*own_jobs(), *files], incomplete)


def rules(incomplete: str) -> list[str]:
    """Return the ids of rules that begin with `incomplete`."""
    from config.rules import ALL_RULES  # noqa: PLC0415 - only the shell's completion needs it here

    return _matching(ALL_RULES, incomplete.upper())


def instance_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the instance groups, of the environment that the command line names or else of all."""
    groups = (group.name for each in _environments(ctx) for group in each.hyperpod.instance_groups)
    return _matching(groups, incomplete)


def ray_clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the RayClusters, of the environment that the command line names or else of all."""
    return _matching((cluster.name for each in _environments(ctx) for cluster in each.ray_clusters), incomplete)


def _environments(ctx: typer.Context) -> Iterator[Environment]:
    for name in [ctx.params["env"]] if ctx.params.get("env") else config.available():
        try:
            yield config.load_any(name)
        except InvalidEnvironmentError:
            # A completion has no place for a message; the command itself reports the error.
            continue


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]
