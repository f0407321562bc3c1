"""Give directories to a user: `own_directory.py UID GID DIRECTORY...`.

It makes those that are missing, and leaves alone what is in them. Standard library only: it runs in the
controllers' plain Python image, as root without any right but that to change owners.
"""

import os
import sys
from pathlib import Path


def main(uid: str, gid: str, *directories: str) -> None:
    """Raise OSError when the file system refuses."""
    for directory in directories:
        Path(directory).mkdir(parents=True, exist_ok=True)
        os.chown(directory, int(uid), int(gid))
        print(f"{directory} belongs to {uid}:{gid}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"{error}: root must be able to make this directory and to give it away")
