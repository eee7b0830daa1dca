#!/bin/sh
# Installs reheap with its prebuilt allocators, or removes it. For any POSIX shell, also busybox.
#
#   sh install.sh --from https://example.org/reheap
#   sh install.sh --from https://example.org/reheap --prefix /usr/local
#   sh install.sh --uninstall
#
# `make dist` makes what a server needs: an archive and SHA256SUMS.
#
# Everything is in one function that the last line calls, so a download that breaks off runs nothing.
set -eu

# Where the releases are: https://…/releases. Empty as long as there is none, because anybody could put something at an
# address that has no owner yet.
RELEASES=

usage() {
    cat <<END
Installs reheap, or removes it.

Usage: install.sh --from URL [--prefix DIR]
       install.sh --uninstall [--prefix DIR]

  --from URL         The server, with an archive and SHA256SUMS, which \`make dist\` makes
  --prefix DIR       Where bin/ and share/ are [default: ~/.local]
  --version VERSION  Another release than the latest: 0.1.0
  --uninstall        Remove what was installed, and nothing else
END
    [ -n "$RELEASES" ] || echo "
There is no release of reheap yet, so --from is needed."
}

say() { echo "install.sh: $*" >&2; }

fail() {
    say "$1"
    [ $# -lt 2 ] || printf '\nhint: %s\n' "$2" >&2
    exit "${3:-1}"
}

# Prints what is at the address into a file. Only the tools that a system has anyway.
download() {
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --output "$2" "$1"
    elif command -v wget >/dev/null 2>&1; then
        wget -q -O "$2" "$1"
    else
        fail "there is neither curl nor wget" "install one of them"
    fi || fail "cannot download \`$1\`" "look whether you can reach the address; --from names another server"
}

sum_of() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1" | cut -d' ' -f1
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 "$1" | cut -d' ' -f1
    elif command -v openssl >/dev/null 2>&1; then
        openssl dgst -sha256 "$1" | sed 's/.* //'
    else
        fail "nothing here computes SHA-256" "install coreutils, busybox or openssl"
    fi
}

architecture() {
    [ "$(uname -s)" = Linux ] || fail "reheap is for Linux, and this is $(uname -s)"
    case $(uname -m) in
    x86_64 | amd64) echo x86_64 ;;
    aarch64 | arm64) echo aarch64 ;;
    *) fail "reheap runs on x86-64 and AArch64, and this is $(uname -m)" ;;
    esac
}

# The programs of reheap are static, so they run with any libc. What they preload is there for glibc 2.17 and musl 1.1.24
# and later; so an older one is worth a word.
libc() {
    set -- /lib/ld-musl-*.so.1
    version=$(getconf GNU_LIBC_VERSION 2>/dev/null || true)
    if [ -n "$version" ]; then
        echo "$version"
    elif [ -e "$1" ]; then
        echo musl
    else
        echo "an unknown libc"
    fi
}

warn_of_old_libc() {
    case $1 in
    "glibc 2."[0-9] | "glibc 2."[0-9].* | "glibc 2.1"[0-6] | "glibc 2.1"[0-6].*)
        say "this system has $1; preloads need 2.17 or later" ;;
    esac
}

# `$prefix` holds files of earlier versions, too, if `$list` names them.
remove_listed() {
    while IFS= read -r file; do
        case $file in
        '' | /* | *..*) fail "the list of files in \`$list\` is damaged: \`$file\`" ;;
        esac
        rm -f "$prefix/$file"
    done <"$1"
    # Directories that are empty now; those of others stay.
    sed 's,/[^/]*$,,' "$1" | sort -ru | while IFS= read -r directory; do
        while [ "$directory" != . ] && rmdir "$prefix/$directory" 2>/dev/null; do
            directory=$(dirname "$directory")
        done
    done
}

uninstall() {
    [ -e "$list" ] || fail "nothing of reheap is installed in \`$prefix\`" "name the directory with --prefix"
    if grep -qs reheap /etc/ld.so.preload; then
        fail "an allocator is enabled for this system" "undo that first: $prefix/bin/reheap disable" 1
    fi
    cp "$list" "$scratch/files"
    remove_listed "$scratch/files"
    rm -f "$list"
    rmdir "$prefix/share/reheap" "$prefix/share" 2>/dev/null || true
    caches=~/.cache
    [ "$(id -u)" -ne 0 ] || caches=/var/cache
    say "removed reheap from \`$prefix\`; what it built is in ${XDG_CACHE_HOME:-$caches}/reheap"
}

install() {
    architecture=$(architecture)
    libc=$(libc)
    say "$architecture, $libc"
    warn_of_old_libc "$libc"
    download "$from/SHA256SUMS" "$scratch/SHA256SUMS"
    line=$(grep "  reheap-[^ ]*-$architecture-linux\.tar\.gz\$" "$scratch/SHA256SUMS" | head -n 1)
    [ -n "$line" ] ||
        fail "\`$from/SHA256SUMS\` names no archive for $architecture"
    expected=${line%% *} archive=${line##* }
    say "downloading $archive"
    download "$from/$archive" "$scratch/$archive"
    actual=$(sum_of "$scratch/$archive")
    [ "$actual" = "$expected" ] ||
        fail "\`$archive\` has the SHA-256 $actual, and SHA256SUMS says $expected" "nothing was installed; download it again"
    (cd "$scratch" && gzip -dc "$archive" | tar -xf -) || fail "cannot unpack \`$archive\`"
    tree=$scratch/${archive%.tar.gz}
    "$tree/bin/reheap" --version >/dev/null || fail "the downloaded program does not run here"
    put_in_place
    say "installed $("$prefix/bin/reheap" --version) in \`$prefix\`"
    case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) say "add it to your search path: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
}

# The scratch directory is on the same file system, so each file is renamed: never half there. The list comes first and
# names old and new files, so that an interrupted installation can be removed or repeated. The programs come last.
put_in_place() {
    (cd "$tree" && find . -type f | sed 's,^\./,,' | LC_ALL=C sort) >"$scratch/files"
    grep -v '^bin/' "$scratch/files" >"$scratch/ordered"
    grep '^bin/' "$scratch/files" >>"$scratch/ordered"
    : >"$scratch/old"
    [ ! -e "$list" ] || LC_ALL=C sort -u "$list" >"$scratch/old"
    mkdir -p "$(dirname "$list")"
    LC_ALL=C sort -u "$scratch/old" "$scratch/files" >"$scratch/both"
    mv -f "$scratch/both" "$list"
    while IFS= read -r file; do
        mkdir -p "$(dirname "$prefix/$file")"
        mv -f "$tree/$file" "$prefix/$file"
    done <"$scratch/ordered"
    # What the earlier version had and this one has not; not with `comm`, which some builds of busybox lack.
    grep -vxFf "$scratch/files" "$scratch/old" >"$scratch/gone" || true
    remove_listed "$scratch/gone"
    cp "$scratch/files" "$scratch/list"
    mv -f "$scratch/list" "$list"
    # Directories of an earlier installation may be closed to others.
    chmod -R a+rX "$prefix/share/reheap"
}

main() {
    prefix=${HOME:-}/.local from='' version='' action=install
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix | --version | --from) [ $# -gt 1 ] || fail "$1 needs a value" "--help shows what there is" 2 ;;
        esac
        case $1 in
        --prefix) prefix=$2 && shift ;;
        --version) version=$2 && shift ;;
        --from) from=$2 && shift ;;
        --uninstall) action=uninstall ;;
        -h | --help) usage && exit 0 ;;
        *) fail "there is no \`$1\`" "--help shows what there is" 2 ;;
        esac
        shift
    done
    case $prefix in
    /.local | '') fail "there is no HOME" "name a directory with --prefix" 2 ;;
    /*) ;;
    *) prefix=$PWD/$prefix ;;
    esac
    if [ -z "$from" ] && [ "$action" = install ]; then
        [ -n "$RELEASES" ] || fail "there is no release of reheap yet" \
            "in a clone of reheap: cargo install --locked --path crates/reheap
      or name a server that has what \`make dist\` makes: --from URL"
        from=$RELEASES/latest/download
        [ -z "$version" ] || from=$RELEASES/download/v$version
    fi
    from=${from%/}
    list=$prefix/share/reheap/installed-files
    # What root installs is for everybody, whatever root's umask is.
    umask 022
    [ "$action" = install ] || [ -d "$prefix" ] || fail "there is no \`$prefix\`"
    mkdir -p "$prefix" || fail "cannot make the directory \`$prefix\`" "name another with --prefix"
    scratch=$(mktemp -d "$prefix/.reheap-XXXXXX") || fail "cannot write in \`$prefix\`" "name another with --prefix"
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    $action
}

main "$@"
