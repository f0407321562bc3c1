"""The keys of one run of the embedded account, random each time: without them nobody calls it."""

import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

_KEY_ID: Final = string.ascii_uppercase + "234567"
_CONTROL: Final = "REHEARSAL_CONTROL_SECRET"


@dataclass(frozen=True)
class RunKeys:
    """The access key of the account's root user, and the secret of the account's own routes under /_rehearsal/."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    control_secret: str = field(repr=False)

    @classmethod
    def issue(cls) -> Self:
        """Return new keys; their secrets have more than 128 random bits each."""
        name = "".join(secrets.choice(_KEY_ID) for _ in range(16))
        return cls(f"AKIA{name}", secrets.token_urlsafe(30), secrets.token_urlsafe(30))

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Return the keys that `in_environment` has put there; raises KeyError naming the variable that is missing."""
        return cls(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], environment[_CONTROL])

    @property
    def aws(self) -> dict[str, str]:
        """The root user's access key as the variables of AWS's SDKs."""
        return {"AWS_ACCESS_KEY_ID": self.access_key_id, "AWS_SECRET_ACCESS_KEY": self.secret_access_key}

    @property
    def in_environment(self) -> dict[str, str]:
        """All of it as variables, for the account's own process: arguments could be read by other users."""
        return {**self.aws, _CONTROL: self.control_secret}

    @property
    def control_headers(self) -> dict[str, str]:
        """The header that opens the account's own routes."""
        return {"Authorization": f"Bearer {self.control_secret}"}
