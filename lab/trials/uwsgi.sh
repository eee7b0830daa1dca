. "$TRIALS/lib.sh"
cat >application.py <<'PROGRAM'
import hashlib, json, sqlite3

def application(environment, start_response):
    path = environment["PATH_INFO"]
    database = sqlite3.connect(":memory:")
    database.execute("create table t (n integer, word text)")
    database.executemany("insert into t values (?, ?)", [(n, path * (n % 20)) for n in range(2000)])
    total = database.execute("select sum(length(word)), count(*) from t").fetchone()
    body = json.dumps([path, total, hashlib.sha256(path.encode() * 5000).hexdigest()]) + "\n"
    start_response("200 OK", [("Content-Type", "application/json")])
    return [body.encode()]
PROGRAM
uwsgi --plugin python3 --http-socket "127.0.0.1:$PORT" --wsgi-file application.py --master --processes 2 \
    --threads 3 --max-requests 40 --die-on-term --need-app --logto log 2>/dev/null &
server=$!
url=http://127.0.0.1:$PORT
until_ready curl --silent --fail "$url/"
get="curl --silent --show-error --no-progress-meter"
$get "$url/hello"
$get --parallel --parallel-max 8 --output 'answer-#1' "$url/path-[1-150]"
cat answer-* | sort | sha256sum
finish "$server"
grep -ci 'segmentation fault' log || true
