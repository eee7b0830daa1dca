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

# Writes what is at the address into a file. Only with tools that a system has anyway; they give up on a server that is
# silent.
download() {
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --connect-timeout 20 --speed-limit 1 --speed-time 30 \
            --output "$2" "$1"
    elif command -v wget >/dev/null 2>&1; then
        # GNU's would try twenty times. Busybox's knows neither of these.
        patience=
        ! wget --help 2>&1 | grep -q -e --tries || patience='--tries=3 --timeout=30'
        # shellcheck disable=SC2086 # two words, or none
        wget -q $patience -O "$2" "$1"
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

# The files of a version that have a link in `bin` or `share`. The program finds the others by its own path.
linked_files() {
    (cd "$1" && find bin share -type f ! -path 'share/reheap/*') | LC_ALL=C sort -r
}

# Removes the links to files of a version that lead nowhere now, and the directories that are empty then.
remove_links() {
    linked_files "$1" | while IFS= read -r file; do
        [ -e "$prefix/$file" ] || rm -f "$prefix/$file"
        (cd "$prefix" && rmdir -p "$(dirname "$file")" 2>/dev/null) || true
    done
}

# Removes what an interrupted installation left, and each version except the current one and those that a process has
# mapped: a reheap that runs, or a program with one of its libraries, which may start others with it.
remove_others() {
    current=$(readlink "$versions/current" || true)
    for version in "$versions"/[0-9]*-??????; do
        name=${version##*/}
        if [ ! -d "$version" ] || [ "$name" = "$current" ]; then
            continue
        fi
        remove_links "$version"
        if [ -n "$current" ] && grep -qsF "/share/reheap/$name/" /proc/[0-9]*/maps; then
            say "\`$version\` stays, because a program uses it; the next installation removes it"
        else
            rm -rf "$version"
        fi
    done
    for unfinished in "$versions"/.unfinished-*; do
        [ "$unfinished" = "$scratch" ] || rm -rf "$unfinished"
    done
}

uninstall() {
    set -- "$versions/current" "$versions"/[0-9]*-??????
    [ -L "$1" ] || [ -d "$2" ] ||
        fail "nothing of reheap is installed in \`$prefix\`" "name the directory with --prefix"
    if [ -e /etc/reheap-enabled.json ]; then
        fail "an allocator is enabled for this system" "undo that first: $prefix/bin/reheap disable" 1
    fi
    # Without it all links lead nowhere at once.
    rm -f "$versions/current"
    remove_others
    caches=~/.cache
    [ "$(id -u)" -ne 0 ] || caches=/var/cache
    say "removed reheap from \`$prefix\`; what it built is in ${XDG_CACHE_HOME:-$caches}/reheap"
}

# A package or Cargo put it there, and would neither know nor undo what this does to it.
refuse_program_of_others() {
    program=$prefix/bin/reheap
    case $(readlink "$program" || true) in
    ../share/reheap/current/*) ;;
    *) [ ! -e "$program" ] || fail "\`$program\` was not installed by install.sh" \
        "remove it, or name another place with --prefix" ;;
    esac
}

install() {
    refuse_program_of_others
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
    remove_others
    say "installed $("$prefix/bin/reheap" --version) in \`$prefix\`"
    case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) say "add it to your search path: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
}

# Each version has a directory of its own. The links in `bin` and `share` lead there through another link, `current`, which
# one rename replaces. So an interruption leaves all of the old version or all of the new one, and a reheap that runs
# goes on with its own files. The scratch directory is on the same file system.
put_in_place() {
    version=${archive#reheap-}
    version=${version%"-$architecture-linux.tar.gz"}-${scratch##*-}
    chmod -R a+rX "$tree"
    mv "$tree" "$versions/$version"
    ln -s "$version" "$scratch/current"
    mv -f "$scratch/current" "$versions"
    # The programs come last.
    linked_files "$versions/$version" | while IFS= read -r file; do
        directory=$(dirname "$file")
        target=$(echo "$directory" | sed 's,[^/]*,..,g')/share/reheap/current/$file
        [ "$(readlink "$prefix/$file")" != "$target" ] || continue
        mkdir -p "$prefix/$directory"
        ln -s "$target" "$scratch/link"
        mv -f "$scratch/link" "$prefix/$file"
    done
    tell_enabled
}

# What `enable` copied stays as it was.
tell_enabled() {
    [ ! -e /etc/reheap-enabled.json ] ||
        "$prefix/bin/reheap" status 2>/dev/null | sed -n 's/^note  */install.sh: /p' >&2
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
    prefix=${prefix%/}
    if [ -z "$from" ] && [ "$action" = install ]; then
        [ -n "$RELEASES" ] || fail "there is no release of reheap yet" \
            "in a clone of reheap: cargo install --locked --path crates/reheap
      or name a server that has what \`make dist\` makes: --from URL"
        from=$RELEASES/latest/download
        [ -z "$version" ] || from=$RELEASES/download/v$version
    fi
    from=${from%/}
    versions=$prefix/share/reheap
    # What root installs is for everybody, whatever root's umask is.
    umask 022
    [ "$action" = install ] || [ -d "$versions" ] ||
        fail "nothing of reheap is installed in \`$prefix\`" "name the directory with --prefix"
    mkdir -p "$versions" || fail "cannot make the directory \`$versions\`" "name another place with --prefix"
    scratch=$(mktemp -d "$versions/.unfinished-XXXXXX") ||
        fail "cannot write in \`$versions\`" "name another place with --prefix"
    trap 'rm -rf "$scratch"; rmdir "$versions" "$prefix/share" 2>/dev/null || true' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    $action
}

main "$@"
