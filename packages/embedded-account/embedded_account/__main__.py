"""Serve the embedded AWS account: `python -m embedded_account run -- COMMAND`."""

import gc
import os
import sys
from typing import Final

_USAGE: Final = """usage: python -m embedded_account run [OPTION]… -- COMMAND…
       python -m embedded_account serve OPTION…

run    serve an account for the length of a command (run --help)
serve  be the account's process, until SIGTERM or SIGINT (serve --help)"""


def main() -> int:
    """Run what the first argument names; return the exit code."""
    verb, *arguments = sys.argv[1:] or [""]
    if verb == "serve":
        # Nearly all objects loaded here live as long as the process. Collecting garbage meanwhile takes half of the
        # start-up time.
        gc.disable()
        from embedded_account import server  # noqa: PLC0415 - not before

        code = server.main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        # All is stopped, closed and written. Python would take a second of processor time to free what is left.
        os._exit(code)
    if verb == "run":
        from embedded_account import command_line  # noqa: PLC0415 - the account's process does not need it

        return command_line.main(arguments)
    print(_USAGE, file=sys.stdout if verb in ("-h", "--help") else sys.stderr)
    return 0 if verb in ("-h", "--help") else 2


if __name__ == "__main__":
    sys.exit(main())
