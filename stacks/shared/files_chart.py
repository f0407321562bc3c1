"""Helm charts whose objects are files that Helm copies instead of rendering, so their text may contain braces."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

_TEMPLATE: Final = """\
{{- range $path, $content := .Files.Glob "files/*.yaml" }}
---
{{ $content | toString }}
{{- end }}
"""


def write_files_chart(directory: Path, name: str, *, version: str, files: Mapping[str, bytes], template: str) -> Path:
    """Write chart `name` to `directory` and return its folder; equal arguments give equal bytes.

    Args:
        directory: where the chart's folder is created.
        name: of the chart and of its folder.
        version: of the chart.
        files: YAML text of Kubernetes objects by file name, which ends in `.yaml`.
        template: file name of the only template; Helm's messages show it as the source of the objects.
    """
    target = directory / name
    for folder in ("files", "templates"):
        (target / folder).mkdir(parents=True)
    for path, content in files.items():
        (target / "files" / path).write_bytes(content)
    (target / "templates" / template).write_text(_TEMPLATE)
    with (target / "Chart.yaml").open("w") as file:
        YAML(typ="safe", pure=True).dump({"apiVersion": "v2", "name": name, "version": version}, file)
    return target
