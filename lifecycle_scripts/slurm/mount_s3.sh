#!/bin/bash
# Installs Mountpoint for Amazon S3 and mounts the bucket of the options by systemd, on every node.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=1.21.0
# S3 user guide, "Verifying the signature of the Mountpoint for Amazon S3 package".
fingerprint=673FE4061506BB469A0EF857BE397A52B086DA5A
releases=https://s3.amazonaws.com/mountpoint-s3-release

fetch() {
  curl --fail --silent --show-error --retry 3 --max-time 120 --output "$2" "$1" || fail "$1 cannot be fetched." \
    "Fix: allow it, or put mount-s3.deb beside these scripts"
}

# The status line names the key: a valid signature of another key is none.
verify() {
  local folder=$1 status
  gpg --batch --quiet --homedir "$folder" --import "$folder/KEYS"
  status=$(gpg --batch --homedir "$folder" --status-fd 1 --verify "$folder/mount-s3.deb.asc" "$folder/mount-s3.deb" \
    2>/dev/null || true)
  grep -Eq "^\[GNUPG:\] VALIDSIG .*\b$fingerprint\b" <<<"$status" \
    || fail "the signature of Mountpoint's package is not of key $fingerprint: it is not installed." \
      "Fix: report this to AWS"
}

install_mountpoint() {
  local folder machine
  if [[ $(mount-s3 --version 2>/dev/null || true) == "mount-s3 $version"* ]]; then
    return
  fi
  if [[ -f $here/mount-s3.deb ]]; then
    install_packages "$here/mount-s3.deb"
    return
  fi
  machine=$(uname -m)
  [[ $machine != aarch64 ]] || machine=arm64
  folder=$(mktemp -d)
  fetch "$releases/$version/$machine/mount-s3-$version-$machine.deb" "$folder/mount-s3.deb"
  fetch "$releases/$version/$machine/mount-s3-$version-$machine.deb.asc" "$folder/mount-s3.deb.asc"
  fetch "$releases/public_keys/KEYS" "$folder/KEYS"
  verify "$folder"
  install_packages "$folder/mount-s3.deb"
  rm -rf "$folder"
}

# Read-only unless the options say otherwise; objects can never be deleted through the mount.
write_unit() {
  local bucket=$1 mode=--read-only
  [[ $writes != true ]] || mode=--allow-overwrite
  write_if_changed "$root/etc/systemd/system/mount-s3.service" <<UNIT
[Unit]
Description=S3 bucket $bucket at $mount_point
Wants=network-online.target
After=network-online.target

[Service]
Type=forking
ExecStart=/usr/bin/mount-s3 $mode --allow-other $bucket $mount_point
ExecStop=/usr/bin/fusermount -u $mount_point
Restart=on-failure
RestartSec=5

[Install]
WantedBy=multi-user.target
UNIT
}

bucket=$(option S3_BUCKET)
writes=$(option S3_WRITE)
mount_point=$(option S3_MOUNT_POINT)
if [[ -z $bucket ]]; then
  say "S3_BUCKET of options is empty: no bucket is mounted"
  exit 0
fi
install_mountpoint
mkdir -p "$root$mount_point"
if write_unit "$bucket"; then
  systemctl daemon-reload
  systemctl enable mount-s3
  systemctl restart mount-s3 || fail "bucket $bucket cannot be mounted. Fix: let the execution role list and read it," \
    "and see \`journalctl --unit mount-s3\`"
else
  systemctl start mount-s3
fi
mountpoint -q "$root$mount_point" || fail "bucket $bucket is not mounted at $mount_point." \
  "Fix: see \`journalctl --unit mount-s3\`"
say "bucket $bucket is mounted at $mount_point"
