. "$LAB_REAL/lib.sh"
cd quickjs
mkdir -p objects
compile "$CC" "-O2 -D_GNU_SOURCE -funsigned-char -DQUICKJS_NG_BUILD -w" quickjs.c libregexp.c libunicode.c dtoa.c quickjs-libc.c \
    gen/repl.c gen/standalone.c qjs.c
$LINK objects/*.o -lm -lpthread -o "$program"
