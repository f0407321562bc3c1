#!/bin/bash
# HyperPod runs this script as root on each new node of a Slurm cluster.
set -euo pipefail
echo "$(date -u +%FT%TZ) on_create.sh: HyperPod configures Slurm and mounts the file system; nothing else to do"
