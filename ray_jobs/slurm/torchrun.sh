#!/usr/bin/env bash
# Usage, as the task of each node: ./torchrun.sh SCRIPT [ARGUMENT …]
# Starts a worker for each GPU of this node, or one without GPUs; the workers of all nodes are one group.
set -euo pipefail

# The job's nodes as they are now: SLURM_JOB_NODELIST is stale after HyperPod has replaced one of them.
nodes=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *NodeList=//p')
mapfile -t hosts < <(scontrol show hostnames "$nodes")
rank=""
for index in "${!hosts[@]}"; do
  if [ "${hosts[index]}" = "$SLURMD_NODENAME" ]; then
    rank=$index
  fi
done
if [ -z "$rank" ]; then
  echo "torchrun.sh: $SLURMD_NODENAME is none of the job's nodes ($nodes). Fix: scontrol requeue $SLURM_JOB_ID" >&2
  exit 1
fi

# Slurm itself reaches the node there; its name, such as gpu-compute-1, may be known to Slurm only.
address=$(scontrol show node "${hosts[0]}" | sed -n 's/^ *NodeAddr=\([^ ]*\).*/\1/p')

gpus=$( (nvidia-smi --list-gpus 2>/dev/null || true) | wc -l)
workers=$((gpus > 0 ? gpus : 1))
echo "torchrun.sh: start ${SLURM_RESTART_COUNT:-0}: node $rank of ${#hosts[@]} is $SLURMD_NODENAME, with $workers workers"
exec torchrun --nnodes="${#hosts[@]}" --node-rank="$rank" --nproc-per-node="$workers" \
  --master-addr="$address" --master-port="$((20000 + SLURM_JOB_ID % 10000))" "$@"
