#!/bin/sh
# Makes the container of a runner what CI needs: .github/prepare.sh MODE, with a mode of `xtask/prepare`.
#
# Jobs run as root in Debian, because some tests install packages into roots of their own, and that is where
# `xtask/prepare` knows every tool.
set -eu
cd "$(dirname "$0")/.."
# The checkout and the home directory belong to the runner's user. git and reheap trust only files of their own user.
chown --recursive root: . "$HOME"
rustup toolchain install --profile minimal "$RUSTUP_TOOLCHAIN"
xtask/prepare "$@"
