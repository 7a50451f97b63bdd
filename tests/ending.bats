#!/usr/bin/env bats
# How a session ends, or goes on: by close, by the end of input, by each signal, and after a command
# was killed.

setup() {
    : "${RIGMEM:?names the program under test}"
    machine=$BATS_TEST_DIRNAME/machines/xeon-listed.json
    cd "$BATS_TEST_TMPDIR" || return
    export RIGMEM_STATE=$PWD/s.json
    # a build that looks for leaks cannot be traced
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
}

# struck SIGNAL CALL N COMMAND...: the command gets the signal as it enters the n-th system call of the name.
struck() {
    local signal=$1 call=$2 n=$3
    shift 3
    # what bash runs beside itself does not hear INT and QUIT otherwise
    env --default-signal=INT,QUIT strace -f -qq -o trace -e trace="$call" \
        -e inject="$call":signal="$signal":when="$n" "$RIGMEM" "$@" >out 2>err
}

# The exit code of what a signal ended.
ended_by() {
    echo $((128 + $(kill -l "$1")))
}

@test "a signal waits for the end of a command's transaction, and the session stays" {
    "$RIGMEM" -q -m "$machine" open gpu0
    count=0
    for signal in INT TERM HUP QUIT; do
        status=0
        struck "$signal" fsync 1 -q alloc gpu0 gpu 4K || status=$?
        [ "$status" -eq "$(ended_by "$signal")" ]
        count=$((count + 1))
        [ "$("$RIGMEM" -j show | grep -o '"id":"r' | wc -l)" -eq "$count" ]
        [ "$("$RIGMEM" recover)" = 'nothing was left behind' ]
    done
    "$RIGMEM" -q close
    [ ! -e s.json ]
}

@test "a closed pipe does not end a command before its transaction" {
    "$RIGMEM" -q -m "$machine" open gpu0
    exec 7> >(:)
    wait $!
    status=0
    "$RIGMEM" alloc gpu0 gpu 4K >&7 2>err || status=$?
    exec 7>&-
    [ "$status" -eq 7 ]
    grep -q 'standard output' err
    [ "$("$RIGMEM" -j show | grep -o '"id":"r' | wc -l)" -eq 1 ]
    "$RIGMEM" -q close
}

@test "a file that may not grow is a failed write, told with its exit code" {
    "$RIGMEM" -q -m "$machine" open gpu0
    cp s.json before
    status=0
    # a program built to count what it covers writes its counts elsewhere than over all others'
    (ulimit -f 1 && GCOV_PREFIX=$PWD exec "$RIGMEM" alloc gpu0 gpu 4K) >out 2>err || status=$?
    [ "$status" -eq 7 ]
    cmp s.json before
    "$RIGMEM" -q alloc gpu0 gpu 4K
    "$RIGMEM" -q close
}

@test "after a kill the next command says what it found, and recover keeps it" {
    "$RIGMEM" -q -m "$machine" open gpu0
    cp s.json before
    status=0
    struck KILL renameat 1 alloc gpu0 gpu 64K || status=$?
    [ "$status" -eq 137 ]
    cmp s.json before
    run "$RIGMEM" show
    [[ $output == *"a command was killed in alloc of 65536 bytes"* ]]
    # looking keeps nothing
    run "$RIGMEM" show
    [[ $output == *"a command was killed in alloc of 65536 bytes"* ]]
    "$RIGMEM" -j recover >out
    python3 -c 'import json; r = json.load(open("out"))["result"]
assert len(r["found"]) == 1 and "alloc of 65536 bytes" in r["found"][0] and r["claims"] == [], r'
    run "$RIGMEM" recover
    [ "$output" = "nothing was left behind" ]
    [ ! -e s.json.intent ] && [ ! -e s.json.tmp ]
    # what it took stays taken until the GPU is closed, and is there again then
    free=$("$RIGMEM" -j show | grep -o '"free_bytes":[0-9]*')
    "$RIGMEM" -q close gpu0
    "$RIGMEM" -q open gpu0
    [ "$("$RIGMEM" -j show | grep -o '"free_bytes":[0-9]*' | tail -n 1)" != "$free" ]
    "$RIGMEM" -q close
    [ "$(ls)" = "$(printf 'before\nerr\nout\ntrace')" ]
}

@test "what a killed close or open left is removed by the next command, which says so" {
    # in the middle of writing the first document; with the document gone, but not its memory
    for how in "fsync 1 -q -m $machine open gpu0" 'unlinkat 2 -q close'; do
        status=0
        # shellcheck disable=SC2086 # words
        struck KILL $how || status=$?
        [ "$status" -eq 137 ]
        [ ! -e s.json ] && [ -d s.json.d ]
        "$RIGMEM" -j recover >out
        python3 -c 'import json; r = json.load(open("out"))["result"]
assert len(r["found"]) == 1 and "opened or closed" in r["found"][0], r'
        [ -z "$(ls -d s.json* 2>/dev/null)" ]
        run "$RIGMEM" recover
        [ "$status" -eq 2 ]
        "$RIGMEM" -q -m "$machine" open gpu0
    done
}

@test "what recover cannot remove is its error, and what it could is no error once it is gone" {
    "$RIGMEM" -q -m "$machine" open gpu0
    rm s.json s.json.d/*
    mkdir s.json.d/system-memory
    for _ in 1 2; do
        run "$RIGMEM" recover
        [ "$status" -eq 3 ]
        [ "$output" = "rigmem: recover: system-memory: a command that was killed left it, and it cannot be removed: is a directory
hint: remove it, and recover removes the rest" ]
        "$RIGMEM" -j recover >out 2>err || [ $? -eq 3 ]
        python3 -c 'import json; d = json.load(open("out"))
assert not d["ok"] and d["error"]["code"] == 3 and d["warnings"] == [], d'
    done
    rmdir s.json.d/system-memory
    run "$RIGMEM" recover
    [ "$status" -eq 0 ]
    [[ $output == *"what it left is removed" ]]
    [ -z "$(ls)" ] || [ "$(ls)" = "err
out" ]
}

@test "a directory of the name with other files in it is left alone" {
    mkdir s.json.d
    echo mine >s.json.d/mine
    "$RIGMEM" -q -m "$machine" open gpu0
    "$RIGMEM" -q alloc gpu0 gpu 4K
    "$RIGMEM" -q close
    [ "$(cat s.json.d/mine)" = mine ]
    [ "$(ls s.json.d)" = mine ]
}

@test "a session in memory ends with its script, and by each signal, and leaves nothing" {
    unset RIGMEM_STATE
    "$RIGMEM" -q -m "$machine" -c 'open gpu0; alloc gpu0 gpu 4K' 2>err
    grep -q '1 region was given back' err
    for signal in INT TERM HUP; do
        rm -f out err
        mkfifo fifo
        exec 7<>fifo
        printf 'open gpu0\nalloc gpu0 gpu 4K\n' >&7
        env --default-signal=INT,QUIT "$RIGMEM" -m "$machine" shell <fifo 7>&- >out 2>err &
        shell=$!
        for _ in {1..600}; do
            if grep -qs '^r1 ' out; then break; fi
            sleep 0.1
        done
        grep -q '^r1 ' out
        kill -"$signal" "$shell"
        status=0
        wait "$shell" || status=$?
        [ "$status" -eq "$(ended_by "$signal")" ]
        grep -q '1 region was given back' err
        exec 7>&-
        rm fifo
    done
    [ "$(ls)" = "$(printf 'err\nout')" ]
}

@test "root's session is under /run/rigmem, which is made, and refused where it is another user's" {
    if [ "$(id -u)" -ne 0 ] || ! unshare -m true 2>/dev/null; then
        skip "only root has a /run of its own to try it in"
    fi
    unset RIGMEM_STATE
    export RIGMEM machine
    # shellcheck disable=SC2016 # the shell that runs it
    run unshare -m bash -euc 'mount -t tmpfs -o mode=755 tmpfs /run
        "$RIGMEM" -q -m "$machine" open gpu0
        [ "$(stat -c %a /run/rigmem)" = 700 ]
        [ "$(stat -c %a /run/rigmem/session.json)" = 600 ]
        "$RIGMEM" -q close
        [ -z "$(ls /run/rigmem)" ]
        chown 4321 /run/rigmem
        code=0
        "$RIGMEM" -m "$machine" open gpu0 2>/run/err || code=$?
        grep -q "belongs to another user (4321)" /run/err
        exit $code'
    [ "$status" -eq 3 ]
}

@test "a user's session is under XDG_STATE_HOME, else HOME, else nowhere" {
    unset RIGMEM_STATE
    as_user=()
    if [ "$(id -u)" -eq 0 ]; then
        chmod 711 "$BATS_TEST_TMPDIR"/.. "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR"
        as_user=(setpriv --reuid 4321 --regid 4321 --clear-groups)
        cp "$RIGMEM" /tmp/rigmem.$$ && cp "$machine" /tmp/machine.$$ && chmod 755 /tmp/rigmem.$$ && chmod 644 /tmp/machine.$$
        RIGMEM=/tmp/rigmem.$$ machine=/tmp/machine.$$
    fi
    home=$(mktemp -d)
    if [ "$(id -u)" -eq 0 ]; then chown 4321 "$home"; fi
    "${as_user[@]}" env HOME="$home" XDG_STATE_HOME="$home/state" "$RIGMEM" -q -m "$machine" open gpu0
    [ -e "$home/state/rigmem/session.json" ]
    # a relative one does not count
    "${as_user[@]}" env HOME="$home" XDG_STATE_HOME=state "$RIGMEM" -q -m "$machine" open gpu0
    [ -e "$home/.local/state/rigmem/session.json" ]
    run "${as_user[@]}" env -u HOME -u XDG_STATE_HOME "$RIGMEM" -m "$machine" open gpu0
    [ "$status" -eq 2 ]
    [[ $output == *"there is no place for a state file"* ]]
    rm -rf "$home" /tmp/rigmem.$$ /tmp/machine.$$
}
