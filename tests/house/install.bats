#!/usr/bin/env bats
# make install and make uninstall.

setup() {
    here=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    root=$BATS_TEST_TMPDIR/root
    cd "$here" || return
    # Variables given to the make that runs this stay (the build must be the same), its jobs do not.
    case ${MAKEFLAGS:-} in
        *' -- '*) export MAKEFLAGS="-- ${MAKEFLAGS#* -- }" ;;
        *) unset MAKEFLAGS ;;
    esac
}

install_it() {
    make -s install DESTDIR="$root" PREFIX=/usr
}

@test "make install puts the program, the library, its header and its pages in the usual places" {
    install_it
    [ -x "$root/usr/bin/rigmem" ]
    [ -f "$root/usr/lib/librigmem.a" ]
    [ -f "$root/usr/include/rigmem.h" ]
    [ -f "$root/usr/lib/pkgconfig/rigmem.pc" ]
    for page in man/*.[1-8]; do
        [ -f "$root/usr/share/man/man${page##*.}/${page##*/}" ]
    done
    [ -f "$root/usr/share/bash-completion/completions/rigmem" ]
    [ -f "$root/usr/share/zsh/site-functions/_rigmem" ]
    [ -f "$root/usr/share/fish/vendor_completions.d/rigmem.fish" ]
}

@test "make uninstall takes away every file that make install put there" {
    install_it
    make -s uninstall DESTDIR="$root" PREFIX=/usr
    run find "$root" -type f
    [ "$output" = "" ]
}

@test "the installed program runs from where it lies" {
    install_it
    run "$root/usr/bin/rigmem" version
    [ "$status" -eq 0 ]
    [[ $output == *$(sed -n 's/^.define RIG_VERSION "\(.*\)"/\1/p' lib/rigmem.h)* ]]
}

@test "rigmem.pc names the version of the header" {
    install_it
    PKG_CONFIG_PATH=$root/usr/lib/pkgconfig run pkg-config --modversion rigmem
    [ "$output" = "$(sed -n 's/^.define RIG_VERSION "\(.*\)"/\1/p' lib/rigmem.h)" ]
}

# build_example NAME: builds the program NAME.c of librigmem(3) against what is installed.
build_example() {
    awk -v mark="example $1.c" 'index($0, mark) { found = 1 } found && /^\.Ed/ { exit }
        inside { print } found && /^\.Bd/ { inside = 1 }' man/librigmem.3 | sed 's/\\e/\\/g' \
        >"$BATS_TEST_TMPDIR/$1.c"
    export PKG_CONFIG_PATH=$root/usr/lib/pkgconfig
    flags=$(pkg-config --define-variable=prefix="$root/usr" --cflags --libs rigmem)
    read -ra words <<<"$flags"
    gcc -std=c11 -Wall -Wextra -Werror -o "$BATS_TEST_TMPDIR/$1" "$BATS_TEST_TMPDIR/$1.c" "${words[@]}"
}

@test "the first program of librigmem(3) builds by the installed rigmem.pc and answers" {
    install_it
    build_example reach
    run "$BATS_TEST_TMPDIR/reach" tests/machines/server-8gpu.json
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "gpu1 yes" ]
    [[ $output == *"gpu2 no "* ]]
}

@test "the second program of librigmem(3) places memory, hands it to a NIC and frees in both orders" {
    install_it
    build_example place
    run "$BATS_TEST_TMPDIR/place" tests/machines/server-8gpu.json
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 4 ]
    for i in 0 2; do
        [ "${lines[i]}" = "gpu0 reads hello, gpu1 reads hello" ]
        [ "${lines[i + 1]}" = "freed, and kept: reserved for 0000:05:00.0" ]
    done
}
