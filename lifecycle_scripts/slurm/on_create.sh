#!/bin/bash
# Entry point: HyperPod runs it as root on every new node of a Slurm cluster: at creation, when a group grows, when a
# node is replaced and after a software update. HyperPod copies what this prints to CloudWatch. Safe to run again.
set -euo pipefail

# A fake root directory and shorter waits, for tests.
root=${ROOT:-}
wait_for_dns=${SECONDS_FOR_DNS:-30}
wait_for_logs=${SECONDS_FOR_LOGS:-60}

log=$root/var/log/provision/provisioning.log
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

mkdir -p "$(dirname "$log")"

say() {
  echo "$(date -u +%FT%TZ) on_create: $*" | tee -a "$log"
}

fail() {
  say "FAILED: $*"
  # HyperPod takes the node away after a failure; without this pause the last lines do not reach CloudWatch.
  sync
  sleep "$wait_for_logs"
  exit 1
}

# Runs one step in a shell of its own: `set -e` has no effect in a function whose result is tested.
step() {
  local script=$1 began=$SECONDS name
  name=$(basename "$script" .sh)
  [[ -f $script ]] || fail "step $name: $script is missing: upload the whole folder of lifecycle scripts"
  say "step $name: start"
  # With bash: files from S3 have no mode.
  bash "$script" 2>&1 | tee -a "$log" \
    || fail "step $name ended with an error after $((SECONDS - began))s, see the lines above"
  say "step $name: done after $((SECONDS - began))s"
}

say "start: the first step follows after ${wait_for_dns}s"
# HyperPod restarts the name service of a new node, as AWS's own on_create.sh says: an answer before that proves nothing.
sleep "$wait_for_dns"
step "$here/mount_fsx.sh"
step "$here/add_users.sh"
step "$here/share_ssh_keys.sh"
step "$here/mount_s3.sh"
step "$here/install_python.sh"
step "$here/install_containers.sh"
# Last: from then on, Slurm gives jobs to the node.
step "$here/start_slurm.sh"
say "done after ${SECONDS}s"
