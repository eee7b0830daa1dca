.bail on
PRAGMA journal_mode = OFF;
CREATE TABLE emoji AS
    SELECT json_extract(value, '$.name') AS name, json_extract(value, '$.category') AS category,
           json_extract(value, '$.short_name') AS short, json_extract(value, '$.sort_order') AS place, value
    FROM json_each(readfile('emoji/emoji_pretty.json'));
CREATE TABLE word AS
    SELECT emoji.place AS place, key.value AS word FROM emoji, json_each(emoji.value, '$.short_names') AS key;
CREATE INDEX by_word ON word(word);
CREATE INDEX by_category ON emoji(category, place);
SELECT category, count(*), avg(length(value)), group_concat(short, ' ') FROM emoji GROUP BY category ORDER BY 2 DESC;
CREATE TABLE leaf AS SELECT emoji.place, tree.fullkey, tree.atom FROM emoji, json_tree(emoji.value) AS tree WHERE tree.atom IS NOT NULL;
INSERT INTO leaf SELECT place + 10000 * copy.value, leaf.fullkey, leaf.atom FROM leaf, json_each('[1, 2, 3]') AS copy;
CREATE INDEX by_key ON leaf(fullkey, atom);
SELECT fullkey, count(DISTINCT atom), min(atom), max(atom) FROM leaf GROUP BY fullkey ORDER BY 2 DESC LIMIT 20;
SELECT count(*) FROM leaf a JOIN leaf b ON a.fullkey = b.fullkey AND a.atom = b.atom AND a.place < b.place WHERE a.fullkey LIKE '$.sheet%';
CREATE VIRTUAL TABLE text USING fts5(body);
INSERT INTO text SELECT value FROM emoji;
SELECT count(*) FROM text WHERE text MATCH 'face OR hand';
