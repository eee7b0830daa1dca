#!/bin/sh
# An upgrade leaves the library that `reheap enable` copied as it is. Whoever upgrades should know.
[ -e /etc/reheap-enabled.json ] || exit 0
/usr/bin/reheap status 2>/dev/null | sed -n 's/^note  */reheap: /p'
exit 0
