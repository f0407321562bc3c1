"""The build context of the Ray image: `ray_image/`, the training library, and the environment's further packages."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from config.facts import versions
from config.facts.versions import VersionSet

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
RAY_IMAGE_DIRECTORY: Final = _REPOSITORY / "ray_image"
LIBRARY: Final = _REPOSITORY / "packages" / "ray-resume"
_LIBRARY_FILES: Final = ("LICENSE", "README.md", "pyproject.toml", "ray_resume/py.typed")
FURTHER_REQUIREMENTS: Final = "further_requirements.txt"
REQUIREMENTS: Final = "requirements.txt"


def build_arguments(version_set: VersionSet) -> dict[str, str]:
    """Return the Dockerfile's arguments. The base image may be pulled from a copy of the same image."""
    return {
        "BASE_IMAGE": version_set.base_image,
        "EFA_INSTALLER": versions.EFA_INSTALLER,
        "EFA_INSTALLER_SHA256": versions.EFA_INSTALLER_SHA256,
    }


def context_files(
    version_set: VersionSet, pip: Sequence[str], directory: Path = RAY_IMAGE_DIRECTORY
) -> dict[str, bytes]:
    """Return the content of each file by its path in the context; `pip` are requirements `name==version`."""
    files = {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}
    files[REQUIREMENTS] = (directory / version_set.requirements).read_bytes()
    # Files by their names: without the folder this fails, instead of giving the image another tag.
    for path in sorted([*(LIBRARY / name for name in _LIBRARY_FILES), *LIBRARY.glob("ray_resume/**/*.py")]):
        files[f"{LIBRARY.name}/{path.relative_to(LIBRARY).as_posix()}"] = path.read_bytes()
    if pip:
        files[FURTHER_REQUIREMENTS] = "".join(f"{requirement}\n" for requirement in pip).encode()
    return files


def context_tag(files: Mapping[str, bytes], arguments: Mapping[str, str]) -> str:
    """Return the tag of the image from a context and build arguments: 16 hexadecimal digits of their hash."""
    digest = hashlib.sha256("\0".join(f"{name}={arguments[name]}" for name in sorted(arguments)).encode())
    for name in sorted(files):
        digest.update(f"\0{name}\0".encode() + hashlib.sha256(files[name]).digest())
    return digest.hexdigest()[:16]


def write_context(files: Mapping[str, bytes], directory: Path) -> None:
    """Write the files to an empty directory."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
