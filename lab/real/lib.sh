# Read by the scripts beside it, which build a program in C or C++ in a directory with its sources:
#   sh lua.sh PROGRAM    compiles with $CC or $CXX what is not compiled yet, and links PROGRAM with $LINK

mkdir -p objects
program=$1

# compile COMPILER FLAGS FILE...: the objects of these files, two at a time
compile() {
    compiler=$1 flags=$2
    shift 2
    for file; do
        object=objects/$(echo "$file" | tr / _).o
        [ -f "$object" ] || echo "$compiler $flags -c $file -o $object.new && mv $object.new $object"
    done | xargs -r -d '\n' -n 1 -P 2 sh -c
}
