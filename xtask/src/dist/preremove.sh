#!/bin/sh
# Takes off what `reheap enable` did before the package goes: nothing else could undo it, and nobody would update it.
case "$1" in
    # An upgrade, in the words of dpkg; and of rpm, which counts the versions that stay.
    upgrade | failed-upgrade | deconfigure | [1-9]) exit 0 ;;
esac
[ -x /usr/bin/reheap ] || exit 0
if said=$(/usr/bin/reheap disable 2>&1); then
    [ "$said" = "reheap: nothing is enabled" ] || echo "$said"
    exit 0
fi
echo "$said" >&2
echo "reheap: the package stays, because an allocator is enabled on this system and only reheap can disable it" >&2
exit 1
