./configure --quiet --cache-file="$CONFIGURED" --disable-shared --enable-jit --enable-pcre2-16 --enable-pcre2-32
make -j2 --silent
make --silent check || true
