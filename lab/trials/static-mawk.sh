. "$TRIALS/lib.sh"
./configure --quiet
make -j2 --silent mawk
export PROG="$PWD/mawk"
check mawktest sh -c 'cd test && ./mawktest'
check fpe_test sh -c 'cd test && ./fpe_test'
seq 1 200000 >numbers
check associative sh -c '[ "$("$PROG" "{ count[\$1 % 977] += length(\$0 \"x\") } END { for (key in count) sum += count[key]; print sum }" numbers)" = 1288895 ]'
check regular sh -c '[ "$("$PROG" "/7.*3/ { gsub(/[0-4]/, \"ab\"); n += length() } END { print n }" numbers)" -gt 100000 ]'
