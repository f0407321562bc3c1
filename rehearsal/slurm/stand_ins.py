"""Stand for the programs that change a real node, where lifecycle scripts run on a folder; each records its words.

The folder is $ROOT, and the records are its file `asked`.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

COMMON: Final = {
    "apt-get": "exit 0",
    "chown": "exit 0",
    "curl": 'while [[ $# -gt 0 ]]; do [[ $1 != --output ]] || echo fetched >"$2"; shift; done',
    "getent": 'grep -E "^(${2}:|[^:]*:[^:]*:${2}:)" "$ROOT/etc/$1"',
    "gpg": 'echo "[GNUPG:] VALIDSIG AB12 2026-01-01 673FE4061506BB469A0EF857BE397A52B086DA5A"',
    "groupadd": 'echo "$3:x:$2:" >>"$ROOT/etc/group"',
    "journalctl": "echo why the unit failed",
    "lctl": "exit 0",
    "modprobe": "exit 0",
    "mount-s3": "exit 127",
    "sync": "exit 0",
    "useradd": 'echo "${@: -1}:x:$2:$4::$6:/bin/bash" >>"$ROOT/etc/passwd"',
    "usermod": 'sed -i "s#^\\($3:.*:\\)[^:]*:/bin/bash#\\1$2:/bin/bash#" "$ROOT/etc/passwd"',
}
"""The same in each test and rehearsal."""

NODE: Final = {
    "hostname": 'if [[ ${1:-} == -I ]]; then echo "$ADDRESS 172.17.0.1"; else echo "ip-${ADDRESS//./-}"; fi',
    "munge": "echo MUNGE:credential",
    "scontrol": "exit 0",
    "sleep": "exit 0",
    "unmunge": "cat >/dev/null",
}
"""What a folder lacks and a node in namespaces has: an address, a clock that matters, munge and Slurm."""

MOUNTS: Final = {
    # $FILE_SYSTEMS has a folder for each file system of the account. A mount of any other fails, as on AWS.
    "mount": """source=$(awk -v point="$1" '$2 == point { print $1 }' "$ROOT/etc/fstab")
[[ -n $source && -d $FILE_SYSTEMS/${source//\\//_} ]] || { echo "mount: $source: no such file system" >&2; exit 32; }
rmdir "$ROOT$1" && ln -s "$FILE_SYSTEMS/${source//\\//_}" "$ROOT$1" && echo "$1" >>"$ROOT/mounted\"""",
    "mountpoint": 'grep -qxF "${2#"$ROOT"}" "$ROOT/mounted"',
    "systemctl": """unit=${@: -1}
case $1 in
  is-active) [[ -f $ROOT/run/units/$unit ]] || exit 3 ;;
  enable | start | restart)
    [[ $1 != enable || $2 == --now ]] || exit 0
    touch "$ROOT/run/units/$unit"
    service=$ROOT/etc/systemd/system/$unit.service
    [[ $unit != mount-s3 ]] || awk '/^ExecStart=/ { print $NF }' "$service" >>"$ROOT/mounted"
    [[ ! -x ${UNITS:-}/$unit ]] || "$UNITS/$unit" ;;
esac""",
}
"""Mounts and units with a memory: what was mounted is mounted, and what was started runs."""

PYTHON: Final = f"""#!/bin/bash
if [[ $1 == -m ]]; then
  echo "python3 $*" >>"$ROOT/asked"
  mkdir -p "$ROOT/opt/uv/bin"
  cp "$(dirname "$0")/uv" "$ROOT/opt/uv/bin/uv"
  exit "${{PIP_FAILS:-0}}"
fi
exec {sys.executable} -S -E "$@"
"""
"""Python without pip, and without the packages of this machine."""
UV: Final = """#!/bin/bash
echo "uv $*" >>"$ROOT/asked"
[[ $1 != venv ]] || mkdir -p "${@: -1}/bin"
exit "${UV_FAILS:-0}"
"""


def write(folder: Path, bodies: Mapping[str, str]) -> None:
    """Put a stand-in for each program into a folder, and those for Python and uv."""
    texts = {name: recording(name, body) for name, body in bodies.items()}
    write_programs(folder, {**texts, "python3": PYTHON, "uv": UV})


def write_programs(folder: Path, texts: Mapping[str, str]) -> None:
    """Write a program for each name, into a folder that need not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def recording(name: str, body: str) -> str:
    """Return a program that records its words, then does what `body` says."""
    return f'#!/bin/bash\necho "{name} $*" >>"$ROOT/asked"\n{body}\n'
