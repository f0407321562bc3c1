#!/usr/bin/env bash
# Locks the dependencies of pyproject.toml and of the Ray image, with hashes; locked versions stay where they can.
# Usage: requirements/lock.sh [--check]   (--check: write nothing; exit 1 when a lock file is stale)
set -euo pipefail
cd "$(dirname "$0")/.."
out=.
if [ "${1:-}" = --check ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
  cp -r --parents requirements.txt requirements ray_image "$out"
fi
locks=()
running=()

# lock FILE UV_ARGUMENTS...: in the background, for resolving mostly waits for the index.
lock() {
  local file=$1
  shift
  locks+=("$file")
  uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --no-header "$@" -o "$out/$file" &
  running+=($!)
}

finish() {
  local each
  for each in "${running[@]}"; do
    wait "$each" || {
      printf 'lock: uv could not resolve the dependencies; its output is above. Without a network: UV_INDEX_URL names a mirror\n' >&2
      exit 1
    }
  done
  running=()
}

universal=(--universal --python-version 3.11)
linux=(--python-platform x86_64-manylinux_2_31)
lock requirements.txt "${universal[@]}" pyproject.toml
# Each set of versions of config/facts/versions.py: its CPython, and what it has instead of the walkthrough's versions.
lock ray_image/requirements.txt "${linux[@]}" --python-version 3.10 ray_image/requirements.in
lock ray_image/fixed/requirements.txt "${linux[@]}" --python-version 3.10 ray_image/requirements.in --override ray_image/fixed/overrides.in
lock ray_image/current/requirements.txt "${linux[@]}" --python-version 3.12 ray_image/requirements.in --override ray_image/current/overrides.in
finish # the next five must agree with these
# others LOCKS...: sets `others` to the options that leave out what these locks have.
others() {
  local lock
  others=()
  for lock in "$@"; do
    mapfile -t -O ${#others[@]} others < <(sed -n 's/^\([^ =]*\)==.*/--no-emit-package=\1/p' "$out/$lock")
    others+=(-c "$out/$lock")
  done
}
others requirements.txt
lock requirements/rehearsal.txt "${universal[@]}" pyproject.toml packages/embedded-account/pyproject.toml --group rehearsal "${others[@]}"
lock requirements/check.txt "${universal[@]}" --group check -c "$out/requirements.txt"
# Beside the image's lock, which the jobs' environments have, too: what only tests need.
jobs() {
  local file=$1 python=$2 image=$3
  shift 3
  others "$image"
  lock "$file" "${linux[@]}" --python-version "$python" packages/ray-resume/pyproject.toml --group jobs "${others[@]}" "$@"
}
jobs requirements/jobs.txt 3.10 ray_image/requirements.txt
jobs requirements/jobs-fixed.txt 3.10 ray_image/fixed/requirements.txt
jobs requirements/jobs-current.txt 3.12 ray_image/current/requirements.txt --override ray_image/current/overrides.in
finish # and so must these with the rehearsal's and the jobs' locks
others requirements.txt requirements/rehearsal.txt
lock requirements/dev.txt "${universal[@]}" pyproject.toml packages/embedded-account/pyproject.toml --group rehearsal --group dev "${others[@]}"
image_and_jobs=(-c "$out/ray_image/requirements.txt" -c "$out/requirements/jobs.txt")
lock requirements/mlflow.txt "${linux[@]}" --python-version 3.11 --group mlflow "${image_and_jobs[@]}"
lock requirements/hyp.txt "${linux[@]}" --python-version 3.11 --group hyp
lock requirements/memory-tier.txt "${linux[@]}" --python-version 3.11 --group memory-tier "${image_and_jobs[@]}"
lock requirements/setup.txt "${universal[@]}" --group setup
lock requirements/policies.txt "${universal[@]}" --group policies
finish

stale=()
for file in "${locks[@]}"; do
  cmp -s "$file" "$out/$file" || stale+=("$file")
done
if [ ${#stale[@]} -gt 0 ]; then
  printf 'lock: %s is not what its dependencies resolve to. Fix: make lock\n' "${stale[@]}" >&2
  exit 1
fi
