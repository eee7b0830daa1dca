#!/usr/bin/env bash
# Builds the project. BUILD has the arguments of `cargo reheap build`, quoted as in a shell.
set -euo pipefail

# Runners have Rust, but not its musl target.
reheap doctor --fix rust-target
eval "arguments=($BUILD)"
# shellcheck disable=SC2154 # eval sets it
cargo reheap build "${arguments[@]}"
