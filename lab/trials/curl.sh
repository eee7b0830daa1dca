. "$TRIALS/lib.sh"
mkdir served
seq 1 200000 >served/numbers
gzip --keep served/numbers
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost 2>/dev/null
cat >server.py <<'PROGRAM'
import http.server, os, ssl, sys
os.chdir("served")
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("../cert.pem", "../key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
PROGRAM
python3 server.py "$PORT" 2>/dev/null &
server=$!
url=https://localhost:$PORT
get="curl --silent --show-error --no-progress-meter --cacert cert.pem"
until_ready $get "$url/"
$get "$url/numbers" | sha256sum
$get --parallel --parallel-max 8 --output "part-#1" "$url/numbers?[1-20]"
cat part-* | sha256sum
$get --http1.1 --output /dev/null --write-out '%{http_code} %{size_download} %{ssl_verify_result}\n' "$url/numbers.gz"
$get --output /dev/null --write-out '%{http_code}\n' "$url/nothing"
curl --silent "$url/numbers" || echo "without the certificate: $?"
finish "$server" >ended
