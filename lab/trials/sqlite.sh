cat >words.c <<'PROGRAM'
#include <sqlite3ext.h>
#include <stdlib.h>
#include <string.h>
SQLITE_EXTENSION_INIT1

/* The text backwards. It is allocated here and freed by SQLite. */
static void backwards(sqlite3_context *context, int count, sqlite3_value **values) {
    (void) count;
    const char *text = (const char *) sqlite3_value_text(values[0]);
    size_t length = text ? strlen(text) : 0;
    char *result = malloc(length + 1);
    for (size_t i = 0; i < length; i++) result[i] = text[length - 1 - i];
    result[length] = 0;
    sqlite3_result_text(context, result, (int) length, free);
}

int sqlite3_words_init(sqlite3 *database, char **error, const sqlite3_api_routines *api) {
    (void) error;
    SQLITE_EXTENSION_INIT2(api);
    return sqlite3_create_function(database, "backwards", 1, SQLITE_UTF8, 0, backwards, 0, 0);
}
PROGRAM
gcc -shared -fPIC -O2 words.c -o words.so
exec sqlite3 :memory: <<'QUERIES'
.load ./words
create table words as with recursive n (i) as (select 1 union all select i + 1 from n where i < 30000)
    select i, printf('%x-%d', i * 7919, i) as word from n;
create index by_word on words (word);
select count(*), max(backwards(word)), sum(length(backwards(word))) from words;
select backwards(backwards(word)) = word, count(*) from words group by 1;
create virtual table texts using fts5 (text);
insert into texts select word || ' number ' || (i % 100) from words;
select count(*) from texts where texts match 'number AND 42';
select json_group_array(word) from (select word from words order by backwards(word) limit 5);
create virtual table boxes using rtree (id, x0, x1);
insert into boxes select i, i % 500, i % 500 + 3 from words;
select count(*) from boxes where x0 > 100 and x1 < 110;
vacuum;
pragma integrity_check;
QUERIES
