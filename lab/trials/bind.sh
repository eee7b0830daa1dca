. "$TRIALS/lib.sh"
mkdir -p cache
cat >named.conf <<CONFIGURATION
options {
    directory "$PWD/cache";
    listen-on port $PORT { 127.0.0.1; };
    listen-on-v6 { none; };
    pid-file "$PWD/named.pid";
    session-keyfile "$PWD/session.key";
    recursion no;
    dnssec-validation no;
};
controls { };
logging { channel file { file "$PWD/log"; severity info; }; category default { file; }; };
zone "example.org" { type primary; file "$PWD/example.org"; allow-update { 127.0.0.1; }; dnssec-policy default;
    inline-signing yes; key-directory "$PWD/cache"; };
zone "example.net" { type primary; file "$PWD/example.net"; allow-transfer { 127.0.0.1; }; };
CONFIGURATION
zone() {
    printf '$TTL 300\n@ IN SOA ns.%s. admin.%s. 1 3600 600 86400 300\n@ IN NS ns.%s.\nns IN A 127.0.0.1\n' "$1" "$1" "$1"
    seq 1 "$2" | sed "s/.*/host& IN A 10.1.2.3\nhost& IN TXT \"text &\"/"
}
zone example.org 100 >example.org
zone example.net 3000 >example.net
named-checkconf named.conf
named-checkzone -q example.net example.net
named -g -c named.conf -n 4 2>errors &
server=$!
ask="dig @127.0.0.1 -p $PORT +time=20 +tries=3"
until_ready sh -c "$ask +short host1.example.net | grep 10.1.2.3"
$ask +short host7.example.net TXT
$ask +short +tcp host2999.example.net TXT
$ask +noall +comments nothing.example.net | grep -o 'status: [A-Z]*'
$ask +noall +answer +nocookie axfr example.net | sort | sha256sum
seq 1 1500 | sed 's/.*/host&.example.net TXT/' >questions
$ask +short +nocookie -f questions | sort | sha256sum
until_ready sh -c "$ask +dnssec +noall +answer host3.example.org | grep RRSIG"
printf 'server 127.0.0.1 %s\nzone example.net\nsend\n' "$PORT" | nsupdate 2>&1 || true
finish "$server"
grep -c 'assertion failure' errors log || true
