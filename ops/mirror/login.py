"""Log in to ECR registries: tokens in a private Docker configuration that lives as long as the copy."""

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ops.mirror.errors import NoAccessError

_ECR: Final = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com")
_CONFIGURATION: Final = "DOCKER_CONFIG"


@dataclass(frozen=True)
class EcrHost:
    """A private registry of ECR."""

    host: str
    account: str
    region: str


def ecr_hosts(references: Iterable[str]) -> list[EcrHost]:
    """Return the private ECR registries of these images, each once."""
    hosts = dict.fromkeys(reference.split("/")[0] for reference in references)
    found = (_ECR.fullmatch(host) for host in hosts)
    return [EcrHost(each[0], each["account"], each["region"]) for each in found if each]


@contextmanager
def logged_in(tokens: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Yield the variables that give crane the tokens, by host, beside the caller's own logins.

    A token is the base64 text of USER:PASSWORD, as ECR returns it. The tokens lie in a file that only this user can
    read, and the file goes with the block.
    """
    if not tokens:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="ops-mirror-") as private:
        file = Path(private, "config.json")
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(json.dumps(_with(_own(), tokens)))
        yield {_CONFIGURATION: private}


def _own() -> dict[str, Any]:
    """Return the caller's Docker configuration; empty if there is none."""
    file = Path(os.environ.get(_CONFIGURATION) or Path.home() / ".docker", "config.json")
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise NoAccessError(f"{file} is not JSON. Fix: correct it, or remove it and log in again") from None
    return found if isinstance(found, dict) else {}


def _with(own: dict[str, Any], tokens: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration with the tokens.

    The store of all credentials becomes the helper of the hosts that it has logins for: it would be asked first, also
    for the hosts of the tokens.
    """
    logins = own.get("auths", {})
    helpers = dict.fromkeys(logins, own["credsStore"]) if own.get("credsStore") else {}
    return {
        **{key: value for key, value in own.items() if key != "credsStore"},
        "auths": logins | {host: {"auth": token} for host, token in tokens.items()},
        "credHelpers": helpers | own.get("credHelpers", {}) | dict.fromkeys(tokens, ""),
    }
