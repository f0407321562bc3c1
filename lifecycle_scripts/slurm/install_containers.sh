#!/bin/bash
# Installs Docker, Enroot and Pyxis if the options ask for them. Enroot's and Pyxis' packages lie in containers/ beside
# the scripts: what is uploaded is what is installed.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=$here/containers
volume=/opt/sagemaker
slurm=/opt/slurm/etc

install_docker() {
  [[ -x $root/usr/bin/docker ]] || install_packages docker.io
  systemctl enable --now docker
  if write_if_changed "$root/etc/docker/daemon.json" <<JSON; then
{"data-root": "$data/docker"}
JSON
    systemctl restart docker
  fi
}

install_enroot_and_pyxis() {
  local found=() name
  for name in enroot pyxis; do
    compgen -G "$packages/*$name*.deb" >/dev/null || fail "options CONTAINERS: true is invalid: containers/ has no" \
      "package of $name. Fix: put the .deb files of Enroot and Pyxis into containers/, or write CONTAINERS=false"
  done
  found=("$packages"/*.deb)
  install_packages "${found[@]}"
  mkdir -p "$root/etc/enroot/enroot.conf.d"
  if write_if_changed "$root/etc/enroot/enroot.conf.d/10-cluster.conf" <<CONF; then
ENROOT_CACHE_PATH $data/enroot/cache/\$(id -u)
ENROOT_DATA_PATH $data/enroot/data/\$(id -u)
ENROOT_RUNTIME_PATH /run/enroot/user-\$(id -u)
CONF
    mkdir -p "$root$data/enroot/cache" "$root$data/enroot/data" "$root/run/enroot"
    chmod 1777 "$root$data/enroot/cache" "$root$data/enroot/data" "$root/run/enroot"
  fi
  load_pyxis
}

load_pyxis() {
  local line="include /usr/share/pyxis/pyxis.conf" plugins=$root$slurm/plugstack.conf
  mkdir -p "$(dirname "$plugins")"
  touch "$plugins"
  grep -qxF "$line" "$plugins" || echo "$line" >>"$plugins"
}

wanted=$(option CONTAINERS)
if [[ $wanted != true ]]; then
  say "CONTAINERS of options is false: Docker, Enroot and Pyxis are not installed"
  exit 0
fi
# Images lie on the secondary volume, if the group has one: the root volume is small.
data=/var/lib
! mountpoint -q "$root$volume" || data=$volume
install_docker
install_enroot_and_pyxis
say "Docker, Enroot and Pyxis are installed"
