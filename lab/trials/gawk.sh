mkdir files
for number in 1 2 3 4 5; do
    seq "$number" 4000 >"files/$number"
done
exec gawk -l filefuncs -l ordchr -l fork -l rwarray '
BEGIN {
    size = stat("files/3", data)
    print "stat", size, data["size"], data["type"]
    for (file = 1; file <= 5; file++)
        while ((getline line < ("files/" file)) > 0) {
            count[line % 97]++
            text[line] = text[line] chr(ord("a") + line % 26)
        }
    print "written", writea("saved", text)
    delete text
    print "read", reada("saved", text), length(text), text[4000]
    number = asorti(count, keys)
    print "keys", number, keys[1], count[keys[1]]
    fflush()
    if ((child = fork()) == 0) {
        print "child", length(text)
        exit 3
    }
    print "child ended", wait() == child
    print gensub(/([a-z])([a-z])/, "\\2\\1", "g", text[100] text[200])
}'
