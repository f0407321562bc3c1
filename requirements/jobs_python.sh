#!/usr/bin/env bash
# Print what `uv venv --python` takes for .venv-jobs: the path of a CPython of the Ray image's version, or the range of
# others that Ray and PyTorch have wheels for. Usage: requirements/jobs_python.sh 3.10
set -euo pipefail
version=$1

while read -r candidate; do
  # A shim of pyenv is in PATH also where it starts nothing.
  if [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ]; then
    printf '%s\n' "$candidate"
    exit
  fi
done < <(
  type -ap "python$version" || true
  ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/"python$version" 2>/dev/null || true
)

what="CPython $version, which the Ray image has, is neither in PATH nor one of pyenv's"
if [ -n "${CI:-}" ]; then
  printf 'setup: %s. Fix: install it\n' "$what" >&2
  exit 1
fi
printf 'setup: %s: the jobs are tested with another one, and what only %s lacks stays unseen\n' "$what" "$version" >&2
printf '>=3.11,<3.13\n'
