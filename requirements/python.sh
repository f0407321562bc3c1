#!/usr/bin/env bash
# Print the path of the Python for .venv: $PYTHON if it is given, else the first of PATH, unless another is faster.
# Everything the project does is mostly Python, and a Python that was built without profile-guided optimisation, as
# pyenv builds it by default, takes a third more CPU time.
set -euo pipefail

# Prints the CPU time, in microseconds, of a small program of calls, attributes, dictionaries and text.
readonly MEASURED='
import sys, time, ensurepip, venv
if sys.version_info < (3, 11):
    sys.exit("too old")
class Point:
    def __init__(self, x):
        self.x = x
    def named(self):
        return {f"point {self.x}": self.x}
def once():
    began = time.process_time()
    for number in range(50_000):
        Point(number).named()
    return time.process_time() - began
print(int(1e6 * min(once() for _ in range(5))))
'

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

micros() {
  "$1" -c "$MEASURED" 2>/dev/null | grep -x '[0-9]*'
}

if [ -n "${PYTHON:-}" ]; then
  micros "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON is not a Python of 3.11 or newer with venv. Fix: set PYTHON=/path/to/python3.12"
  printf '%s\n' "$PYTHON"
  exit
fi

best='' fastest=0 seen=' '
while read -r candidate; do
  real=$(realpath "$candidate")
  [[ $seen != *" $real "* ]] || continue
  seen+="$real "
  took=$(micros "$candidate") || continue
  # Less than a tenth is noise.
  if [ -z "$best" ] || [ $((took * 10)) -lt $((fastest * 9)) ]; then
    best=$candidate fastest=$took
  fi
done < <(type -ap python3.12 python3.11 python3)
[ -n "$best" ] || fail "Python 3.11 or newer with venv is needed. Fix: install it, or set PYTHON=/path/to/python3.12"
printf '%s\n' "$best"
