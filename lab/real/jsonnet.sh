. "$LAB_REAL/lib.sh"
yaml=third_party/rapidyaml/rapidyaml
[ -f core/std.jsonnet.h ] || make core/std.jsonnet.h >make.log 2>&1
compile "$CXX" "-std=c++11 -O2 -w -Iinclude -Ithird_party/md5 -Ithird_party/json -I$yaml/src -I$yaml/ext/c4core/src" \
    core/desugarer.cpp core/formatter.cpp core/lexer.cpp core/libjsonnet.cpp core/parser.cpp core/pass.cpp \
    core/static_analysis.cpp core/string_utils.cpp core/vm.cpp third_party/md5/md5.cpp $yaml/src/c4/yml/*.cpp \
    $yaml/ext/c4core/src/c4/*.cpp cmd/jsonnet.cpp cmd/utils.cpp
$LINK objects/*.o -o "$program"
