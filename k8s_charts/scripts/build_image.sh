#!/bin/sh
# Builds the prepared context and pushes it. Runs in BuildKit's rootless image (busybox).
# Environment: IMAGE (with tag), CACHE (image reference), BASE_IMAGE, WORK (shared with the preparation).
set -eu

if [ -e "$WORK/exists" ]; then
  exit 0
fi
mkdir "$WORK/context"
unzip -q "$WORK/context.zip" -d "$WORK/context"

exec buildctl-daemonless.sh build \
  --progress plain \
  --frontend dockerfile.v0 \
  --local "context=$WORK/context" \
  --local "dockerfile=$WORK/context" \
  --opt "build-arg:BASE_IMAGE=$BASE_IMAGE" \
  --opt platform=linux/amd64 \
  --output "type=image,name=$IMAGE,push=true" \
  --import-cache "type=registry,ref=$CACHE" \
  --export-cache "type=registry,ref=$CACHE,mode=max,image-manifest=true,oci-mediatypes=true"
