. "$LAB_REAL/lib.sh"
compile "$CC" "-O3 -DNDEBUG -DZSTD_MULTITHREAD -DXXH_NAMESPACE=ZSTD_ -Ilib -Ilib/common" \
    lib/common/*.c lib/compress/*.c lib/decompress/*.c lib/decompress/*.S lib/dictBuilder/*.c programs/*.c
$LINK objects/*.o -lpthread -o "$program"
