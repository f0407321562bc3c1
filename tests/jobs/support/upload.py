"""Pack a folder and upload it as `ops job submit` does; the project's own Python runs this, as on a person's machine.

python -m tests.jobs.support.upload FOLDER PACKAGE UNPACKED

PACKAGE becomes the package that a ConfigMap carries. The output is the command that fetches the folder to UNPACKED.
"""

import sys
from pathlib import Path

import boto3
from rich.console import Console

import config
from config import naming
from ops.jobs.bucket import WorkingDirUpload
from ops.jobs.packing import LargePackage, library, pack


def main() -> None:
    folder, package, unpacked = sys.argv[1:]
    dev, s3 = config.load("dev"), boto3.client("s3")
    s3.create_bucket(Bucket=naming.data_bucket(dev))
    made = pack(Path(folder), ())
    assert isinstance(made, LargePackage)
    upload = WorkingDirUpload(dev, made)
    for _ in range(2):
        upload.run(s3, Console(stderr=True), lambda line: print(line, file=sys.stderr))
    Path(package).write_bytes(library().content)
    print(upload.fetch(unpacked))


if __name__ == "__main__":
    main()
