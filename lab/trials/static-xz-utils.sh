./configure --quiet --cache-file="$CONFIGURED" --disable-shared --disable-nls --disable-doc
make -j2 --silent
make --silent check || true
