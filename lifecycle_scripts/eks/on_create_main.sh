#!/bin/bash
# Moves the data of containerd and kubelet (images, emptyDir volumes, logs) from the 100 GB root volume to the node's
# secondary EBS volume, which HyperPod mounts at /opt/sagemaker, and prepares the Lustre client. Amazon Linux 2023. Safe
# to run again.
set -euo pipefail

# A fake root directory and a shorter wait, for tests.
root=${ROOT:-}
wait_for_volume=${SECONDS_FOR_VOLUME:-120}

volume=/opt/sagemaker
containerd_data=$volume/containerd/data-root
containerd_config=$volume/containerd/config.toml
containerd_override=/etc/systemd/system/containerd.service.d/10-data-on-volume.conf
kubelet_data=$volume/kubelet
nvidia_runtime=/usr/bin/nvidia-container-runtime

# The deployment puts it beside this script where the file system takes EFA: FSX_EFA=true.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
settings=$here/settings
efa_client=configure-efa-fsx-lustre-client

say() {
  echo "$(date -u +%FT%TZ) on_create_main: $*"
}

fail() {
  say "ERROR: $*"
  exit 1
}

require_amazon_linux_2023() {
  local id version
  # shellcheck disable=SC1091  # the node's own file
  read -r id version < <(. "$root/etc/os-release" && echo "$ID $VERSION_ID")
  [[ $id == amzn && $version == 2023* ]] || fail "this is $id $version; these scripts know Amazon Linux 2023 only"
}

wait_until_mounted() {
  local waited=0
  until mountpoint -q "$root$volume"; do
    ((waited < wait_for_volume)) \
      || fail "$volume is not mounted after ${waited}s: has the instance group an EbsVolumeConfig?"
    say "waiting for $volume"
    sleep 5
    waited=$((waited + 5))
  done
  say "$volume is mounted"
}

# Prints "nvidia" where there is a GPU to give to containers, else "runc". AWS's own script makes nvidia the default
# on every node; on a node without a GPU, containers of CUDA images then fail to start.
default_runtime() {
  local device
  [[ -x $root$nvidia_runtime ]] || { echo runc; return; }
  for device in "$root"/sys/bus/pci/devices/*; do
    # PCI vendor 0x10de is NVIDIA, class 0x03 a display controller.
    if [[ -f $device/vendor && $(<"$device/vendor") == 0x10de && $(<"$device/class") == 0x03* ]]; then
      echo nvidia
      return
    fi
  done
  echo runc
}

write_containerd_config() {
  local runtime=$1
  mkdir -p "$root$volume/containerd"
  cat >"$root$containerd_config" <<TOML
version = 2
root = "$containerd_data"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/kubernetes/pause"
enable_cdi = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "/etc/containerd/certs.d:/etc/docker/certs.d"

[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "$runtime"
discard_unpacked_layers = true

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.$runtime]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "/etc/containerd/base-runtime-spec.json"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.$runtime.options]
SystemdCgroup = true
TOML
  if [[ $runtime == nvidia ]]; then
    echo "BinaryName = \"$nvidia_runtime\"" >>"$root$containerd_config"
  fi
}

# A drop-in that names the file: nodeadm writes /etc/containerd/config.toml again when the node joins.
point_containerd_at_config() {
  mkdir -p "$(dirname "$root$containerd_override")"
  cat >"$root$containerd_override" <<UNIT
[Service]
ExecStart=
ExecStart=/usr/bin/containerd --config $containerd_config
UNIT
  systemctl daemon-reload
}

relocate_containerd() {
  if [[ -f $root$containerd_override ]]; then
    say "containerd is relocated already"
    return
  fi
  # The volume outlives a software update, which makes a new root volume: what lies there belongs to the old system.
  rm -rf "$root$containerd_data"
  local runtime
  runtime=$(default_runtime)
  write_containerd_config "$runtime"
  # The AMI's pre-pulled images, the pause image among them, come along.
  if [[ -d $root/var/lib/containerd ]]; then
    cp -a "$root/var/lib/containerd" "$root$containerd_data"
  else
    mkdir -p "$root$containerd_data"
  fi
  # Last, so that a run that ended before this is repeated in full.
  point_containerd_at_config
  say "containerd data lies in $containerd_data, the default runtime is $runtime"
}

relocate_kubelet() {
  local kubelet=$root/var/lib/kubelet
  if [[ -L $kubelet ]]; then
    say "kubelet is relocated already"
    return
  fi
  # A run that ended between the two steps below.
  [[ ! -d $kubelet.before ]] || mv -T "$kubelet.before" "$kubelet"
  rm -rf "$root$kubelet_data"
  mkdir -p "$kubelet"
  cp -a "$kubelet" "$root$kubelet_data"
  mv -T "$kubelet" "$kubelet.before"
  ln -s "$kubelet_data" "$kubelet"
  rm -rf "$kubelet.before"
  say "kubelet data lies in $kubelet_data"
}

# Prints where AWS's setup of the Lustre client for EFA lies: in newer AMIs, in a copy beside this script, or fetched now
# (FSx user guide, "Configuring EFA clients").
find_efa_setup() {
  local directory
  for directory in "$root/etc/eks/$efa_client" "$here/$efa_client" "$root/opt/$efa_client"; do
    [[ ! -f $directory/setup.sh ]] || { echo "$directory/setup.sh"; return; }
  done
  local archive=$root/opt/$efa_client.zip
  curl --fail --silent --show-error --retry 2 --max-time 60 --output "$archive" \
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/samples/$efa_client.zip" >&2 || return
  unzip -q -o -d "$root/opt" "$archive" >&2 || return
  echo "$root/opt/$efa_client/setup.sh"
}

# Must come before the Lustre modules: they read their CPU partitions, one per EFA interface, when they are loaded.
# Without EFA the same file system is reached by TCP, which is slower and no reason to lose a node.
configure_lustre_efa() {
  grep -qsx 'FSX_EFA=true' "$settings" || return 0
  if ! compgen -G "$root/sys/class/infiniband/*" >/dev/null; then
    say "this node has no EFA interface: Lustre uses TCP"
    return
  fi
  local setup
  if setup=$(find_efa_setup) && bash "$setup"; then
    say "Lustre uses EFA, set up by $setup"
  else
    say "warning: EFA could not be set up for Lustre, it uses TCP"
  fi
}

# FSx for Lustre volumes mount with the kernel's client; an instance type without it has no such volume to mount.
load_lustre() {
  local module
  for module in lnet lustre; do
    modprobe "$module" || say "warning: kernel module $module could not be loaded"
  done
}

# Runs the given functions while containerd and kubelet are stopped, and starts again those that ran.
while_stopped() {
  local unit step running=()
  for unit in kubelet containerd; do
    if systemctl is-active --quiet "$unit"; then
      running=("$unit" "${running[@]}")
      systemctl stop "$unit"
    fi
  done
  for step in "$@"; do
    "$step"
  done
  for unit in "${running[@]}"; do
    systemctl start "$unit"
  done
}

say "start"
require_amazon_linux_2023
wait_until_mounted
while_stopped relocate_containerd relocate_kubelet
configure_lustre_efa
load_lustre
say "done"
