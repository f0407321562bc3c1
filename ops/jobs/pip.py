"""Read the packages that Ray installs for one job: `--pip FILE`, a locked requirements file.

Ray 2.42.1 makes a virtual environment over the image's packages on each node, and lets pip install the lines there
(ray: _private/runtime_env/pip.py). With hashes, pip installs nothing that the file does not list.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config import EksEnvironment
from config.rules.image import RAY_IMAGE, package_names, requirements, unlocked
from config.rules.secrets import form_of_secret
from ops.jobs.packing import EntryError

_INDEX: Final = "--index-url"
_LARGEST_BYTES: Final = 200_000
"""Most bytes of the lines: they are arguments of the supervisor, in an object of Kubernetes."""
_LOCK: Final = "uv pip compile --generate-hashes --python-version"
_ALLOWED: Final = f"name==version --hash=sha256:…, and one line {_INDEX} URL"
_NO_BUILDS: Final = "--only-binary :all:"
"""A build of a source package would fetch its tools without hashes."""


@dataclass(frozen=True)
class _Line:
    file: Path
    number: int

    def refused(self, value: str, reason: str, fix: str, allowed: str = _ALLOWED) -> EntryError:
        return EntryError(
            f"{self.file}:{self.number} --pip: {value!r} is invalid: {reason}. Allowed: {allowed}. Fix: {fix}"
        )


def packages(file: Path, environment: EksEnvironment) -> list[str]:
    """Return the lines for Ray's `pip`; the image's own packages are left out. Raises EntryError."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise EntryError(f"--pip: {str(file)!r} cannot be read: {reason}. Fix: name a requirements file") from error
    lock = environment.version_set.requirements
    command = f"{_LOCK} {environment.version_set.python}"
    image = _versions((RAY_IMAGE / lock).read_text()) if environment.image.built else {}
    found, index, seen = list[str](), "", dict[str, int]()
    for number, requirement, options in requirements(text):
        line = _Line(file, number)
        if not requirement:
            index = _index_of(line, options, index)
            continue
        if reason := unlocked(requirement, options):
            raise line.refused(requirement, reason, f"write the file with `{command}`")
        name, version = _named(requirement)
        if ";" not in requirement and seen.setdefault(name, number) != number:
            raise line.refused(requirement, f"line {seen[name]} names the same package", "delete one of the two")
        if name == "ray":
            raise line.refused(requirement, "Ray is the image's", "delete the line", "other packages")
        if (there := image.get(name, version)) != version:
            raise line.refused(
                requirement,
                f"the image has {name} {there}, which its other packages need",
                f"lock with the image's versions: `{command} --constraint ray_image/{lock}`",
                f"{name}=={there}",
            )
        if name not in image:
            found.append(" ".join([requirement, *options]))
    if not found:
        raise EntryError(f"--pip: {str(file)!r} names no package that the image lacks. Fix: leave --pip out")
    if not index and environment.network.closed:
        raise EntryError(
            f"--pip: {str(file)!r} names no index, and a closed network has no way to the public one. "
            f"Fix: write `{_INDEX} https://…` of an index that the VPC reaches, or add the packages to the image"
        )
    lines = [*([f"{_INDEX} {index}"] if index else []), _NO_BUILDS, *found]
    if (size := sum(map(len, lines))) > _LARGEST_BYTES:
        raise EntryError(f"--pip: {str(file)!r} has {size:,} bytes. Allowed: {_LARGEST_BYTES:,}. Fix: use image.pip")
    return lines


def _index_of(line: _Line, options: list[str], before: str) -> str:
    """Return the address of the index that an option names. Raises EntryError."""
    name, _, address = " ".join(options).replace("=", " ", 1).partition(" ")
    if name != _INDEX:
        raise line.refused(name, "this option is not for a job", "delete the line")
    if before:
        raise line.refused(name, "it is there twice", "delete one of the two")
    if not address.startswith("https://"):
        raise line.refused(address, "it is no address with TLS", "write the address of a simple index", "https://…")
    if form_of_secret(address):
        raise line.refused(name, "it contains a password, which everyone who can read Jobs would see", "remove it")
    return address


def _versions(text: str) -> Mapping[str, str]:
    """Return the versions by name that a lock pins."""
    return dict(_named(requirement) for _, requirement, _ in requirements(text) if requirement)


def _named(requirement: str) -> tuple[str, str]:
    """Return name and version of a pinned requirement."""
    [name] = package_names((requirement,))
    return name, requirement.partition("==")[2].split(";")[0].strip()
