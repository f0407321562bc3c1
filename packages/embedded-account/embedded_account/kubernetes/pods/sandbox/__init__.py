"""Run pods in namespaces of the kernel: each has its own network, processes, host name and mounts, but no image.

This package does the work of a container runtime without root and without images. A pod sees the files of this machine,
with its own volumes, /tmp/ray and /dev/shm mounted over them, and finds other pods by their address and by the names of
their services. A pod's commands, probes and ports therefore work as its manifest declares them, and everything that a
pod started ends with it. Requirements: Linux that allows all users to create user namespaces, `ip` (iproute2),
`unshare` and `nsenter` (util-linux).

Not isolated: users (everything runs as the rehearsal's own user), the rest of this machine's files, processor and
memory limits, seccomp. The containers of one pod share their mounts. No pod reaches anything outside the control plane
and its pods.
"""
