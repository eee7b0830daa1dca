. "$TRIALS/lib.sh"
mkdir -p tree/a/b tree/c copy
for number in $(seq 1 60); do
    seq "$number" 2500 >"tree/a/file-$number"
    ln -s "../a/file-$number" "tree/c/link-$number"
done
seq 1 400000 >tree/a/b/large
digest() {
    (cd "$1" && find . -type f -exec sha256sum {} + | sort | sha256sum)
}
rsync --archive --checksum tree/ copy/
digest copy
cat >rsyncd.conf <<CONFIGURATION
port = $PORT
address = 127.0.0.1
use chroot = no
log file = $PWD/log
pid file = $PWD/rsyncd.pid
[tree]
    path = $PWD/tree
    uid = $(id -u)
    gid = $(id -g)
CONFIGURATION
rsync --daemon --no-detach --config=rsyncd.conf &
server=$!
until_ready rsync "rsync://127.0.0.1:$PORT/"
seq 7 399000 >tree/a/b/large
rm tree/a/file-3
rsync --archive --delete --compress --no-whole-file "rsync://127.0.0.1:$PORT/tree/" copy/
digest copy
rsync --recursive --links --itemize-changes --dry-run --checksum "rsync://127.0.0.1:$PORT/tree/" empty/ | sort | sha256sum
finish "$server"
