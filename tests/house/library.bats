#!/usr/bin/env bats
# The library as others see it: its names, its header, its installation.

setup() {
    here=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    build=$(dirname "$RIGMEM")
    cd "$here" || return
}

@test "librigmem.a defines the names of rigmem.h and no others" {
    # The functions the header declares, by a reading of its own: a C compiler's.
    declared=$(gcc -E -P lib/rigmem.h | tr '\n' ' ' | grep -oE '\brig_[a-z0-9_]+ ?\(' | tr -d '( ' |
        sort -u)
    defined=$(nm -g --defined-only "$build/librigmem.a" | awk 'NF == 3 { print $3 }' | sort -u)
    [ -n "$defined" ]
    run comm -13 <(echo "$declared") <(echo "$defined")
    [ "$output" = "" ]
}

@test "every function that rigmem.h declares is in librigmem.a" {
    inline=$(grep -oE '^static inline [a-z ]+ \*?rig_[a-z0-9_]+' lib/rigmem.h | grep -oE 'rig_[a-z0-9_]+$')
    declared=$(gcc -E -P lib/rigmem.h | tr '\n' ' ' | sed 's/{[^}]*}/;/g' |
        grep -oE '\brig_[a-z0-9_]+ ?\(' | tr -d '( ' | grep -vxF "$inline" | sort -u)
    defined=$(nm -g --defined-only "$build/librigmem.a" | awk 'NF == 3 { print $3 }' | sort -u)
    run comm -23 <(echo "$declared") <(echo "$defined")
    [ "$output" = "" ]
}

@test "rigmem.h compiles alone as C17 and as C11, by gcc and by clang" {
    for cc in gcc clang; do
        for std in c11 c17; do
            echo '#include "rigmem.h"' | "$cc" -std="$std" -Wall -Wextra -Wpedantic -Wundef -Werror \
                -Ilib -fsyntax-only -x c -
        done
    done
}

@test "rigmem.h compiles alone as C++" {
    for cxx in g++ clang++; do
        printf '#include "rigmem.h"\nint main() { return rig_status_name(RIG_OK) == nullptr; }\n' |
            "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Wundef -Werror -Ilib -fsyntax-only -x c++ -
    done
}

@test "every macro that rigmem.h has for C++ is an expression of C++" {
    for cxx in g++ clang++; do
        "$cxx" -std=c++17 -E -dM -Ilib -x c++ lib/rigmem.h | grep '^#define RIG_' >"$BATS_TEST_TMPDIR/macros"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/macros")" -gt 10 ]
        {
            echo '#include "rigmem.h"'
            echo 'int main() {'
            awk '$2 !~ /_H$/ && $2 !~ /\(/ { print "(void)(" $2 ");" }
                $2 ~ /\(/ { sub(/\(.*/, "", $2); print "(void)(" $2 "(1));" }' "$BATS_TEST_TMPDIR/macros"
            echo 'char text[RIG_ERRNO_MAX]; return *rig_errno_text(2, text); }'
        } >"$BATS_TEST_TMPDIR/macros.cc"
        "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror -Ilib -fsyntax-only "$BATS_TEST_TMPDIR/macros.cc"
    done
}

@test "every header of the library compiles alone" {
    for h in lib/*.h lib/*/*.h lib/*/*/*.h; do
        [ -e "$h" ] || continue
        echo "$h"
        echo "#include \"${h#lib/}\"" |
            gcc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -Ilib -fsyntax-only -x c -
    done
}

@test "only one file of the library includes libpci's header" {
    run grep -rlsE '#include <pci/pci.h>' lib cmd
    [ "${#lines[@]}" -le 1 ]
}

@test "the commands include rigmem.h and nothing else of the library" {
    run grep -rnsE '#include "(base|topology|machine|gpu|session)/' cmd
    [ "$output" = "" ]
}
