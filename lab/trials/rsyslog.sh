. "$TRIALS/lib.sh"
cat >rsyslog.conf <<CONFIGURATION
global(workDirectory="$PWD" maxMessageSize="8k")
module(load="imuxsock" SysSock.Use="off")
module(load="imtcp")
module(load="mmjsonparse")
input(type="imuxsock" Socket="$PWD/socket" RateLimit.Interval="0")
input(type="imtcp" port="$PORT" address="127.0.0.1")
template(name="short" type="list") { property(name="msg" compressSpace="on") constant(value="|")
    property(name="\$!number") constant(value="\n") }
main_queue(queue.workerThreads="4" queue.workerThreadMinimumMessages="10")
action(type="mmjsonparse")
if \$msg contains "@cee" then { action(type="omfile" file="$PWD/json.log" template="short") stop }
action(type="omfile" file="$PWD/plain.log" template="short")
CONFIGURATION
rsyslogd -n -f rsyslog.conf -i "$PWD/rsyslog.pid" 2>errors &
server=$!
until_ready test -S socket
cat >client.py <<'PROGRAM'
import socket, sys
local = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
local.connect("socket")
for number in range(3000):
    local.send(b"<13>Jan  1 00:00:00 trial: plain %d %s" % (number, b"x" * (number % 500)))
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as remote:
    for number in range(3000):
        remote.send(b'<13>Jan  1 00:00:00 host trial: @cee: {"number": %d, "text": "%s"}\n' % (number, b"y" * (number % 300)))
PROGRAM
until_ready python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$PORT"
python3 client.py "$PORT"
all_there() {
    [ "$(cat plain.log json.log | wc --lines)" -ge 6000 ]
}
until_ready all_there
finish "$server"
for file in plain.log json.log; do
    sort "$file" | sha256sum
done
