#!/bin/bash
# Starts munge, and slurmctld or slurmd where HyperPod leaves this to the lifecycle scripts, and checks their health.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

wait_for_slurm=${SECONDS_FOR_SLURM:-120}

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

# slurmd asks the controllers for slurm.conf; login nodes need it for the same reason.
point_slurmd_at() {
  local controllers=$1
  if write_if_changed "$root/etc/systemd/system/slurmd.service.d/10-controllers.conf" <<UNIT; then
[Service]
Environment="SLURMD_OPTIONS=--conf-server $controllers"
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
case $role in
  controller)
    start_unit slurmctld
    ;;
  *)
    controllers=$(node controllers)
    point_slurmd_at "$controllers"
    start_unit slurmd
    ;;
esac
say "this node is a $role node"
wait_for_controller
