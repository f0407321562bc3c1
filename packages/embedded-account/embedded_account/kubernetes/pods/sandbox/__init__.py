"""Pods as the kernel's namespaces: each has its own network, processes, host name and mounts, and no image.

What a container runtime does, without root and without images: a pod sees the files of this machine, with its own
volumes, /tmp/ray and /dev/shm in their places, and finds other pods by address and by the names of their services. So
a pod's commands, probes and ports work as they stand in its manifest, and all that a pod started ends with it. Needed:
Linux with user namespaces for everybody, `ip` (iproute2), `unshare` and `nsenter` (util-linux).

Not isolated: users (everything runs as the rehearsal's own user), the rest of this machine's files, processor and
memory limits, seccomp. The containers of one pod share their mounts. No pod reaches anything outside of the control
plane and its pods.
"""
