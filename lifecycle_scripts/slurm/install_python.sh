#!/bin/bash
# Makes one Python environment for all nodes on the shared file system, from requirements.txt beside the scripts. The
# directory is named after the file's content: a changed file makes a new environment, and running jobs keep theirs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

requirements=$here/requirements.txt
tools=$root/opt/uv

install_uv() {
  [[ ! -x $tools/bin/uv ]] || return 0
  python3 -m pip install --quiet --no-deps --require-hashes --target "$tools" --requirement "$here/uv.txt" \
    || fail "uv cannot be installed. Fix: let the nodes reach the package index, or set PIP_INDEX_URL in /etc/pip.conf"
}

# The environment is complete when its mark exists; one without the mark was interrupted.
make_environment() {
  local made=$1
  install_uv
  rm -rf "$made"
  "$tools/bin/uv" venv --quiet --python /usr/bin/python3 "$made"
  "$tools/bin/uv" pip install --quiet --require-hashes --python "$made/bin/python" --requirement "$requirements" \
    || fail "requirements.txt cannot be installed. Allowed: every requirement with a version and a hash." \
      "Fix: see the lines above, and write the file with \`uv pip compile --generate-hashes\`"
  touch "$made/.complete"
}

if [[ ! -f $requirements ]]; then
  say "there is no requirements.txt beside the scripts: no shared environment is made"
  exit 0
fi
folder=$(option MOUNT_POINT)/python
digest=$(sha256sum "$requirements" | cut -c1-12)
mkdir -p "$root$folder"
exec 9>"$root$folder/.lock"
flock -w 1800 9 || fail "another node holds $folder/.lock for more than 1800s. Fix: replace that node"
if [[ -f $root$folder/$digest/.complete ]]; then
  say "environment $folder/$digest exists"
else
  make_environment "$root$folder/$digest"
  say "made environment $folder/$digest"
fi
ln -sfn "$digest" "$root$folder/current"
say "activate it with: source $folder/current/bin/activate"
