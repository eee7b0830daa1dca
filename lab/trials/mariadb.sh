. "$TRIALS/lib.sh"
user="--user=$(id -un)"
mysql_install_db --no-defaults $user --datadir="$PWD/data" --auth-root-authentication-method=normal --skip-test-db >install.log 2>&1
mariadbd --no-defaults $user --datadir="$PWD/data" --socket="$PWD/socket" --skip-networking --pid-file="$PWD/pid" \
    --innodb-buffer-pool-size=32M --innodb-log-file-size=8M >server.log 2>&1 &
server=$!
ask="mariadb --no-defaults --user=root --socket=$PWD/socket"
until_ready $ask --execute 'select 1'
$ask --force 2>&1 <<'QUERIES'
create database trial;
use trial;
create table words (id int primary key auto_increment, word varchar(80), document json, key (word)) engine=innodb;
insert into words (word, document) select sha2(seq, 256), json_object('n', seq, 'text', repeat('t', seq % 50))
    from seq_1_to_8000;
create table copy engine=aria select * from words;
select count(*), sum(json_value(document, '$.n')), max(length(document)) from words;
select left(word, 2) as start, count(*) as n, group_concat(id order by id separator '-') from words
    group by start having n > 40 order by n desc, start limit 3;
select count(*) from words a join copy b on a.word = reverse(reverse(b.word)) where a.id % 3 = 0;
delimiter //
create procedure loops(n int) begin
    declare i int default 0;
    create temporary table t (i int, text longtext);
    while i < n do insert into t values (i, repeat(char(65 + i % 26), i)); set i = i + 1; end while;
    select count(*), sum(length(text)), md5(group_concat(left(text, 3) order by i)) from t;
end//
delimiter ;
call loops(800);
alter table words add column extra int default 5, drop key word;
select regexp_replace(word, '[0-9]+', '#') from words where id in (5, 6);
with recursive n (i) as (select 1 union all select i + 1 from n where i < 500) select sum(i) from n;
check table words, copy;
select * from nothing;
QUERIES
for client in 1 2 3 4 5 6; do
    $ask trial --execute "select $client, count(*), max(word) from words where id % $client = 0" >"client-$client" &
    clients="${clients:-} $!"
done
wait $clients
cat client-*
mariadb-dump --no-defaults --user=root --socket="$PWD/socket" --skip-dump-date --compact trial | sha256sum
finish "$server"
grep -ci 'got signal' server.log || true
