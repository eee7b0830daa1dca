# One life of a Redis server: it starts, serves, and is told to end. Debian's is linked with jemalloc; here it gets its
# malloc from glibc, unless a preload is in front.
export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}libc.so.6"
redis-server --port 7778 --save '' --appendonly no > /dev/null &
server=$!
until redis-cli -p 7778 ping > /dev/null 2>&1; do
    kill -0 "$server" || exit 1
done
redis-benchmark -p 7778 -t set,get,lpush,hset -n 200000 -r 100000 -d 256 -P 16 -q > /dev/null
redis-cli -p 7778 shutdown nosave
wait "$server"
