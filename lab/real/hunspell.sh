. "$LAB_REAL/lib.sh"
[ -f config.h ] || ./configure --disable-shared --disable-nls --without-ui --without-readline >configure.log 2>&1
compile "$CXX" "-std=c++11 -O2 -w -DHAVE_CONFIG_H -DHUNSPELL_STATIC -I. -Isrc/hunspell -Isrc/parsers" \
    src/hunspell/*.cxx src/parsers/[!t]*.cxx src/parsers/textparser.cxx src/tools/hunspell.cxx
$LINK objects/*.o -o "$program"
