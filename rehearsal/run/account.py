"""The embedded account as a rehearsal uses it: with this project's extensions and its CDK CLI."""

from pathlib import Path
from typing import Final

from embedded_account.running import EmbeddedAccount
from rehearsal.extensions import EXTENSIONS
from rehearsal.paths import NODE_MODULES, REPOSITORY

QUOTAS: Final = Path(__file__).with_name("quotas.yaml")
"""What differs from the quotas of a new account, which rehearses no node with an accelerator of the newest kinds."""


def rehearsal_account(directory: Path, programs: Path, *, account_id: str, region: str) -> EmbeddedAccount:
    """Return an account that is not started yet."""
    return EmbeddedAccount(
        directory,
        programs,
        account_id=account_id,
        region=region,
        node_modules=NODE_MODULES,
        extensions=EXTENSIONS,
        cwd=REPOSITORY,
        quotas=QUOTAS,
    )
