#!/bin/bash
# Creates the accounts of users.txt with fixed ids, so that files on the shared file system belong to the same person
# on every node, and their home directories on that file system.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

add_account() {
  local name=$1 uid=$2 home=$3 entry owner code=0
  owner=$(getent passwd "$uid" | cut -d: -f1 || true)
  [[ -z $owner || $owner == "$name" ]] || fail "users.txt: uid $uid of $name belongs to account $owner of this node." \
    "Fix: choose another uid"
  if ! entry=$(getent passwd "$name"); then
    getent group "$name" >/dev/null || groupadd --gid "$uid" "$name"
    useradd --uid "$uid" --gid "$uid" --home-dir "$home" --no-create-home --shell /bin/bash "$name"
    say "added account $name with uid $uid"
    return
  fi
  [[ $(cut -d: -f3 <<<"$entry") == "$uid" ]] || fail "users.txt: account $name of this node has uid" \
    "$(cut -d: -f3 <<<"$entry"), not $uid. Fix: write the account's own uid"
  if [[ $(cut -d: -f6 <<<"$entry") != "$home" ]]; then
    usermod --home "$home" "$name" || code=$?
    case $code in
      0) say "moved the home directory of $name to $home" ;;
      # HyperPod's own processes can run as ubuntu when a node starts; AWS's scripts go on, too.
      8) say "warning: $name has a process, so that its home directory stays $(cut -d: -f6 <<<"$entry")." \
        "Fix: end its processes, then run usermod --home $home $name" ;;
      *) fail "the home directory of $name cannot be changed to $home: usermod ended with $code." \
        "Fix: see the line above" ;;
    esac
  fi
}

# Renaming is one act: of several nodes that start together, the first makes the directory, and none sees half of it.
make_home() {
  local name=$1 uid=$2 home=$3 made
  [[ ! -d $home ]] || return 0
  made=$home.new-$(hostname)
  rm -rf "$made"
  mkdir -p "$made"
  [[ ! -d $root/etc/skel ]] || cp -a "$root/etc/skel/." "$made"
  chmod 700 "$made"
  chown -R "$uid:$uid" "$made"
  if mv -T "$made" "$home" 2>/dev/null; then
    say "made the home directory of $name"
  else
    rm -rf "$made"
    [[ -d $home ]] || fail "$home cannot be made"
  fi
}

table=$(users)
homes=$(option MOUNT_POINT)/home
mkdir -p "$root$homes"
while read -r name uid _; do
  [[ -n $name ]] || continue
  add_account "$name" "$uid" "$homes/$name"
  make_home "$name" "$uid" "$root$homes/$name"
done <<<"$table"
say "the accounts of users.txt exist"
