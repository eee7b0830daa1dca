. "$TRIALS/lib.sh"
make -j2 CC="$CC" libbz2.a
$CC -O2 -o bzip2 bzip2.c libbz2.a
for sample in 1 2 3; do
    check "compress-$sample" sh -c "./bzip2 -$sample <sample$sample.ref | cmp - sample$sample.bz2"
done
check decompress-1 sh -c './bzip2 -d <sample1.bz2 | cmp - sample1.ref'
check decompress-2 sh -c './bzip2 -d <sample2.bz2 | cmp - sample2.ref'
check decompress-small-3 sh -c './bzip2 -ds <sample3.bz2 | cmp - sample3.ref'
check broken sh -c '! head -c 1000 sample1.bz2 | ./bzip2 -t 2>/dev/null'
seq 1 400000 >numbers
check numbers sh -c './bzip2 -9 <numbers | ./bzip2 -d | cmp - numbers'
