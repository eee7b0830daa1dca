. "$LAB_REAL/lib.sh"
echo '#define DEB_HOST_MULTIARCH ""' >src/lua5.4-deb-multiarch.h
rm -f src/luac.c
compile "$CC" "-std=gnu99 -O2 -DLUA_USE_POSIX" src/*.c
$LINK objects/*.o -lm -o "$program"
