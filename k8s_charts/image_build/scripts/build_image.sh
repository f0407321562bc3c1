#!/bin/sh
# Builds the prepared context and pushes it. Runs in BuildKit's rootless image (busybox). Its arguments go to buildctl.
# Environment: IMAGE (with tag), CACHE (image reference), WORK (shared with the preparation and the report).
set -eu

if [ -e "$WORK/done" ]; then
  exit 0
fi

build() {
  mkdir "$WORK/context"
  unzip -q "$WORK/context.zip" -d "$WORK/context"
  buildctl-daemonless.sh build \
    --progress plain \
    --frontend dockerfile.v0 \
    --local "context=$WORK/context" \
    --local "dockerfile=$WORK/context" \
    --opt platform=linux/amd64 \
    --output "type=image,name=$IMAGE,push=true" \
    --import-cache "type=registry,ref=$CACHE" \
    --export-cache "type=registry,ref=$CACHE,mode=max,image-manifest=true,oci-mediatypes=true" \
    "$@"
  touch "$WORK/done"
}

# A container's first process gets no signal that it does not ask for, and a trap waits for what runs in the foreground:
# without both, the grace period would pass before the report is asked to upload the log.
trap 'exit 143' TERM
build "$@" 2>&1 | tee -a "$WORK/log" &
wait "$!"
# The pipeline's own result is that of tee.
[ -e "$WORK/done" ]
