. "$TRIALS/lib.sh"
user=
if [ "$(id -u)" = 0 ]; then
    user="-u nobody"
fi
memcached -l 127.0.0.1 -p "$PORT" -m 32 -t 4 $user &
server=$!
cat >client.py <<'PROGRAM'
import hashlib, socket, sys, threading

def client(number, results):
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    file = connection.makefile("rwb")
    stored = 0
    for turn in range(400):
        value = b"v" * ((turn * 37 + number) % 3000)
        file.write(b"set key-%d-%d 0 0 %d\r\n%s\r\n" % (number, turn, len(value), value))
        file.flush()
        stored += file.readline() == b"STORED\r\n"
    digest = hashlib.sha256()
    for turn in range(0, 400, 3):
        file.write(b"get key-%d-%d\r\n" % (number, turn))
        file.flush()
        size = int(file.readline().split()[3])
        digest.update(file.read(size + 2))
        file.readline()
    file.write(b"incr nothing 1\r\nversion\r\n")
    file.flush()
    results[number] = stored, digest.hexdigest(), file.readline().strip().decode()

results = {}
threads = [threading.Thread(target=client, args=(number, results)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for number in range(8): print(number, *results[number])
PROGRAM
until_ready python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$PORT"
python3 client.py "$PORT"
finish "$server"
