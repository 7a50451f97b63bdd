#!/usr/bin/env bats
# A smoke test of GPU memory without hardware, to copy. It needs bats, rigmem and the capture of a machine.
#
# A *twin* is a simulated machine that behaves as a capture says: its devices reach memory through the
# bytes of their page tables, its switches route by their registers. Make the capture of your machine once
# (`rigmem capture -o machine.json` on it, as root); the tests then run anywhere, with the same addresses
# every time.
#
#   MACHINE=machine.json bats smoke.bats
#
# RIGMEM names another rigmem than the one in PATH. GPUs and adapters are named by alias (`rigmem -m
# machine.json list`). The tests take gpu0 and gpu1 for peers, and nic0 for an adapter that reaches gpu0:
# `rigmem -m machine.json reach` shows which are; put the names of yours.

setup() {
    rigmem=${RIGMEM:-rigmem}
    machine=${MACHINE:-$BATS_TEST_DIRNAME/machines/server-8gpu.json}
    # The session lives in this file from `open` to `close`; each command is one transaction on it.
    export RIGMEM_STATE=$BATS_TEST_TMPDIR/session.json
    # --master turns bus mastering on, so that the GPUs' own work (peek and poke --by) gets through.
    "$rigmem" -q -m "$machine" open gpu0 gpu1 --master
}

teardown() {
    # Also after a failure, also while an adapter could still write. There may be no session any more.
    "$rigmem" -q close --force 2>/dev/null || :
}

# The first value of a key in the JSON document on standard input.
value() {
    grep -o "\"$1\":[^,}]*" | head -n 1 | cut -d : -f 2- | tr -d '"'
}

# The bytes that peek shows, in hex without spaces: bytes REGION OFFSET LENGTH [--by FUNCTION].
bytes() {
    "$rigmem" -j peek "$@" | value data
}

@test "memory of the three kinds has an address that the GPU's tables map, and keeps its bytes" {
    for kind in gpu bar host; do
        # text output: ID ADDRESS SIZE...; --name gives the region a name for later commands
        read -r id address _ < <("$rigmem" alloc gpu0 $kind 64K --name $kind)
        [[ $id == r* ]]
        # walk exits 0 where the address is mapped, 1 where it is not
        "$rigmem" -q walk gpu0 "$address"
        "$rigmem" -q poke $kind --data c0ffee
        # what the GPU's work sees, through its translation cache and tables
        [ "$(bytes $kind 0 3 --by gpu0)" = c0ffee ]
    done
}

@test "a peer reads what the owner wrote, and the memory stays until both have freed it" {
    # the owner frees first: the memory is kept for the peer, and free says so
    "$rigmem" -q alloc gpu0 gpu 64K --name shared
    "$rigmem" -q map-peer gpu1 shared --name view
    "$rigmem" -q poke shared --data 0123456789
    [ "$(bytes view 0 5 --by gpu1)" = 0123456789 ]
    run "$rigmem" free shared
    [ "$status" -eq 0 ]
    [[ ${lines[1]} == "r1 is kept: "*" maps it" ]]
    [ "$(bytes view 0 5 --by gpu1)" = 0123456789 ]
    "$rigmem" -q free view
    # the peer frees first: nothing is left
    "$rigmem" -q alloc gpu0 gpu 64K --name shared
    "$rigmem" -q map-peer gpu1 shared --name view
    "$rigmem" -q free view
    [ "$("$rigmem" free shared)" = "freed r3" ]
}

@test "a network adapter writes where bus said, and the GPU reads it" {
    "$rigmem" -q alloc gpu0 gpu 64K --name target
    # ADDRESS+LENGTH, one line a run: what the adapter's driver is given
    [[ $("$rigmem" bus target nic0) == 0x*+0x10000 ]]
    "$rigmem" -q poke target 4096 --data feed --by nic0
    [ "$(bytes target 4096 2 --by gpu0)" = feed ]
    # nobody else gets memory that an adapter may still write, also not after its free
    run "$rigmem" free target
    [[ ${lines[1]} == "r1 is kept: reserved for "* ]]
    # and the session does not end while it may: refusals exit 3
    run "$rigmem" close
    [ "$status" -eq 3 ]
}

@test "after its free the GPU reaches memory no more" {
    address=$("$rigmem" -j alloc gpu0 gpu 64K --name short | value address)
    "$rigmem" -q peek short --by gpu0
    "$rigmem" -q free short
    run "$rigmem" peek gpu0 "$address" --by gpu0
    [ "$status" -eq 3 ]
    run "$rigmem" -q walk gpu0 "$address"
    [ "$status" -eq 1 ]
}

@test "a flush that the GPU never confirms keeps what was freed, until the GPU is closed" {
    "$rigmem" -q alloc gpu0 gpu 64K
    "$rigmem" -q fault flush=never
    run "$rigmem" free r1
    [ "$status" -eq 0 ]
    [[ ${lines[1]} == "r1 is kept: "* ]]
    # closed, it gives all back; opened again it starts anew
    "$rigmem" -q close gpu0
    "$rigmem" -q open gpu0
    shown=$("$rigmem" -j show)
    [[ $shown == *'"regions":[]'* ]]
}

@test "what is refused or finds no room takes nothing" {
    before=$("$rigmem" -j show gpu0)
    "$rigmem" -q fault noroom=1
    run "$rigmem" alloc gpu0 host 64K
    [ "$status" -eq 4 ]
    "$rigmem" -q fault refuse=1
    run "$rigmem" alloc gpu0 host 64K
    [ "$status" -eq 3 ]
    [ "$("$rigmem" -j show gpu0)" = "$before" ]
}

@test "a GPU that falls off the bus fails what asks it, and the session still ends" {
    "$rigmem" -q alloc gpu0 gpu 64K
    "$rigmem" -q fault gone=gpu0
    run "$rigmem" alloc gpu0 gpu 64K
    [ "$status" -eq 7 ]
    "$rigmem" -q alloc gpu1 gpu 64K
    "$rigmem" -q close --force
    [ ! -e "$RIGMEM_STATE" ]
}
