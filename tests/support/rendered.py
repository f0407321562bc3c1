"""Read what `ops manifests` renders."""

from pathlib import Path
from typing import Any

import yaml

from config import EksEnvironment
from ops.render.manifests import render

Document = dict[str, Any]


def documents(environment: EksEnvironment) -> dict[Path, list[Document]]:
    """Return the objects, or the Helm release, of each file of the environment, by path relative to `manifests/`."""
    return {
        file: [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]
        for file, text in render(environment).items()
    }
