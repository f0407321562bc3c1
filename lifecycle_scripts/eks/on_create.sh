#!/bin/bash
# Entry point: HyperPod runs it as root on every new node before the node joins the cluster: at creation, when a
# group grows, when a node is replaced and after a software update. HyperPod copies what this prints to CloudWatch.
set -euo pipefail

# A fake root directory and a shorter wait, for tests.
root=${ROOT:-}
wait_for_logs=${SECONDS_FOR_LOGS:-60}

log=$root/var/log/provision/provisioning.log
# By its path and with bash: files from S3 have no mode, and the working directory is not promised.
main=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/on_create_main.sh

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

say "start"
[[ -f $main ]] || fail "$main is missing: upload the whole folder of lifecycle scripts"
bash "$main" 2>&1 | tee -a "$log" || fail "on_create_main.sh ended with an error, see the lines above"
say "done"
