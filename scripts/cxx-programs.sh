#!/bin/sh
# Builds twelve C++ programs of Debian with debug information, each with another compiler, level and container, for
# `cargo test -p tussle-debuginfo --test cxx_programs`:
#
#     scripts/cxx-programs.sh DIR && TUSSLE_CXX_PROGRAMS=DIR cargo test -p tussle-debuginfo --test cxx_programs
#
# Sources come through `apt-get source` (a deb-src entry is needed) unless DIR/src has them. Files that do not compile
# without the package's own configuration are left out and counted. Nothing is run or installed.
set -eu
dir=$(mkdir -p "$1" && cd "$1" && pwd)
mkdir -p "$dir/src" "$dir/out"

fetch() {
    ls -d "$dir/src/$1"-* >/dev/null 2>&1 || (cd "$dir/src" && apt-get source -qq "$1" >/dev/null)
    ls -d "$dir/src/$1"-*/ | head -n 1
}

# Generated headers that the sources include by name.
configure() {
    touch "$1/config.h" "$1/taglib_config.h" "$1/public_config.h"
    echo '#define EBML_DLL_API' >"$1/ebml_export.h"
    for template in $(find "$1" -name '*-public.h.in' -o -name 'port_config.h.in'); do
        sed -e 's/^#cmakedefine01 \(.*\)/#define \1 0/' -e 's/^#cmakedefine \(.*\)$/#define \1/' \
            -e 's/\${[A-Z_]*_01}/1/' -e 's/\${PROJECT_VERSION_[A-Z]*}/1/' "$template" >"${template%.in}"
    done
}

compile() {
    (cd "$work" && "$cc" -w $level $debug -std=gnu++17 -DLEVELDB_PLATFORM_POSIX=1 $includes -c "$1" -o "$2") \
        2>>"$work/log"
}

# program PACKAGE COMPILER LEVEL CONTAINER
program() {
    name=$1 cc=$2 level=$3 container=$4
    command -v "$cc" >/dev/null || { echo "$name: skipped: no $cc"; return; }
    source=$(fetch "$name")
    source=${source%/}
    work="$dir/out/$name"
    rm -rf "$work"
    mkdir -p "$work"
    configure "$source"
    debug=-g
    case $container in
        *dwp | *split) debug="-gdwarf-4 -gsplit-dwarf" ;;
        types) debug="-g -fdebug-types-section" ;;
        dwz) debug="-gdwarf-4" ;;
    esac
    includes="-I$source $(find "$source" -type d ! -path '*/debian*' ! -path '*/.pc*' ! -path '*/win*' |
        sed 's/^/-I/' | tr '\n' ' ')"
    good=0 bad=0 objects=
    for file in $(find "$source" \( -name '*.cc' -o -name '*.cpp' -o -name '*.cxx' \) |
        grep -v -i -E '/(tests?|.*_test|examples?|bench.*|fuzz.*|win.*|doc|contrib|\.pc)(/|\.)|win32|debian' | sort)
    do
        object=$(echo "${file#"$source"/}" | tr / _).o
        if compile "$file" "$object"; then good=$((good + 1)) objects="$objects $object"
        else bad=$((bad + 1)); fi
    done
    (cd "$work" && "$cc" -no-pie -w -o a.out $objects -Wl,-z,muldefs -Wl,--unresolved-symbols=ignore-all)
    case $container in
        dwp) (cd "$work" && dwp -e a.out -o a.out.dwp) ;;
        llvm-dwp) (cd "$work" && llvm-dwp -e a.out -o a.out.dwp) ;;
        dwz) (cd "$work" && cp a.out twin && dwz -m common.debug a.out twin) ;;
    esac
    echo "$name $cc $level $container" >"$work/combination"
    echo "$name: $cc $level $container: $good files, $bad left out"
}

program re2 g++ -O2 plain
program leveldb clang++ -O2 split
program snappy g++ -O3 dwp
program fmtlib clang++ -O0 dwz
program tinyxml2 g++ -O0 types
program pugixml clang++ -O3 plain
program ninja-build g++ -Os split
program hunspell clang++ -Os llvm-dwp
program yaml-cpp g++ -O2 dwz
program libebml clang++ -O0 types
program lzip g++ -O3 dwp
program taglib clang++ -O2 plain
