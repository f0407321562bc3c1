#!/bin/bash
# Functions that the steps share; every step sources this file.
set -euo pipefail

# A fake root directory, for tests.
root=${ROOT:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
resource_config=${SAGEMAKER_RESOURCE_CONFIG_PATH:-$root/opt/ml/config/resource_config.json}

say() {
  echo "$(date -u +%FT%TZ) $(basename "$0" .sh): $*"
}

fail() {
  say "ERROR: $*"
  exit 1
}

# Prints the value of a key of the file `options`. The file is checked as a whole: a misspelled key must not be ignored.
option() {
  python3 "$here/read_inputs.py" option "$here/options" "$1"
}

# Prints one fact about this node: way, group, role, controllers, fsx_dns_name or fsx_mountname.
node() {
  # shellcheck disable=SC2046  # one word for each address
  python3 "$here/read_inputs.py" node "$resource_config" "$here/provisioning_parameters.json" "$1" $(hostname -I)
}

# Prints the users of users.txt, one per line: NAME UID KEY, where the key may be empty.
users() {
  python3 "$here/read_inputs.py" users "$here/users.txt"
}

# Installs packages; on a new node, apt may still be locked by the updates at its first start.
install_packages() {
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y "$@"
}

# Writes standard input to a file; the result is 1 if the file has this content already.
write_if_changed() {
  local file=$1 content
  content=$(cat)
  [[ ! -f $file || $(<"$file") != "$content" ]] || return 1
  # `set -e` has no effect where the result is tested.
  { mkdir -p "$(dirname "$file")" && printf '%s\n' "$content" >"$file"; } || fail "$file cannot be written"
}
