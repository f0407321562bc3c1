#!/bin/bash
# Mounts the FSx for Lustre file system, or waits until HyperPod has mounted it, and checks that it can be written.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

wait_for_mount=${SECONDS_FOR_MOUNT:-300}

# With the API's way of configuring Slurm, HyperPod mounts the file system of FsxLustreConfig itself.
wait_until_mounted() {
  local waited=0
  until mountpoint -q "$root$mount_point"; do
    ((waited < wait_for_mount)) \
      || fail "$mount_point is not mounted after ${waited}s. Allowed: a group with FsxLustreConfig whose MountPath is" \
        "$mount_point. Fix: compare MOUNT_POINT of options with the group, and open TCP 988 and 1018-1023 to the nodes"
    say "waiting for HyperPod to mount $mount_point"
    sleep 5
    waited=$((waited + 5))
  done
}

# An entry of fstab survives a reboot; flock is what the other steps lock with.
write_fstab() {
  local dns=$1 name=$2 fstab=$root/etc/fstab entry
  entry="$dns@tcp:/$name $mount_point lustre"
  entry+=" noatime,flock,_netdev,x-systemd.automount,x-systemd.requires=network-online.target 0 0"
  touch "$fstab"
  if grep -qxF "$entry" "$fstab"; then
    return
  fi
  { grep -v " $mount_point lustre " "$fstab" || true; echo "$entry"; } >"$fstab.new"
  mv "$fstab.new" "$fstab"
  systemctl daemon-reload
}

# Nothing loads the modules of an image before its first mount.
load_lustre() {
  local command
  for command in "modprobe lnet" "modprobe lustre" "lctl network up"; do
    $command || fail "$command failed. Fix: use HyperPod's image for Slurm, whose kernel has a Lustre client"
  done
}

mount_it() {
  local dns name began=$SECONDS waited=0
  dns=$(node fsx_dns_name)
  name=$(node fsx_mountname)
  [[ -n $dns ]] || fail "provisioning_parameters.json has no fsx_dns_name and no fsx_mountname." \
    "Fix: deploy the storage stack first, then the hyperpod stack"
  mkdir -p "$root$mount_point"
  write_fstab "$dns" "$name"
  load_lustre
  until mountpoint -q "$root$mount_point" || mount "$mount_point"; do
    # An attempt can take minutes itself.
    ((waited < wait_for_mount && SECONDS - began < wait_for_mount)) \
      || fail "$dns cannot be mounted at $mount_point within ${wait_for_mount}s. Fix: open TCP 988 and 1018-1023" \
        "between the nodes and the file system, and keep both in one zone"
    say "$dns is not mounted yet, trying again"
    sleep 5
    waited=$((waited + 5))
  done
}

# A file of this node's own: many nodes do this at the same time.
check_writable() {
  local probe
  probe=$root$mount_point/.probe-$(hostname)
  { touch "$probe" && rm "$probe"; } || fail "$mount_point is mounted, but cannot be written." \
    "Fix: see the file system's lifecycle and its free capacity"
}

mount_point=$(option MOUNT_POINT)
way=$(node way)
if [[ $way == api ]]; then
  wait_until_mounted
else
  mount_it
fi
check_writable
say "$mount_point is mounted and writable"
