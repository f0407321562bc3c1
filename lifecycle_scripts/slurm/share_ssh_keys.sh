#!/bin/bash
# Lets each user of users.txt reach every node by ssh without a password (DeepSpeed needs it), and with the public key
# of the table from outside. The key pair is made on the cluster and never leaves the user's home directory.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

append_line() {
  local line=$1 file=$2
  touch "$file"
  if grep -qxF "$line" "$file"; then
    return
  fi
  # A last line without its end would join the new one.
  [[ ! -s $file || -z $(tail -c 1 "$file") ]] || echo >>"$file"
  echo "$line" >>"$file"
}

share() {
  local name=$1 uid=$2 key=$3 folder=$4
  mkdir -p "$folder"
  if [[ ! -f $folder/id_ed25519 ]]; then
    ssh-keygen -q -t ed25519 -N "" -C "$name@cluster" -f "$folder/id_ed25519"
    say "made the key pair of $name"
  fi
  append_line "$(<"$folder/id_ed25519.pub")" "$folder/authorized_keys"
  [[ -z $key ]] || append_line "$key" "$folder/authorized_keys"
  chmod 700 "$folder"
  chmod 600 "$folder/id_ed25519" "$folder/authorized_keys"
  chown -R "$uid:$uid" "$folder"
}

table=$(users)
homes=$(option MOUNT_POINT)/home
# One node at a time: two nodes must not make two key pairs.
exec 9>"$root$homes/.ssh-keys.lock"
flock -w 300 9 || fail "another node holds $homes/.ssh-keys.lock for more than 300s. Fix: replace that node"
while read -r name uid key; do
  [[ -n $name ]] || continue
  share "$name" "$uid" "$key" "$root$homes/$name/.ssh"
done <<<"$table"
# A replaced node keeps its name and gets new host keys: a recorded key would end each connection to it. Names are
# ip-ADDRESS or of another form without a dot, such as gpu-compute-1: Slurm knows them, if its controller answers.
if write_if_changed "$root/etc/ssh/ssh_config.d/10-cluster.conf" <<'CONF'; then
Host ip-*
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
Match host !ip-*,!*.*,!*:*,* exec "PATH=/opt/slurm/bin:$PATH timeout 5 scontrol show node %h >/dev/null 2>&1"
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
CONF
  say "nodes trust each other's host keys"
fi
