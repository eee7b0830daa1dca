. "$TRIALS/lib.sh"
mkdir site
seq 1 60000 >site/numbers.txt
cat >site/script.cgi <<'SCRIPT'
#!/bin/sh
printf 'Content-Type: text/plain\n\nscript says %s\n' "$QUERY_STRING"
SCRIPT
chmod +x site/script.cgi
cat >lighttpd.conf <<CONFIGURATION
server.modules = ("mod_indexfile", "mod_access", "mod_rewrite", "mod_setenv", "mod_expire", "mod_cgi",
    "mod_status", "mod_dirlisting", "mod_staticfile")
server.document-root = "$PWD/site"
server.bind = "127.0.0.1"
server.port = $PORT
server.errorlog = "$PWD/errors"
cgi.assign = (".cgi" => "/bin/sh")
url.rewrite-once = ("^/old\$" => "/numbers.txt")
setenv.add-response-header = ("X-Trial" => "yes")
mimetype.assign = (".txt" => "text/plain")
status.status-url = "/status"
CONFIGURATION
lighttpd -D -f lighttpd.conf &
server=$!
url=http://127.0.0.1:$PORT
until_ready curl --silent --fail "$url/numbers.txt"
get="curl --silent --show-error --no-progress-meter"
for path in numbers.txt old 'script.cgi?a' nothing; do
    echo "$path $($get --compressed "$url/$path" | sha256sum)"
done
$get --compressed --parallel --parallel-max 16 --output "part-#1" "$url/numbers.txt?[1-100]"
$get --compressed --parallel --parallel-max 16 --output "part-cgi-#1" "$url/script.cgi?[1-20]"
cat part-* | sha256sum
$get --output /dev/null --write-out '%{http_code}\n' "$url/status"
$get --range 100-130 "$url/numbers.txt"
finish "$server"
