. "$LAB_REAL/lib.sh"
if [ ! -f shell.c ]; then
    ./configure --disable-shared --disable-readline >configure.log 2>&1
    make sqlite3.c shell.c >make.log 2>&1
fi
compile "$CC" "-O2 -DSQLITE_THREADSAFE=1 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_ENABLE_FTS5" sqlite3.c shell.c
$LINK objects/*.o -lm -lpthread -o "$program"
