#!/bin/bash
# Fetches what the image build needs, or notes that there is nothing to build. Runs in the AWS CLI's image.
# Environment: REGISTRY, REPOSITORY, TAG, CONTEXT (s3://bucket/key of a zip file), WORK (shared with the build).
set -euo pipefail

prepare() {
  if aws ecr describe-images --repository-name "$REPOSITORY" --image-ids "imageTag=$TAG" \
    >/dev/null 2>"$WORK/error"; then
    echo "$REPOSITORY:$TAG is in the registry: nothing to build"
    touch "$WORK/done"
    return
  fi
  if ! grep -q ImageNotFoundException "$WORK/error"; then
    cat "$WORK/error"
    return 1
  fi

  aws s3 cp --no-progress "$CONTEXT" "$WORK/context.zip"

  # BuildKit knows no IAM roles for service accounts (moby/buildkit#3947): it gets a password that lasts 12 hours.
  mkdir -p "$WORK/docker"
  auth=$(printf 'AWS:%s' "$(aws ecr get-login-password)" | base64 -w 0)
  (umask 077 && printf '{"auths": {"%s": {"auth": "%s"}}}\n' "$REGISTRY" "$auth" >"$WORK/docker/config.json")
}

prepare 2>&1 | tee "$WORK/log"
