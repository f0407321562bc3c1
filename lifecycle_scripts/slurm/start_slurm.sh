#!/bin/bash
# Starts munge, and slurmctld or slurmd where HyperPod leaves this to the lifecycle scripts, and checks their health.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

wait_for_slurm=${SECONDS_FOR_SLURM:-120}
wait_for_configuration=60
slurm_conf=${SLURM_CONF:-$root/opt/slurm/etc/slurm.conf}

start_unit() {
  local unit=$1
  systemctl is-active --quiet "$unit" || systemctl enable --now "$unit" || fail "$unit cannot be started:" \
    "$(journalctl --no-pager --lines 5 --unit "$unit" 2>/dev/null | tail -n 1)"
}

check_munge() {
  start_unit munge
  munge -n | unmunge >/dev/null || fail "munge does not decode its own credential." \
    "Fix: compare /etc/munge/munge.key and the clock with those of the controller"
  say "munge answers"
}

# HyperPod's agent writes slurm.conf while this script runs. After a minute the unit itself says what it lacks.
wait_for_slurm_conf() {
  local waited=0
  local addresses=${1//./\\.}
  until grep -Eqs "(^|[^0-9.])(${addresses//,/|})([^0-9.]|$)" "$slurm_conf"; do
    if ((waited >= wait_for_configuration)); then
      say "warning: $slurm_conf names no controller after ${waited}s; slurmctld is started"
      return
    fi
    sleep 5
    waited=$((waited + 5))
  done
}

# slurmd asks the controllers for slurm.conf; login nodes need it for the same reason. One word, without a space: a unit
# may pass "\${SLURMD_OPTIONS}", which systemd does not split.
point_slurmd_at() {
  local controllers=$1
  if write_if_changed "$root/etc/systemd/system/slurmd.service.d/10-controllers.conf" <<UNIT; then
[Service]
Environment="SLURMD_OPTIONS=--conf-server=$controllers"
UNIT
    systemctl daemon-reload
  fi
}

# Waits until the controller answers: a node whose controller is away can run no job.
wait_for_controller() {
  local waited=0
  until scontrol ping >/dev/null 2>&1; do
    ((waited < wait_for_slurm)) \
      || fail "slurmctld does not answer after ${waited}s. Fix: see /var/log/slurm/slurmctld.log on the controller"
    sleep 5
    waited=$((waited + 5))
  done
  say "slurmctld answers"
}

check_munge
way=$(node way)
if [[ $way == api ]]; then
  # HyperPod starts Slurm's daemons itself, and nothing says that it has done so before this script.
  if scontrol ping >/dev/null 2>&1; then
    say "slurmctld answers"
  else
    say "warning: slurmctld does not answer yet; HyperPod starts it"
  fi
  exit 0
fi
role=$(node role)
controllers=$(node controllers)
case $role in
  controller)
    wait_for_slurm_conf "$controllers"
    start_unit slurmctld
    ;;
  *)
    point_slurmd_at "$controllers"
    start_unit slurmd
    ;;
esac
say "this node is a $role node"
wait_for_controller
