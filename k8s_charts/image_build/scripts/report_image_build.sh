#!/bin/bash
# Waits beside the image build. When the pod ends without an image, it puts the end of the log where `ops wait` finds
# it. Runs in the AWS CLI's image, as a sidecar: Kubernetes ends it after the build, whatever ended that.
# Environment: LOG (s3://bucket/key), WORK (shared with the preparation and the build).
set -euo pipefail

report() {
  if [ ! -e "$WORK/done" ]; then
    tail -n 200 "$WORK/log" | aws s3 cp --no-progress - "$LOG"
  fi
  exit 0
}

trap report TERM
# A trap waits for what runs in the foreground.
sleep infinity &
wait
