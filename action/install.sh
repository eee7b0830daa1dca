#!/usr/bin/env bash
# Installs reheap for the steps that follow.
#
# VERSION and FROM may be empty; RUNNER_TEMP and GITHUB_PATH are the runner's.
set -euo pipefail

arguments=(--prefix "$RUNNER_TEMP/reheap")
[ -z "$VERSION" ] || arguments+=(--version "$VERSION")
[ -z "$FROM" ] || arguments+=(--from "$FROM")
sh "$(dirname "$0")/../install.sh" "${arguments[@]}"
echo "$RUNNER_TEMP/reheap/bin" >>"$GITHUB_PATH"
