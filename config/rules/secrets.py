"""Rules about secrets: environment files are committed, and templates contain their values."""

import re
from collections.abc import Iterator
from typing import Final

from config.findings import HIDDEN
from config.model import EksEnvironment
from config.rules.parts import clusters
from config.rules.rule import Violation, error, warning

# The forms of secrets that issuers document, each with the kind of secret.
_FORMS: Final = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r"\b(AKIA|ASIA)[A-Z0-9]{16}\b", "an AWS access key id"),
        (r"\bhf_[A-Za-z0-9]{20,}", "a Hugging Face token"),
        (r"\b(gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{20,})", "a GitHub token"),
        (r"\bglpat-[\w-]{20,}", "a GitLab token"),
        (r"\bsk-[\w-]{20,}", "an API key"),
        (r"\bxox[abeprs]-[\w-]{10,}", "a Slack token"),
        (r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.", "a JSON web token"),
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----", "a private key"),
        (r"\b[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s@]+@", "an address with a password"),
    )
)
_NAME: Final = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY|(API|ACCESS|PRIVATE|SECRET|AUTH)_KEY)$"
)
_ALLOWED: Final = "values that everyone may read"


def form_of_secret(value: str) -> str | None:
    """Return the kind of secret that the form of a value shows; None if it shows none."""
    return next((what for pattern, what in _FORMS if pattern.search(value)), None)


def suggests_secret(name: str) -> bool:
    """Return whether the name of a variable suggests a secret."""
    return bool(_NAME.search(name.upper()))


def _variables(environment: EksEnvironment) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield each variable of `env`: key, name, value, and the kind of secret that its form shows, if any."""
    for key, cluster in clusters(environment):
        for name, value in cluster.env.items():
            yield f"{key}.env.{name}", name, value, form_of_secret(value)


@error("V73")
def no_secrets(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse values of `env` that have the form of a secret.

    Why: the file is committed, and templates, manifests and descriptions of pods contain the value.
    Source: AWS, Hugging Face, GitHub, GitLab, Slack: forms of their keys and tokens; RFC 7519, RFC 7468.
    Example: ray.clusters.0.env: {HUB: hf_abcdefghijklmnopqrstuvwxyz}
    """
    for key, name, _, form in _variables(environment):
        if form:
            reason = f"it has the form of {form}, and this file must not contain secrets"
            yield Violation(key, reason, _ALLOWED, f"revoke it if it was committed, and {_moved(name)}", HIDDEN)


@warning("V74")
def names_of_secrets(environment: EksEnvironment) -> Iterator[Violation]:
    """Warn of variables of `env` whose name suggests a secret.

    Why: the file is committed, and templates, manifests and descriptions of pods contain the value.
    Source: Kubernetes docs, secrets.
    Example: ray.clusters.0.env: {WANDB_API_KEY: "0123"}
    """
    for key, name, value, form in _variables(environment):
        if value and not form and _NAME.search(name.upper()):
            reason = "its name suggests a secret, and this file must not contain secrets"
            yield Violation(key, reason, _ALLOWED, _moved(name), HIDDEN)


def _moved(name: str) -> str:
    return f"take it from a Kubernetes secret: secrets: [{{env: {name}, secret: NAME, key: KEY}}]"
