"""What a platform engineer's own machine has: credentials, clusters, proxies. All of it invented."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SECRETS: Final = (
    "AKIAIOSFODNN7PLANTED",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYplanted000",
    "IQoJb3JpZ2luX2VjPLANTED",
    "ASIAIOSFODNN7FILED00",
    "filedK7MDENGbPxRfiCYwJalrXUtnFEMI000000",
    "planted-bearer-token",
    "999988887777",
)
"""None of these may be found in anything that a rehearsal writes."""

# Networks kept for documentation (RFC 5737): whoever follows one of these tries to leave the machine.
_CONFIG: Final = """[default]
region = eu-central-1
[profile production]
region = eu-central-1
role_arn = arn:aws:iam::999988887777:role/Production
source_profile = default
endpoint_url = https://203.0.113.10
"""
_CREDENTIALS: Final = f"""[default]
aws_access_key_id = {SECRETS[3]}
aws_secret_access_key = {SECRETS[4]}
[production]
aws_access_key_id = {SECRETS[3]}
aws_secret_access_key = {SECRETS[4]}
"""
_KUBECONFIG: Final = f"""apiVersion: v1
kind: Config
current-context: production
clusters: [{{name: production, cluster: {{server: "https://203.0.113.11"}}}}]
users: [{{name: me, user: {{token: {SECRETS[5]}}}}}]
contexts: [{{name: production, context: {{cluster: production, user: me}}}}]
"""
_FILES: Final = {
    ".aws/config": _CONFIG,
    ".aws/credentials": _CREDENTIALS,
    ".aws/sso/cache/token.json": f'{{"accessToken": "{SECRETS[5]}", "region": "eu-central-1"}}',
    ".cdk.json": '{"context": {"environment": "closed", "charts": "publisher"}, "profile": "production"}',
    ".config/helm/repositories.yaml": "repositories: [{name: own, url: 'https://203.0.113.12'}]\n",
    ".kube/config": _KUBECONFIG,
    ".npmrc": "registry=https://203.0.113.13/\n",
    "elsewhere/aws-config": _CONFIG,
    "elsewhere/aws-credentials": _CREDENTIALS,
    "elsewhere/kubeconfig": _KUBECONFIG,
}
_LONG_AGO: Final = 1_000_000_000


@dataclass(frozen=True)
class Seen:
    """A file as it was found; times in nanoseconds. Of a folder, that it is there."""

    content: bytes = b""
    modified: int = 0
    read: int | None = None
    """None where the file system does not say."""


class Home:
    """A home directory with real-looking files, and the variables that lead to them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name, content in _FILES.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self._tells_reads = self._watch_reads()

    def variables(self) -> dict[str, str]:
        """What the engineer's shell exports."""
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy"), "http://203.0.113.14:3128")
        elsewhere = self.directory / "elsewhere"
        return proxies | {
            "HOME": str(self.directory),
            "AWS_ACCESS_KEY_ID": SECRETS[0],
            "AWS_SECRET_ACCESS_KEY": SECRETS[1],
            "AWS_SESSION_TOKEN": SECRETS[2],
            "AWS_PROFILE": "production",
            "AWS_REGION": "eu-central-1",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_CONFIG_FILE": str(elsewhere / "aws-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(elsewhere / "aws-credentials"),
            "AWS_ENDPOINT_URL": "https://203.0.113.15",
            "AWS_ENDPOINT_URL_S3": "https://203.0.113.16",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://203.0.113.17/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": SECRETS[5],
            "KUBECONFIG": str(elsewhere / "kubeconfig"),
            "HELM_KUBEAPISERVER": "https://203.0.113.18",
            "HELM_KUBETOKEN": SECRETS[5],
            "HELM_NAMESPACE": "production",
            "HELM_REPOSITORY_CONFIG": str(self.directory / ".config/helm/repositories.yaml"),
            "CDK_DEFAULT_ACCOUNT": "999988887777",
            "CDK_DEFAULT_REGION": "eu-central-1",
            "CDK_HOME": str(self.directory / ".cdk"),
            "CDK_NEW_BOOTSTRAP": "1",
        }

    def look(self) -> dict[str, Seen]:
        """Everything below the home directory, without leaving a trace of one's own.

        Go counts its runs below `.config/go`: the control plane is built with the caller's own Go configuration.
        """
        paths = [path for path in self.directory.rglob("*") if not path.is_relative_to(self.directory / ".config/go")]
        return {str(path.relative_to(self.directory)): self._seen(path) for path in sorted(paths)}

    def _watch_reads(self) -> bool:
        """Set the files' times back, so that a first read moves them; False where the file system keeps none."""
        probe = self.directory / "probe"
        probe.write_text("probe")
        for path in [probe, *(self.directory / name for name in _FILES)]:
            # Read before it was last written: a `relatime` file system notes the next read.
            os.utime(path, (_LONG_AGO, _LONG_AGO + 1))
        probe.read_text()
        noted = probe.stat().st_atime != _LONG_AGO
        probe.unlink()
        return noted

    def _seen(self, path: Path) -> Seen:
        stat = path.lstat()
        if not path.is_file():
            return Seen()
        content = path.read_bytes()
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        return Seen(content, stat.st_mtime_ns, stat.st_atime_ns if self._tells_reads else None)
