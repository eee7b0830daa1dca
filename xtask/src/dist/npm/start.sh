#!/bin/sh
# Becomes the program for this machine, which is in a package of its own.
#
# Not JavaScript: a shell becomes another program, so the number of the process, signals and exit codes are the program's.
# npm, pnpm and others differ in where they put that package: beside this one, or into it.
set -eu

fail() {
    printf 'reheap: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '\nhint: %s\n' "$2" >&2
    exit 1
}

machine=$(uname -s -m)
case $machine in
"Linux x86_64") package=@reheap/linux-x64 ;;
"Linux aarch64") package=@reheap/linux-arm64 ;;
*) fail "cannot run on this machine: reheap is for Linux on x86-64 and AArch64, and this is $machine" ;;
esac
self=$(readlink -f "$0")
for packages in "${self%/*/*/*}" "${self%/*/*}/node_modules"; do
    program=$packages/$package/bin/${self##*/}
    [ ! -x "$program" ] || exec "$program" "$@"
done
fail "cannot find the package \`$package\`, which has the program" "npm install --include=optional reheap"
