. "$TRIALS/lib.sh"
./configure --static
make -j2 libz.a example minigzip
check example ./example tested
seq 1 300000 >numbers
for level in 1 6 9; do
    check "gzip-$level" sh -c "./minigzip -$level <numbers | gzip --decompress | cmp - numbers"
done
check gunzip sh -c 'gzip --to-stdout numbers | ./minigzip -d | cmp - numbers'
