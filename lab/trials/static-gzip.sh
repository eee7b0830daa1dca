./configure --quiet --cache-file="$CONFIGURED"
make -j2 --silent MAKEINFO=true
make --silent check MAKEINFO=true || true
