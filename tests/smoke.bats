#!/usr/bin/env bats
# A smoke test of GPU memory without hardware, to copy: a twin of a captured machine is opened, memory is
# allocated, mapped for a peer, handed to a network adapter, looked at as each device reaches it, and
# given back in both orders; then something goes wrong on purpose.

setup() {
    : "${RIGMEM:?names the program under test}"
    machine=$BATS_TEST_DIRNAME/machines/server-8gpu.json
    export RIGMEM_STATE=$BATS_TEST_TMPDIR/session.json
    "$RIGMEM" -q -m "$machine" open gpu0 gpu1 --master
}

teardown() {
    # also after a failure; there may be no session any more
    "$RIGMEM" -q close --force 2>/dev/null || :
}

# The value of a jq-like path in the JSON on standard input, by Python.
value() {
    python3 -c 'import json,sys; print(eval(sys.argv[1], {"r": json.load(sys.stdin)["result"]}))' "$1"
}

@test "memory of the three kinds has addresses of the GPU's space, and its own bytes" {
    for kind in gpu bar host; do
        address=$("$RIGMEM" -j alloc gpu0 $kind 64K --name $kind | value 'r["region"]["address"]')
        "$RIGMEM" walk gpu0 "$address"
        "$RIGMEM" -q poke $kind --data c0ffee
        [ "$("$RIGMEM" -j peek $kind 0 3 --by gpu0 | value 'r["data"]')" = c0ffee ]
    done
}

@test "a peer reads what the owner's process wrote, and the memory stays until both have freed it" {
    "$RIGMEM" -q alloc gpu0 bar 64K --name shared
    "$RIGMEM" -q map-peer gpu1 shared --name view
    "$RIGMEM" -q poke shared --data 0123456789
    [ "$("$RIGMEM" -j peek view 0 5 --by gpu1 | value 'r["data"]')" = 0123456789 ]
    # the owner first: kept for the peer
    [ "$("$RIGMEM" -j free shared | value 'r["kept"][0]["why"]')" = "0000:04:00.0 maps it" ]
    [ "$("$RIGMEM" -j peek view 0 5 --by gpu1 | value 'r["data"]')" = 0123456789 ]
    "$RIGMEM" -q free view
    # and the other way round
    "$RIGMEM" -q alloc gpu0 gpu 64K --name shared
    "$RIGMEM" -q map-peer gpu1 shared --name view
    "$RIGMEM" -q free view
    [ "$("$RIGMEM" -j free shared | value 'len(r["kept"])')" = 0 ]
    [ "$("$RIGMEM" -j show | value 'len(r["regions"])')" = 0 ]
}

@test "a network adapter writes where bus said, and the GPU reads it" {
    "$RIGMEM" -q alloc gpu0 gpu 64K --name target
    [ "$("$RIGMEM" -j bus target nic0 | value 'sum(x["bytes"] for x in r["runs"])')" = 65536 ]
    "$RIGMEM" -q poke target 4096 --data feed --by nic0
    [ "$("$RIGMEM" -j peek target 4096 2 --by gpu0 | value 'r["data"]')" = feed ]
    # what was handed out is never given to somebody else
    "$RIGMEM" -q free target
    [ "$("$RIGMEM" -j show r1 | value 'r["regions"][0]["kept"]')" = "reserved for 0000:05:00.0" ]
    run "$RIGMEM" close
    [ "$status" -eq 3 ]
}

@test "after a free the GPU reaches the memory no more" {
    address=$("$RIGMEM" -j alloc gpu0 gpu 64K | value 'r["region"]["address"]')
    "$RIGMEM" -q peek gpu0 "$address" --by gpu0
    "$RIGMEM" -q free @last
    run "$RIGMEM" peek gpu0 "$address" --by gpu0
    [ "$status" -eq 3 ]
    run "$RIGMEM" -q walk gpu0 "$address"
    [ "$status" -eq 1 ]
}

@test "a flush that is never confirmed keeps what was freed until the GPU is closed" {
    "$RIGMEM" -q alloc gpu0 gpu 64K
    "$RIGMEM" -q fault flush=never
    [ "$("$RIGMEM" -j free r1 | value 'len(r["kept"])')" = 1 ]
    "$RIGMEM" -q close gpu0
    [ "$("$RIGMEM" -j show | value 'len(r["regions"])')" = 0 ]
}

@test "close gives everything back and leaves no file" {
    "$RIGMEM" -q alloc gpu0 host 1M
    "$RIGMEM" close
    [ -z "$(ls -A "$BATS_TEST_TMPDIR")" ]
}
