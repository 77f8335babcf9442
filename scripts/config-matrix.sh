#!/bin/sh
# One object per kernel configuration, without building a kernel: see docs/config-matrix.md.
#
#   config-matrix.sh HEADERS SOURCE.c CONFIGS OUT
#
# HEADERS  unpacked linux-headers-*-<flavour> folder (its -common sibling must lie beside it)
# SOURCE.c a C file that makes the types complete and uses them
# CONFIGS  text: one line per configuration, a name and its overrides: `nommu CONFIG_MMU=n CONFIG_NR_CPUS=64`
# OUT      folder for NAME.o and NAME.o.config
set -eu

if [ $# -ne 4 ]; then
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
headers=$1 source=$2 configs=$3 out=$4
CC=${CC:-gcc}
ARCH=${ARCH:-x86}

version=$(basename "$headers" | sed 's/^\(linux-headers-[0-9][0-9.]*-[^-]*\)-.*/\1/')
common=$(dirname "$headers")/$version-common
if [ ! -d "$common/include" ]; then
    echo "config-matrix: $common: not there; unpack $version-common beside $headers" >&2
    exit 2
fi
case $ARCH in
x86) machine="-m64 -mcmodel=kernel -mno-sse" ;;
arm64) machine="-mgeneral-regs-only" ;;
*) machine="" ;;
esac
mkdir -p "$out"

# set_option FILE NAME VALUE: replaces one option in a copy of autoconf.h.
set_option() {
    sed -i "/^#define $2\(_MODULE\)\? /d" "$1"
    case $3 in
    n) ;;
    y) echo "#define $2 1" >>"$1" ;;
    m) echo "#define $2_MODULE 1" >>"$1" ;;
    *) echo "#define $2 $3" >>"$1" ;;
    esac
}

# The options as a .config, for rules with `when = { config = .. }`.
as_config() {
    sed -n 's/^#define \(CONFIG_[A-Za-z0-9_]*\)_MODULE 1$/\1=m/p
            s/^#define \(CONFIG_[A-Za-z0-9_]*\) 1$/\1=y/p
            s/^#define \(CONFIG_[A-Za-z0-9_]*\) \(.*\)$/\1=\2/p' "$1"
}

grep -v '^[[:space:]]*\(#\|$\)' "$configs" | {
failed=0
while read -r name overrides; do
    work=$out/.$name
    mkdir -p "$work/generated"
    autoconf=$work/generated/autoconf.h
    cp "$headers/include/generated/autoconf.h" "$autoconf"
    for override in $overrides; do
        set_option "$autoconf" "${override%%=*}" "${override#*=}"
    done
    # shellcheck disable=SC2086 # several flags in one variable
    if ! $CC -nostdinc -g -c -std=gnu11 -O1 -fno-strict-aliasing -fshort-wchar -fno-pie $machine \
        -D__KERNEL__ -DKBUILD_MODNAME='"matrix"' -I"$work" \
        -I"$common/arch/$ARCH/include" -I"$headers/arch/$ARCH/include/generated" \
        -I"$common/include" -I"$headers/include" \
        -I"$common/arch/$ARCH/include/uapi" -I"$headers/arch/$ARCH/include/generated/uapi" \
        -I"$common/include/uapi" -I"$headers/include/generated/uapi" \
        -include "$common/include/linux/compiler-version.h" -include "$common/include/linux/kconfig.h" \
        -include "$common/include/linux/compiler_types.h" "$source" -o "$out/$name.o"; then
        echo "config-matrix: $name does not compile with $overrides" >&2
        rm -rf "$work"
        failed=2
        continue
    fi
    as_config "$autoconf" >"$out/$name.o.config"
    rm -rf "$work"
    echo "$out/$name.o"
done
exit $failed
}
