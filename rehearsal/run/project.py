"""Copy the user's checkout, so that the rehearsal can edit an environment as a user would."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from config.load import DIRECTORY, file_of
from rehearsal.paths import NODE_MODULES, REPOSITORY

Document = dict[str, Any]
"""An environment's file, parsed."""

ENVIRONMENTS: Final = "environments"
# Everything that synthesis and `ops` read. Tests, documentation and the rehearsal itself are not copied.
_PARTS: Final = (
    "app.py",
    "cdk.json",
    "config",
    "controllers",
    ENVIRONMENTS,
    "handlers",
    "k8s_charts",
    "lifecycle_scripts",
    "ops",
    "packages/ray-resume",
    "ray_image",
    "ray_jobs",
    "stacks",
)


class Project:
    """A working copy of the project below the rehearsal's directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for part in _PARTS:
            source = DIRECTORY if part == ENVIRONMENTS else REPOSITORY / part
            if source.is_dir():
                # With the bytecode: the copies keep their sources' times, so Python need not compile them.
                shutil.copytree(source, directory / part)
            else:
                shutil.copy2(source, directory / part)
        (directory / "node_modules").symlink_to(NODE_MODULES)

    def lift_protection(self, environment: str) -> None:
        """Set `protect: false`, the first reviewed change before an environment is destroyed."""
        self.edit(environment, lambda document: document.update(protect=False))

    def grow_workers(self, environment: str, *, by: int) -> tuple[str, int, int]:
        """Raise the count of the last instance group and of its Ray workers.

        Returns the group's name, and its count before and after.
        """
        counts = []

        def grow(document: Document) -> None:
            group = document["hyperpod"]["instance_groups"][-1]
            counts.extend([group["name"], group["count"], group["count"] + by])
            group["count"] += by
            for cluster in document["ray"]["clusters"]:
                for workers in cluster["workers"]:
                    if workers["instance_group"] == group["name"]:
                        workers["replicas"] += by
                        workers["max_replicas"] = max(workers["max_replicas"], workers["replicas"])

        self.edit(environment, grow)
        name, before, after = counts
        return name, before, after

    def edit(self, environment: str, change: Callable[[Document], None]) -> None:
        """Apply `change` to the environment's file and keep everything else, as a user's editor would.

        An example is copied to the environments first.
        """
        file, yaml = self.directory / ENVIRONMENTS / f"{environment}.yaml", YAML()
        if not file.exists():
            shutil.copy2(file_of(environment), file)
        yaml.preserve_quotes = True
        yaml.indent(sequence=4, offset=2)
        yaml.width = 10_000
        document = yaml.load(file)
        change(document)
        yaml.dump(document, file)
