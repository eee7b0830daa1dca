import std/[strutils, tables, algorithm]
var counts: CountTable[string]
for line in stdin.lines:
  for word in line.toLowerAscii.splitWhitespace:
    counts.inc(word)
var all: seq[(int, string)]
for word, count in counts: all.add((-count, word))
all.sort()
echo counts.len
for (count, word) in all[0 ..< min(10, all.len)]: echo -count, " ", word
