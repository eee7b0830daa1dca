. "$TRIALS/lib.sh"
mkdir site
seq 1 60000 >site/numbers.txt
cat >answers.lua <<'PROGRAM'
core.register_service("answer", "http", function(applet)
    local words = {}
    for number = 1, 3000 do words[number] = string.rep("w", number % 9) .. number end
    local text = table.concat(words, ",") .. "\n"
    applet:set_status(200)
    applet:start_response()
    applet:send(text)
end)
PROGRAM
cat >server.py <<'PROGRAM'
import functools, http.server, socketserver
class Handler(http.server.SimpleHTTPRequestHandler):
    def address_string(self): return ""
    def log_message(self, *arguments): pass
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
Server("backend", functools.partial(Handler, directory="site")).serve_forever()
PROGRAM
python3 server.py &
backend=$!
cat >haproxy.cfg <<CONFIGURATION
global
    lua-load $PWD/answers.lua
    nbthread 4
    stats socket $PWD/control mode 600 level admin
defaults
    mode http
    timeout connect 30s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:$PORT
    compression algo gzip
    compression type text/plain
    http-request use-service lua.answer if { path /lua }
    http-request set-header X-Trial %[path,sha2(256),hex]
    http-response set-header X-Answer %[res.hdr(Content-Length)]
    default_backend back
backend back
    balance roundrobin
    server one $PWD/backend
    server two $PWD/backend
CONFIGURATION
haproxy -c -f haproxy.cfg
haproxy -db -f haproxy.cfg &
server=$!
url=http://127.0.0.1:$PORT
until_ready curl --silent --fail "$url/numbers.txt"
get="curl --silent --show-error --no-progress-meter"
for path in numbers.txt lua nothing; do
    echo "$path $($get --compressed "$url/$path" | sed 's/[0-9][0-9]:[0-9:]*//' | sha256sum)"
done
$get --compressed --parallel --parallel-max 16 --output "part-#1" "$url/numbers.txt?[1-100]"
$get --compressed --parallel --parallel-max 16 --output "part-lua-#1" "$url/lua?[1-200]"
cat part-* | sha256sum
$get --head "$url/numbers.txt" | grep --ignore-case '^x-answer'
finish "$server"
finish "$backend" >ended
