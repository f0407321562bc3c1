"""`python -m embedded_account run -- COMMAND`: serve an account while a command runs."""

import argparse
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from embedded_account.machine.processes import ProcessError, end_living
from embedded_account.running import ACCOUNT_ID, CLOCK_SCALE, REGION, EmbeddedAccount, default_cache, serve

_POLL_SECONDS: Final = 0.1


def main(argv: Sequence[str]) -> int:
    """Run the command with the account's environment; return its exit code, or 1 if the account fails."""
    arguments = _parse(argv)
    # Handle SIGTERM like Ctrl-C, so that the account ends with this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with serve(
            arguments.directory,
            region=arguments.region,
            account_id=arguments.account_id,
            clock_scale=arguments.clock_scale,
            cache=arguments.cache,
            extensions=arguments.extension,
            quotas=arguments.quotas,
        ) as account:
            return _run(arguments.command, account)
    except (ProcessError, OSError) as error:
        print(f"embedded account: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _run(command: Sequence[str], account: EmbeddedAccount) -> int:
    """Run the command until it ends, or the account does; return its exit code."""
    child = subprocess.Popen(command, env=account.environment)
    while not account.has_ended:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(_POLL_SECONDS)
    # The CDK CLI would ask an account that has ended for more than a minute.
    end_living(account.directory)
    return child.wait()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m embedded_account run", description=__doc__)
    parser.add_argument(
        "--directory", type=Path, default=Path(".embedded-account"), help="folder for logs, journal and homes"
    )
    parser.add_argument("--region", default=REGION, help="the account's only region (%(default)s)")
    parser.add_argument("--account-id", default=ACCOUNT_ID, help="twelve digits (%(default)s)")
    parser.add_argument(
        "--clock-scale", type=float, default=CLOCK_SCALE, help="simulated seconds in a real second (%(default)s)"
    )
    parser.add_argument("--cache", type=Path, help=f"folder of the built programs ({default_cache()})")
    parser.add_argument(
        "--extension",
        action="append",
        default=[],
        metavar="MODULE",
        help="your module with install(account); repeatable",
    )
    parser.add_argument("--quotas", type=Path, help="file of quotas; without one, those of a new account")
    example = "for example: sh -c 'cdk bootstrap && cdk deploy --all'"
    parser.add_argument("command", nargs="+", metavar="COMMAND", help=example)
    return parser.parse_args(argv)
