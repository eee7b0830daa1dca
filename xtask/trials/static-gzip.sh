./configure --quiet --cache-file="$CONFIGURED"
make -j2 --silent
make --silent check || true
