. "$TRIALS/lib.sh"
bin=$(echo /usr/lib/postgresql/*/bin)
as=
if [ "$(id -u)" = 0 ]; then
    as="setpriv --reuid=postgres --regid=postgres --clear-groups"
fi
# Whoever the process is when it opens a log of the dynamic linker, both users must be able to write to it.
umask 0
mkdir database
if [ "$as" ]; then
    chown postgres database
fi
$as "$bin/initdb" --pgdata=database --auth=trust --username=me --no-sync >install.log
$as "$bin/postgres" -D "$PWD/database" -c listen_addresses= -c unix_socket_directories="$PWD/database" \
    -c shared_preload_libraries=auto_explain,pg_stat_statements -c max_parallel_workers_per_gather=2 \
    -c min_parallel_table_scan_size=0 -c parallel_setup_cost=0 -c fsync=off 2>log &
server=$!
ask="psql --no-psqlrc --quiet --tuples-only --no-align --host=$PWD/database --username=me postgres"
until_ready $ask --command='select 1'
$ask --set=ON_ERROR_STOP=1 <<'QUERIES'
create extension pgcrypto;
create extension plpython3u;
create extension hstore;
create extension pg_trgm;
create extension ltree;
create extension fuzzystrmatch;
create extension xml2;
create extension pg_stat_statements;
create table words as select n, encode(digest(n::text, 'sha256'), 'hex') as word, hstore('n', n::text) as pairs
    from generate_series(1, 20000) n;
create index on words using gin (word gin_trgm_ops);
select count(*), max(word), sum((pairs -> 'n')::int) from words;
select count(*) from words where word like '%abcd%';
create function lengths(texts text[]) returns text language plpython3u as $$
import hashlib, json
return json.dumps([len(texts), hashlib.sha256("".join(texts).encode()).hexdigest()])
$$;
select lengths(array_agg(word order by n)) from words;
select pgp_sym_decrypt(pgp_sym_encrypt(string_agg(word, '' order by n), 'key'), 'key') = string_agg(word, '' order by n) from words;
select crypt('secret', '$2a$06$abcdefghijklmnopqrstuu');
select levenshtein('reheap', 'preheat'), similarity('allocator', 'alligator'), 'a.b.c'::ltree <@ 'a.b';
select xpath_nodeset('<a><b>1</b><b>2</b></a>', '//b');
select xpath('//b[2]/text()', '<a><b>1</b><b>2</b></a>'::xml);
select count(*) > 5 from pg_stat_statements;
QUERIES
for client in 1 2 3 4 5; do
    $ask --command="select $client, count(*), max(digest(word, 'md5')::text) from words where n % $client = 0" >"client-$client" &
    clients="${clients:-} $!"
done
wait $clients
cat client-*
finish "$server"
grep -c 'terminated by signal' log || true
