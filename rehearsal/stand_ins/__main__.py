"""`python -m rehearsal.stand_ins DIRECTORY`: writes the stand-in charts that `-c charts=stand-in` takes."""

import sys
from pathlib import Path

from embedded_account.kubernetes.building import binaries
from rehearsal import paths, stand_ins


def main(arguments: list[str]) -> int:
    """Write the charts; return the exit status."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        stand_ins.build(Path(arguments[0]), binaries.ensure(paths.BINARIES, lambda line: print(line, file=sys.stderr)))
    except binaries.BinariesError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
