"""Lines in which the training library sends the kept output of a run's jobs, and `ops` reads it: both are tested by it.

The second job printed 12 bytes: a line, two bytes that are missing, and a line that is no UTF-8.
"""

import base64
import json
import zlib

_JOBS = (
    ("20261123T100000.000000Z", "train-1", "u-1", None, {0: b"one\r\ntwo\n"}),
    ("20261123T110000.000000Z", "train-2", "u-1", 12, {0: b"begin\n", 8: b"\xff d\n"}),
)

PIECES = {job: pieces for _, job, _, _, pieces in _JOBS}


def _lines() -> list[str]:
    lines = []
    for began, job, series, size, pieces in _JOBS:
        lines.append(json.dumps({"folder": f"output/{began}", "job": job, "series": series, "size": size}))
        lines += [f"{at} {base64.b64encode(zlib.compress(piece)).decode()}" for at, piece in pieces.items()]
    return [*lines, "end of the kept output"]


LINES = _lines()
