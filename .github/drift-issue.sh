#!/usr/bin/env bash
# Keep one open issue per environment while it drifts. Usage: drift-issue.sh ENVIRONMENT FILE   (`ops drift -o json`)
set -euo pipefail
environment=$1 file=$2
title="Drift in $environment"

issue=$(gh issue list --state open --label drift --limit 1000 --json number,title |
  jq --raw-output --arg title "$title" '[.[] | select(.title == $title) | .number] | min // empty')
count=$(jq '.drift | length' "$file")
if [ "$count" -eq 0 ]; then
  [ -z "$issue" ] || gh issue close "$issue" --comment "No drift is left."
  exit 0
fi

body=$(mktemp)
trap 'rm -f "$body"' EXIT
{
  printf 'What runs in %s differs from what was deployed. Deploy again, or make the change in its file.\n\n' "$environment"
  # As code: the names and values come from the account. An issue holds 65,536 characters.
  printf '~~~~text\n'
  jq --raw-output '[.drift[] | "\(.kind) \(.name): \(.detail)"] | join("\n") | gsub("~"; "-") | .[0:60000]' "$file"
  printf '~~~~\n'
} > "$body"
if [ -n "$issue" ]; then
  gh issue edit "$issue" --body-file "$body"
else
  gh label create drift --force --description "What runs differs from what was deployed"
  gh issue create --title "$title" --label drift --body-file "$body"
fi
