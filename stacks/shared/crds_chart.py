"""A chart's custom resource definitions as a chart of their own."""

from pathlib import Path

from ruamel.yaml import YAML

from config.facts.charts_lock import ChartError
from stacks.shared.files_chart import write_files_chart


def write_crds_chart(name: str, chart: Path, directory: Path) -> Path:
    """Write to `directory` a chart with the definitions in `crds/` of chart `name`, and return its folder.

    Helm installs `crds/` once, never upgrades it and never removes it. As objects of a separate release, the
    definitions are upgraded with the chart and deleted with the release. Helm refuses to take over definitions that
    others created.

    Raises:
        ChartError: the chart has no definitions.
    """
    definitions = {file.name: file.read_bytes() for file in sorted((chart / "crds").glob("*.yaml"))}
    if not definitions:
        raise ChartError(
            name, f"{chart / 'crds'} holds no custom resource definition. Allowed: charts with definitions there"
        )
    version = str(YAML(typ="safe", pure=True).load((chart / "Chart.yaml").read_text())["version"])
    return write_files_chart(directory, f"{name}-crds", version=version, files=definitions, template="crds.yaml")
