# The inputs of the measurements of grafted programs, written into the current directory; much of the same, as a large project has.
# $1 is the unpacked package of TypeScript.

# A history of 2,000 commits.
mkdir -p history
git init -q -b main history
awk 'BEGIN {
  split("feat fix docs perf refactor test", kinds); split("core parser cli server ui", scopes)
  for (i = 1; i <= 2000; i++) {
    message = kinds[i % 6 + 1] "(" scopes[i % 5 + 1] "): change number " i " of the part that reads files\n\nCloses #" i "\n"
    printf "commit refs/heads/main\ncommitter A Person <person%d@example.com> %d +0000\ndata %d\n%s\n", i % 40, 1700000000 + i * 600, length(message), message
    if (i % 100 == 0) printf "reset refs/tags/v0.%d.0\nfrom refs/heads/main\n\n", i / 100
  }
}' | git -C history fast-import --quiet

awk 'BEGIN {
  print "root := justfile_directory()"
  for (i = 0; i < 24000; i++) printf "# builds part %d\npart%d target=\"debug\" *flags:\n    @echo building {{target}} {{ if target == \"debug\" { \"slowly\" } else { uppercase(\"fast\") } }} {{flags}}\n", i, i
}' > justfile

awk 'BEGIN {
  for (i = 0; i < 2500; i++) printf "subroutine part%d(n, a)\n  integer n\n  real*8 a(n)\n  do 10 j = 1, n\n    a(j) = a(j) ** 2 + %d.0\n10 continue\n  if (n .gt. %d) print *, sum(a)\nend subroutine part%d\n\n", i, i, i, i
}' > parts.f90

awk 'BEGIN {
  for (i = 0; i < 8000; i++) printf "[[package]]\nname = \"package-%d\"\nversion=\"1.%d.0\"\nsource = \"registry+https://example.com/index\"\nchecksum = \"%064d\"\ndependencies = [\"one\",\"two %d\",  \"three\"]\n\n", i, i, i, i
}' > packages.toml

awk 'BEGIN {
  print "#!/bin/sh"
  for (i = 0; i < 100; i++) printf "part%d() {\n  for file in $(ls $1); do\n    cp $file \"$2/%d\" || exit\n    [ $? == 0 ] && echo copied $file\n  done\n}\n", i, i
}' > parts.sh

awk 'BEGIN {
  print "let table = 1..60000 | each {|i| {name: $\"part ($i mod 97)\", size: ($i * 7919 mod 10007), tags: [a b ($i | into string)]} }"
  print "$table | group-by name | transpose name rows | insert total {|it| $it.rows.size | math sum } | select name total | sort-by total | to csv | print"
  print "$table | to json | from json | where size > 5000 | length | print"
}' > report.nu

mkdir -p monorepo
cd monorepo
echo '{"name":"root","private":true,"workspaces":["packages/*"]}' > package.json
seq -f packages/p%g 1000 | xargs mkdir -p
awk 'BEGIN {
  for (i = 1; i <= 1000; i++) {
    file = "packages/p" i "/package.json"
    printf "{\"name\":\"p%d\",\"version\":\"1.0.0\",\"dependencies\":{", i > file
    for (j = 0; j < 30; j++) printf "%s\"library-%d\":\"^%d.%d.0\"", j ? "," : "", (i * 7 + j * 13) % 500, j, (i + j) % 3 > file
    print "}}" > file
    close(file)
  }
}'
cd ..

mkdir -p typescript
cp "$1"/lib/lib.dom.d.ts "$1"/lib/lib.es5.d.ts "$1"/lib/typescript.d.ts typescript/
cp -r "$1"/lib/*/ typescript/
printf '{"incremental":false,"plugins":["%s"]}' "$2" > dprint.json
