./configure --quiet --cache-file="$CONFIGURED" --disable-shared
make -j2 --silent
make --silent check || true
