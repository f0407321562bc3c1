"""The embedded account as a rehearsal uses it: with this project's extensions and its CDK CLI."""

from pathlib import Path

from embedded_account.running import EmbeddedAccount
from rehearsal.extensions import EXTENSIONS
from rehearsal.paths import NODE_MODULES, REPOSITORY


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
    )
