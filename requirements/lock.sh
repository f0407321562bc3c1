#!/usr/bin/env bash
# Locks the dependencies of pyproject.toml and of the Ray image, with hashes; locked versions stay where they can.
# Usage: requirements/lock.sh [--check]   (--check: write nothing; exit 1 when a lock file is stale)
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cp -r --parents requirements.txt requirements ray_image/requirements.txt "$out"
locks=()
running=()

# lock FILE PYTHON TAGS PLATFORMS UV_ARGUMENTS...: for PYTHON and newer ones with these TAGS, on these PLATFORMS; in the
# background, for resolving mostly waits for the index.
lock() {
  local file=$1 python=$2 tags=$3 platforms=$4
  shift 4
  locks+=("$file")
  {
    uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version "$python" "$@" -o "$out/$file"
    if ! cmp -s "$file" "$out/$file"; then trim "$file" "$python" "$tags" "$platforms"; fi
  } &
  running+=($!)
}

# Keep the hashes of source archives and of the wheels that can be installed. uv writes those of all files of a version
# that was not locked before, nine of ten for Windows, other processors and other Pythons.
trim() {
  local file=$1 python=$2 files
  local wheels="-([^-]*py3[^-]*-none|[^-]*cp3[^-]*-abi3|[^-]*($3)[^-]*-(none|$3))-(any|[^-]*($4)[^-]*)\\.whl\"\$"
  files=$out/pylock.$(tr ./ -- <<<"$file").toml
  uv pip compile --quiet --universal --no-deps --python-version "$python" --format pylock.toml "$out/$file" -o "$files"
  grep -oE 'url = "[^"]+"|sha256 = "[0-9a-f]+"' "$files" | paste - - \
    | WHEELS=$wheels awk -F '\t' '$1 !~ /\.whl"$/ || $1 ~ ENVIRON["WHEELS"] {print $2}' | grep -oE '[0-9a-f]{64}' > "$files.kept"
  # An entry is a package's line and the lines of its hashes; all but the last end in a backslash.
  awk 'NR == FNR {kept["--hash=sha256:" $1]; next}
    $1 !~ /^--hash/ || $1 in kept {sub(/ \\$/, ""); printf "%s%s", FNR == 1 ? "" : /^ / ? " \\\n" : "\n", $0}
    END {print ""}' "$files.kept" "$out/$file" > "$files.trimmed"
  mv "$files.trimmed" "$out/$file"
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

linux='manylinux.*x86_64'
anywhere='linux.*(x86_64|aarch64)|macosx' # what synthesis and deployments run on, too
manylinux=(--python-platform x86_64-manylinux_2_31)
lock requirements.txt 3.11 'cp31[1-9]' "$anywhere" --universal pyproject.toml
lock ray_image/requirements.txt 3.10 cp310 "$linux" "${manylinux[@]}" ray_image/requirements.in
finish # the next two must agree with these
lock requirements/dev.txt 3.11 'cp31[1-9]' "$linux" --universal pyproject.toml packages/embedded-account/pyproject.toml --group dev -c "$out/requirements.txt"
# The image's Python: what it takes beyond a newer one's, newer ones can have, too.
lock requirements/jobs.txt 3.10 'cp31[0-2]' "$linux" "${manylinux[@]}" packages/ray-resume/pyproject.toml --group jobs -c "$out/ray_image/requirements.txt"
finish # and so must these with the jobs' lock
lock requirements/mlflow.txt 3.11 'cp31[12]' "$linux" "${manylinux[@]}" --group mlflow -c "$out/requirements/jobs.txt"
lock requirements/hyp.txt 3.11 'cp31[12]' "$linux" "${manylinux[@]}" --group hyp
lock requirements/memory-tier.txt 3.11 'cp31[12]' "$linux" "${manylinux[@]}" --group memory-tier -c "$out/requirements/jobs.txt"
lock requirements/setup.txt 3.11 'cp31[1-9]' "$anywhere" --universal --group setup
lock requirements/policies.txt 3.11 'cp31[1-9]' "$linux" --universal --group policies
finish

stale=()
for file in "${locks[@]}"; do
  cmp -s "$file" "$out/$file" || stale+=("$file")
done
if [ "${1:-}" != --check ]; then
  for file in "${stale[@]}"; do cp "$out/$file" "$file"; done
elif [ ${#stale[@]} -gt 0 ]; then
  printf 'lock: %s is not what its dependencies resolve to. Fix: make lock\n' "${stale[@]}" >&2
  exit 1
fi
