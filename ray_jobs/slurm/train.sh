#!/usr/bin/env bash
# Usage, in a batch script: ./train.sh SCRIPT [ARGUMENT …]
# Runs a training on all nodes of the job, and requeues the job if it fails: Slurm itself requeues a job only when a
# node is lost. After MAX_FAILURES (3) more failures the job ends. Nodes may be lost any number of times.
set -euo pipefail

# The run has the job's name: a new job of the same name resumes it.
export RUN_NAME="${RUN_NAME:-$SLURM_JOB_NAME}"

options=(--ntasks-per-node=1 --kill-on-bad-exit=1)
# HyperPod's plugin for srun: after it has replaced a faulty node, it runs this step again.
if [[ $(srun --help 2>&1) == *--auto-resume* ]]; then
  options+=(--auto-resume=1)
fi

code=0
srun "${options[@]}" ./torchrun.sh "$@" || code=$?
if [ "$code" -eq 0 ]; then
  exit 0
fi

failures="failures-$SLURM_JOB_ID"
echo "start ${SLURM_RESTART_COUNT:-0} ended with $code" >>"$failures"
if [ "$(wc -l <"$failures")" -le "${MAX_FAILURES:-3}" ]; then
  echo "train.sh: the training failed: the job is requeued"
  scontrol requeue "$SLURM_JOB_ID"
  # Slurm ends this script; its own end would be the end of the job.
  sleep 600
fi
echo "train.sh: the training failed too often; fix the cause and submit the job again"
exit "$code"
