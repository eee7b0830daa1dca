#!/usr/bin/env bash
# Builds the project. BUILD has the arguments of `cargo reheap build`, quoted as in a shell.
set -euo pipefail

eval "arguments=($BUILD)"
# shellcheck disable=SC2154 # eval sets it
cargo reheap build "${arguments[@]}"
