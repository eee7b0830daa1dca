. "$TRIALS/lib.sh"
mkdir -p site/members
seq 1 50000 >site/numbers.txt
echo '<html><!--#set var="name" value="included" --><!--#echo var="name" --></html>' >site/page.shtml
cat >site/script.cgi <<'SCRIPT'
#!/bin/sh
printf 'Content-Type: text/plain\n\nscript says %s\n' "$QUERY_STRING"
SCRIPT
cat >site/answer.lua <<'SCRIPT'
function handle(request)
    local words = {}
    for number = 1, 2000 do words[number] = string.rep("w", number % 9) .. number end
    request:puts(request:sha1(table.concat(words)), " ", request.method, "\n")
    return apache2.OK
end
SCRIPT
chmod +x site/script.cgi
htpasswd -bc members.txt me secret 2>/dev/null
cat >apache.conf <<CONFIGURATION
ServerRoot /usr/lib/apache2
$(for module in mpm_event authn_core authn_file authz_core authz_user auth_basic alias cgid deflate dir env filter \
    headers include lua mime proxy proxy_http rewrite setenvif socache_shmcb status; do
    echo "LoadModule ${module}_module modules/mod_$module.so"
done)
Listen 127.0.0.1:$PORT
ServerName localhost
PidFile $PWD/apache.pid
ErrorLog $PWD/errors
DefaultRuntimeDir $PWD
ScriptSock $PWD/cgi
DocumentRoot $PWD/site
TypesConfig /etc/mime.types
MaxRequestWorkers 64
StartServers 2
ThreadsPerChild 8
AddHandler cgi-script .cgi
AddHandler lua-script .lua
AddType text/html .shtml
AddOutputFilter INCLUDES .shtml
SetOutputFilter DEFLATE
Header set X-Trial yes
<Directory $PWD/site>
    Options +ExecCGI +Includes
    Require all granted
    RewriteEngine on
    RewriteRule ^old\$ numbers.txt
</Directory>
<Directory $PWD/site/members>
    AuthType Basic
    AuthName members
    AuthUserFile $PWD/members.txt
    Require valid-user
</Directory>
<Location /status>
    SetHandler server-status
</Location>
ProxyPass /again/ http://127.0.0.1:$PORT/
CONFIGURATION
echo member >site/members/page.txt
if [ "$(id -u)" = 0 ]; then
    echo "User www-data" >>apache.conf
fi
apache2 -f "$PWD/apache.conf" -D FOREGROUND &
server=$!
url=http://127.0.0.1:$PORT
until_ready curl --silent --fail "$url/numbers.txt"
get="curl --silent --show-error"
for path in numbers.txt old page.shtml 'script.cgi?a' answer.lua members/page.txt again/old 'again/script.cgi?b' nothing; do
    echo "$path $($get --compressed "$url/$path" | sha256sum)"
done
$get --user me:secret "$url/members/page.txt"
$get "$url/script.cgi?c"
$get "$url/answer.lua"
$get --no-progress-meter --compressed --parallel --parallel-max 16 --output "part-#1" "$url/numbers.txt?[1-60]"
$get --no-progress-meter --parallel --parallel-max 16 --output "part-lua-#1" "$url/answer.lua?[1-60]"
cat part-* | sha256sum
$get --output /dev/null --write-out '%{http_code}\n' "$url/status"
apache2 -f "$PWD/apache.conf" -k graceful
until_ready grep --quiet 'resuming normal operations.*\|AH00493' errors
$get --compressed "$url/old" | sha256sum
finish "$server"
grep -c 'exit signal' errors || true
