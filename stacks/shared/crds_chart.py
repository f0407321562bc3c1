"""A chart's custom resource definitions as a chart of their own."""

import shutil
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

from config.facts.charts_lock import ChartError

# The definitions are files that are copied, not templates: a description in them may hold braces.
_TEMPLATE: Final = """\
{{- range $path, $content := .Files.Glob "files/*.yaml" }}
---
{{ $content | toString }}
{{- end }}
"""


def write_crds_chart(name: str, chart: Path, directory: Path) -> Path:
    """Write to `directory` a chart that holds what stands in `crds/` of chart `name`, and return its folder.

    Helm installs `crds/` once, never upgrades it and never removes it. As objects of a release of their own the
    definitions are upgraded with the chart and go with the release, and Helm refuses them where others made them.
    Raises ChartError when the chart has none.
    """
    definitions = sorted((chart / "crds").glob("*.yaml"))
    if not definitions:
        raise ChartError(name, f"{chart / 'crds'} holds no custom resource definition")
    target = directory / f"{name}-crds"
    for folder in ("files", "templates"):
        (target / folder).mkdir(parents=True)
    for definition in definitions:
        shutil.copy(definition, target / "files")
    (target / "templates" / "crds.yaml").write_text(_TEMPLATE)
    yaml = YAML(typ="safe", pure=True)
    version = yaml.load((chart / "Chart.yaml").read_text())["version"]
    with (target / "Chart.yaml").open("w") as file:
        yaml.dump({"apiVersion": "v2", "name": target.name, "version": str(version)}, file)
    return target
