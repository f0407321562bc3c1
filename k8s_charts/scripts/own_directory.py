"""Give a directory to a user: `own_directory.py DIRECTORY UID GID`.

It makes the directory if it is missing, and leaves alone what is in it. Standard library only: it runs in the
controllers' plain Python image, as root without any right but that to change owners.
"""

import os
import sys
from pathlib import Path


def main(directory: str, uid: str, gid: str) -> None:
    """Raise OSError when the file system refuses."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    os.chown(directory, int(uid), int(gid))
    print(f"{directory} belongs to {uid}:{gid}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"{error}: root must be able to make this directory and to give it away")
