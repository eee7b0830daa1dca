# What grafted programs work on, written into the current directory: a project with a bit of everything, and its history.
# `tool` runs the program, and prints its exit code too.
tool() {
  "$TOOL" "$@" && echo "exit code 0" || echo "exit code $?"
}

mkdir -p src app/src docs packages/one packages/two

cat > src/main.py <<'EOF'
import os, sys
def recieve(adress):
    # teh length of the adress
    lenght = len(adress)
    return {"lenght": lenght, "occured": True}
print(recieve(sys.argv[0:0]))
EOF
cat > src/run.sh <<'EOF'
#!/bin/sh
for f in $(ls *.txt); do
  cp $f "$1/backup"
  [ $? == 0 ] && echo copied $f
done
cd $1; rm -rf *
EOF
cat > src/style.ts <<'EOF'
export class   Point<T extends number>{ constructor(public x:T,private readonly y:T){}
 async distance( other:Point<T> ):Promise<number>{ const dx=this.x-other.x, dy=this.y-other.y
 return Math.sqrt(dx**2+dy**2) } }
const table={a:1,'b':[1,2,3,{c:`x${1+1}`}],d:(x:number)=>x*2}; export default table
EOF
cat > src/solve.f90 <<'EOF'
program solve
  integer i, n
  real*8 a(100), b(100)
  n = 100
  do 10 i = 1, n
    a(i) = i ** 2
    b(i) = sqrt(a(i))
10 continue
  if (n .gt. 10) goto 20
  print *, sum(b)
20 end
EOF
cat > src/Main.elm <<'EOF'
module Main exposing (..)
import Html exposing (text,div,Html)
import List
type Msg=Up|Down|Set Int
update : Msg->Int->Int
update msg model=case msg of
    Up->model+1
    Down->model-1
    Set n->n
view model=div [] (List.map (\n->text (String.fromInt n)) [1,2,model])
EOF
cat > src/report.nu <<'EOF'
open data.json | where size > 8 | sort-by size | select name size | to csv | print
ls src | get name | sort | str join "," | print
open settings.toml | to yaml | print
1..20000 | par-each {|number| $number * 2 } | math sum | print
{name: "one", list: [1 2 3]} | to json | print
EOF
cat > src/shop.chil <<'EOF'
let prices = [1, 2, 3]
EOF
cat > src/graph.dot <<'EOF'
digraph build { rankdir=LR; node [shape=box];
  subgraph cluster_a { label="sources"; main; parser; lexer; }
  main -> parser -> lexer; main -> { graphs layout render } [style=dashed];
  parser -> render [label="trees"]; layout -> render; graphs -> layout; lexer -> main [constraint=false];
}
EOF
cat > docs/guide.mdx <<'EOF'
# A Guide To Everything in the World

Click [here](https://example.com/a) to  read more.  This is simply a very easy example, obviously.

* one
* two
    * three

| name | value |
|---|--:|
| a | 1 |
| longer name | 22222 |

```js
const x = 1
```
EOF
cp docs/guide.mdx docs/guide.md
cat > Dockerfile <<'EOF'
FROM debian:latest
MAINTAINER somebody
RUN apt-get update && apt-get install python3 curl
RUN cd /tmp && curl http://example.com/x | sh
ADD app /app
CMD python3 /app/main.py
EOF
cat > justfile <<'EOF'
version := `echo 1.2.3`
root := justfile_directory()
# builds
build target="debug": clean
    @echo building {{target}} {{version}} with {{uppercase("rustc")}}
clean:
    @echo {{ if version =~ '^1' { "old" } else { "new" } }} {{ sha256(version) }}
test *flags: (build "release")
    @for i in 1 2 3; do echo test $i {{flags}}; done
EOF
cat > settings.toml <<'EOF'
title="a file"
numbers=[1,2,
  3]
[owner]
name   =  "Tom"
born=1979-05-27T07:32:00Z
[database]
ports=[8000,8001 ]
limits={cpu=79.5,case=72.0}
EOF
cat > data.json <<'EOF'
[{"name":"one","size":10,"tags":["a","b"]},{"name":"two","size":25,"tags":["b"]},{"name":"three","size":7,"tags":[]}]
EOF
cat > package.json <<'EOF'
{"name":"root","version":"1.0.0","private":true,"packageManager":"pnpm@9.0.0","workspaces":["packages/*"],
 "devDependencies":{"typescript":"5.9.3"},"dependencies":{"react":"18.2.0"}}
EOF
printf 'packages:\n  - packages/*\n' > pnpm-workspace.yaml
printf "lockfileVersion: '9.0'\nimporters:\n  .: {}\n" > pnpm-lock.yaml
cat > packages/one/package.json <<'EOF'
{"version":"1.0.0","name":"one","scripts":{"build":"echo one"},"dependencies":{"react":"18.2.0","two":"1.0.0"},"devDependencies":{"typescript":"5.8.0"}}
EOF
cat > packages/two/package.json <<'EOF'
{"name":"two","version":"1.0.0","scripts":{"build":"echo two"},"dependencies":{"react":"^17.0.0"},"devDependencies":{}}
EOF
cat > turbo.json <<'EOF'
{"tasks":{"build":{"dependsOn":["^build"],"outputs":["dist/**"]}}}
EOF
cat > Cargo.toml <<'EOF'
[package]
name = "app"
version = "0.1.0"
edition = "2021"
[lib]
path = "app/src/lib.rs"
EOF
echo 'pub fn one() -> u32 { 1 }' > app/src/lib.rs
cat > pyproject.toml <<'EOF'
[build-system]
requires = ["maturin>=1,<2"]
build-backend = "maturin"
[project]
name = "app"
version = "0.1.0"
EOF
cat > app.js <<'EOF'
function add(a,b){return a+b}
//# sourceMappingURL=app.js.map
EOF
echo '{"version":3,"file":"app.js","sources":["add.ts"],"names":["add"],"mappings":"AAAA,SAASA"}' > app.js.map

export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
git init -q -b main .
for number in 1 2 3 4 5 6 7 8 9; do
  export GIT_AUTHOR_DATE="2026-01-0${number}T00:00:00Z" GIT_COMMITTER_DATE="2026-01-0${number}T00:00:00Z"
  echo "$number" > "file$number"
  git add "file$number"
  case $((number % 3)) in
    0) git commit -q -m "feat(core)!: add part $number" ;;
    1) git commit -q -m "fix: repair part $number" -m "Closes #$number" ;;
    2) git commit -q -m "docs: tell of part $number" ;;
  esac
done
git tag v0.1.0 HEAD~4
