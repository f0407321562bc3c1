"""Remove secrets and identities from texts and from data.

It removes too much rather than too little: a long random word counts as a key. Keys of mappings stay, as they name what
was removed. The patterns take time in proportion to the text: their repetitions are bounded, or begin at a word only.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

REDACTED: Final = "[redacted]"

_NAMES: Final = (
    r"[A-Za-z0-9_.-]{0,64}(?:secret|token|password|passwd|passphrase|credential|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|authorization|auth[_-]?key|signature|cookie)[A-Za-z0-9_.-]{0,64}"
)
_IS_SECRET_NAME: Final = re.compile(_NAMES, re.IGNORECASE)
# Names of Kubernetes objects, and switches: needed to understand a pod, and no secrets.
_HARMLESS_NAMES: Final = frozenset(
    {"secretName", "secretKeyRef", "automountServiceAccountToken", "serviceAccountToken"}
)
_QUOTE: Final = r"(?:\\*[\"'])"

_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), REDACTED),
    # A query may be a signature, and what stands before @ a login.
    (re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://)[^\s/@\"'<>]+@", re.IGNORECASE), rf"\1{REDACTED}@"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s?\"'<>]*)\?[^\s\"'<>]+", re.IGNORECASE), rf"\1?{REDACTED}"),
    # The rest of the line: a header's value has words, such as AWS4-HMAC-SHA256 Credential=….
    (
        re.compile(rf"(\b(?:proxy-)?authorization{_QUOTE}?\s*[:=]\s*{_QUOTE}?)[^\r\n\"'\\]+", re.IGNORECASE),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\1 {REDACTED}"),
    (re.compile(rf"(--?{_NAMES}\s+)(?!-)[^\s\"'\\]+", re.IGNORECASE), rf"\1{REDACTED}"),
    # NAME=value and NAME: "value". The value of a known harmless word stays.
    (
        re.compile(
            rf"(?P<name>(?<![A-Za-z0-9]){_NAMES}{_QUOTE}?)(?P<is>\s*[:=]\s*)"
            rf"(?!(?:true|false|null|none)\b|\[redacted\])"
            rf"(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\+\"[^\"]*\"|[^\s\"']+)",
            re.IGNORECASE,
        ),
        rf"\g<name>\g<is>{REDACTED}",
    ),
    (re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{16}"), REDACTED),
    (re.compile(r"(?:IQoJ|FwoG|FQoG|AQoD|AgoJ)[A-Za-z0-9/+=_%-]{20,}"), REDACTED),
    (re.compile(r"k8s-aws-v1\.[A-Za-z0-9_=-]+"), REDACTED),
    (re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"), REDACTED),
    (
        re.compile(
            r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|glpat-[\w-]{16,}|nvapi-[\w-]{20,}"
            r"|\b(?:xox[abeoprs]-[\w-]{10,}|sk-[\w-]{20,})"
        ),
        REDACTED,
    ),
    # A secret access key has 40 letters of three kinds, unlike digests and ids of git. A longer word may end with one.
    (
        re.compile(
            r"(?<![A-Za-z0-9/+])(?=[a-z0-9/+]*[A-Z])(?=[A-Z0-9/+]*[a-z])(?=[A-Za-z/+]*\d)"
            r"(?:[A-Za-z0-9/+]{40}|[A-Za-z0-9+]{41,})(?![A-Za-z0-9/+])"
        ),
        REDACTED,
    ),
    (re.compile(r"(?<![A-Za-z0-9_.+%-])[A-Za-z0-9_.+%-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"), "[e-mail]"),
)
_ACCOUNT: Final = re.compile(r"(?<![0-9A-Za-z])\d{12}(?![0-9A-Za-z])")
# A job's own variable among the arguments of its supervisor.
_OF_A_JOB: Final = re.compile(r"\A(--variable=\w+=).*", re.DOTALL)
_SECRET_OPTION: Final = re.compile(rf"--?{_NAMES}", re.IGNORECASE)


class Redaction:
    """Removes secrets; replaces each account id by the same pseudonym everywhere, unless they are kept."""

    def __init__(self, account: str, *, keep_account_ids: bool = False) -> None:
        self._account = account
        self._keeps = keep_account_ids
        self._pseudonyms = {account: _pseudonym(1)}

    def text(self, text: str) -> str:
        """Return a text without secrets, e-mail addresses and account ids."""
        for pattern, replacement in _RULES:
            text = pattern.sub(replacement, text)
        if self._keeps:
            return text
        # The environment's own account is known, so it is also found inside a name.
        return _ACCOUNT.sub(self._named, text.replace(self._account, self._pseudonyms[self._account]))

    def data(self, value: Any) -> Any:
        """Return JSON-like data without them; a value under a secret's name goes whole."""
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            # An option and its value are neighbours in a command.
            before = [None, *value]
            return [
                REDACTED if isinstance(item, str) and _is_option(previous) else self.data(item)
                for previous, item in zip(before, value, strict=False)
            ]
        if isinstance(value, str):
            return self.text(_OF_A_JOB.sub(rf"\g<1>{REDACTED}", value))
        if value is None or isinstance(value, bool | int | float):
            return self.text(str(value)) if isinstance(value, int) and _ACCOUNT.fullmatch(str(value)) else value
        return self.text(str(value))

    def _mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        # A container's variable: {"name": NAME, "value": VALUE}.
        variable = value.get("name") if isinstance(value.get("value"), str) else None
        hidden = isinstance(variable, str) and bool(_IS_SECRET_NAME.search(variable))
        return {
            self.text(str(key)): REDACTED
            if (_is_secret(str(key), item) or (hidden and key == "value"))
            else self.data(item)
            for key, item in value.items()
        }

    def _named(self, found: re.Match[str]) -> str:
        return self._pseudonyms.setdefault(found[0], _pseudonym(len(self._pseudonyms) + 1))


def _pseudonym(number: int) -> str:
    return f"account-{number}"


def _is_secret(key: str, value: Any) -> bool:
    """Return whether a key names a secret that its value holds: a text, a number or a list of them, no object."""
    return (
        key not in _HARMLESS_NAMES
        and bool(_IS_SECRET_NAME.search(key))
        and not isinstance(value, Mapping | bool)
        and value is not None
        and not (isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value))
    )


def _is_option(value: Any) -> bool:
    return isinstance(value, str) and bool(_SECRET_OPTION.fullmatch(value))
