#!/usr/bin/env bats
# Who holds what, played by hand: each thing that is held, each holder, each event. What must come of
# it follows from what the devices can still reach, which the twin shows by `peek --by` and `walk`.

setup() {
    : "${RIGMEM:?names the program under test}"
    machine=$BATS_TEST_DIRNAME/machines/server-8gpu.json
    coproc ASK { python3 "$BATS_TEST_DIRNAME/ask.py" "$RIGMEM"; }
    # subshells see these
    exec 8>&"${ASK[1]}" 9<&"${ASK[0]}"
    asked=$ASK_PID
    eval "exec ${ASK[1]}>&- ${ASK[0]}<&-"
}

teardown() {
    exec 8>&-
    wait "$asked"
}

# ask EXPRESSION COMMAND...: the status is the command's, $answer what its result makes of the expression,
# or the error.
ask() {
    local expression=$1 code
    shift
    printf '%s\t%s\n' "$expression" "$*" >&8
    IFS=$'\t' read -r code answer <&9 || return 99
    return "$code"
}

# The result of a command by a Python expression over r.
result() {
    ask "$@" || return
    printf '%s\n' "$answer"
}

q() {
    ask '' "$@"
}

open_two() {
    q open -m "$machine" gpu0 gpu1 "$@"
}

free_bytes() {
    result 'r["gpus"][0]["free_bytes"]' show "$1"
}

life() {
    result 'r["gpus"][0]["life"]' show "$1"
}

# Is the address mapped for the GPU?
mapped() {
    q walk "$1" "$2"
}

# fails CODE TEXT COMMAND...: it does, with that text, and changes nothing that is shown.
fails() {
    local code=$1 text=$2 status=0
    shift 2
    local before
    before=$(result 'json.dumps(r)' show)
    q "$@" || status=$?
    [ "$status" -eq "$code" ]
    [[ $answer == *"$text"* ]]
    [ "$(result 'json.dumps(r)' show)" = "$before" ]
}

misuse() {
    fails 2 "$@"
}

refused() {
    fails 3 "$@"
}

# ---- alloc, map-host, map-peer: all or nothing

@test "a request that is refused or finds no room at any step has taken nothing" {
    open_two
    q alloc gpu0 host 64K --name lent
    at=$(result 'r["regions"][0]["host"]["address"]' show lent)
    before=$(result 'json.dumps(r)' show)
    for request in "alloc gpu0 host 64K" "alloc gpu0 bar 64K" "alloc gpu0 gpu 9M" "map-host gpu0 $at 8K" \
        "map-peer gpu1 lent"; do
        for kind in refuse noroom; do
            done=
            for step in 1 2 3 4 5 6 7 8; do
                q fault $kind=$step
                status=0
                q "$request" || status=$?
                if [ "$status" -eq 0 ]; then
                    # past its last step that can be so
                    q free @last
                    done=1
                    break
                fi
                if [ $kind = refuse ]; then [ "$status" -eq 3 ]; else [ "$status" -eq 4 ]; fi
                [ "$(result 'json.dumps(r)' show)" = "$before" ]
            done
            [ -n "$done" ]
            before=$(result 'json.dumps(r)' show)
        done
    done
}

@test "what a request that was cut short took stays with the GPU until it is closed, and goes back then" {
    open_two
    all=$(free_bytes gpu0)
    for step in 1 2 3 4 5 6 7 8 9; do
        q fault cut=$step
        status=0
        q alloc gpu0 gpu 1M || status=$?
        if [ "$status" -eq 0 ]; then break; fi
        [ "$status" -eq 7 ]
        [ "$(result 'len(r["regions"])' show)" = 0 ]
    done
    [ "$status" -eq 0 ]
    [ "$step" -gt 1 ]
    [ "$(free_bytes gpu0)" -lt $((all - 1048576)) ]
    q close gpu0
    q open gpu0
    [ "$(free_bytes gpu0)" = "$all" ]
}

# ---- several regions over one mapping

@test "mapped again for the same peer it is a region over the same mapping, which goes with the last" {
    open_two --master
    q alloc gpu0 gpu 64K
    at=$(result 'r["region"]["address"]' map-peer gpu1 r1)
    [ "$(result '(r["region"]["address"], r["region"]["of"])' map-peer gpu1 r1)" = "('$at', 'r1')" ]
    # a peer's region stands for what it maps
    [ "$(result 'r["region"]["of"]' map-peer gpu1 r2)" = r1 ]
    [ "$(result 'r["kept"]' free r2)" = "[]" ]
    mapped gpu1 "$at"
    q free r4
    mapped gpu1 "$at"
    q free r3
    run mapped gpu1 "$at"
    [ "$status" -eq 1 ]
    run q peek gpu1 "$at" 0 1 --by gpu1
    [ "$status" -eq 3 ]
}

@test "the owner's map-peer of its own memory lies over the owner's mapping" {
    open_two
    q alloc gpu0 gpu 64K
    bytes=$(free_bytes gpu0)
    at=$(result 'r["region"]["address"]' map-peer gpu0 r1)
    [ "$(free_bytes gpu0)" = "$bytes" ]
    [ "$(result '(r["freed"], r["kept"])' free r1)" = "(['r1'], [])" ]
    mapped gpu0 "$at"
    # the original is freed: nothing maps it any more by its region
    misuse "freed" map-peer gpu1 r1
    misuse "freed" map-peer gpu1 r2
    q free r2
    run mapped gpu0 "$at"
    [ "$status" -eq 1 ]
}

@test "a map-peer that was cut short is taken over by the next one of the same memory" {
    open_two --master
    q alloc gpu0 gpu 64K
    q poke r1 --data c0ffee
    for step in 1 2 3 4 5 6 7 8 9; do
        q fault cut=$step
        status=0
        q map-peer gpu1 r1 || status=$?
        if [ "$status" -eq 0 ]; then break; fi
        [ "$status" -eq 7 ]
        q map-peer gpu1 r1
        [ "$(result 'r["data"]' peek @last 0 3 --by gpu1)" = c0ffee ]
        q free @last
    done
    [ "$status" -eq 0 ]
    [ "$step" -gt 1 ]
}

# ---- refusals of map-peer

@test "map-peer is refused where no requests get through, naming why" {
    q open -m "$machine" gpu0 gpu2
    q alloc gpu0 gpu 4K
    refused "0000:09:00.0: the bus does not carry its requests to 0000:03:00.0" map-peer gpu2 r1
    [[ $answer == *": rigmem reach 0000:09:00.0 0000:03:00.0 --why"* ]]
    # system memory is reached all the same
    q alloc gpu0 host 4K
    q map-peer gpu2 r2
}

@test "map-peer is refused behind a translating IOMMU, and where the BAR shows too little" {
    q open -m "$machine" --iommu gpu1=translate gpu0 gpu1
    q alloc gpu0 gpu 4K
    refused "0000:04:00.0: it is behind an IOMMU that translates its requests" map-peer gpu1 r1
    q close
    open_two --gpu-memory gpu0=32GiB
    q alloc gpu0 gpu 4K
    refused "0000:03:00.0: its memory BAR shows 16 GiB of 32 GiB of memory" map-peer gpu1 r1
    q alloc gpu1 gpu 4K
    q map-peer gpu0 r2
}

@test "map-peer of a GPU of another vendor's space is refused, naming both spaces" {
    q open -m "$machine" gpu0
    q open gpu1 --format amd-gfx9
    q alloc gpu0 gpu 4K
    refused "from the space of amd, those of 0000:03:00.0 from that of nvidia" map-peer gpu1 r1
}

@test "map-peer of memory of a GPU that was released is refused, naming it" {
    open_two
    q alloc gpu0 gpu 4K
    q alloc gpu0 host 4K
    q close gpu0
    refused "0000:03:00.0" map-peer gpu1 r1
    refused "0000:03:00.0" map-peer gpu1 r2
}

# ---- frees

@test "a flush that is late or never confirmed keeps all of it until the GPU is closed" {
    open_two --master
    for flush in late never; do
        before=$(free_bytes gpu0)
        at=$(result 'r["region"]["address"]' alloc gpu0 gpu 64K)
        q peek @last 0 1 --by gpu0
        q fault flush=$flush
        [ "$(result 'len(r["kept"])' free @last)" = 1 ]
        [ "$(free_bytes gpu0)" -lt $((before - 65535)) ]
        if [ $flush = never ]; then
            # the entry is gone from the tables, and the cache still has it
            run mapped gpu0 "$at"
            [ "$status" -eq 1 ]
            q peek gpu0 "$at" 0 1 --by gpu0
        fi
        q fault flush=ok
        # nothing that is freed later brings it back
        q alloc gpu0 gpu 64K
        q free @last
        [ "$(result 'len(r["regions"])' show)" -ge 1 ]
    done
    q close gpu0
    [ "$(result 'r["regions"]' show gpu0)" = "[]" ]
    q open gpu0
}

@test "the owner's last free while a peer maps the memory keeps it, until the owner's next call after the peer's free" {
    open_two
    all=$(free_bytes gpu0)
    at=$(result 'r["region"]["address"]' alloc gpu0 gpu 1M)
    q map-peer gpu1 r1
    held=$(free_bytes gpu0)
    [ "$(result 'r["kept"]' free r1)" = "[{'id': 'r1', 'why': '0000:04:00.0 maps it'}]" ]
    run mapped gpu0 "$at"
    [ "$status" -eq 1 ]
    mapped gpu1 "$at"
    # the owner's tables may be gone, the memory is not
    [ "$(free_bytes gpu0)" -lt $((held + 1048576)) ]
    [ "$(result 'r["freed"]' free r2)" = "['r2']" ]
    # not at the peer's free, not by looking
    [ "$(result '[(x["id"], x["state"]) for x in r["regions"]]' show)" = "[('r1', 'kept')]" ]
    [ "$(free_bytes gpu0)" -lt $((held + 1048576)) ]
    # at the owner's next call, before it looks for room itself
    [ "$(result 'r["region"]["address"]' alloc gpu0 gpu 1M)" = "$at" ]
    [ "$(result '[x["id"] for x in r["regions"]]' show)" = "['r3']" ]
    q free r3
    [ "$(free_bytes gpu0)" = "$all" ]
}

@test "the peer's free first leaves the owner's memory as it is" {
    open_two
    all=$(free_bytes gpu0)
    at=$(result 'r["region"]["address"]' alloc gpu0 bar 64K)
    q map-peer gpu1 r1
    q free r2
    run mapped gpu1 "$at"
    [ "$status" -eq 1 ]
    mapped gpu0 "$at"
    [ "$(result 'r["kept"]' free r1)" = "[]" ]
    [ "$(free_bytes gpu0)" = "$all" ]
}

@test "a peer's free that its GPU does not confirm keeps the owner's memory until the owner is closed" {
    open_two --master
    at=$(result 'r["region"]["address"]' alloc gpu0 gpu 64K)
    q map-peer gpu1 r1
    q poke r1 --data 11
    q peek r2 0 1 --by gpu1
    q fault gpu1:flush=never
    [ "$(result '[k["id"] for k in r["kept"]]' free r2)" = "['r2']" ]
    # the peer still reaches it
    q peek gpu1 "$at" 0 1 --by gpu1
    [ "$(result '[k["id"] for k in r["kept"]]' free r1)" = "['r1']" ]
    held=$(free_bytes gpu0)
    q alloc gpu0 gpu 64K --name other
    [ "$(result 'r["regions"][0]["address"]' show other)" != "$at" ]
    q free other
    [ "$(free_bytes gpu0)" = "$held" ]
}

@test "system memory stays for a peer after the owner's free and release" {
    open_two --master
    q alloc gpu0 host 8K --name ring
    q poke ring --data beef
    q map-peer gpu1 ring --name view
    [ "$(result 'r["freed"]' free ring)" = "['r1']" ]
    [ "$(result 'r["data"]' peek view 0 2 --by gpu1)" = beef ]
    q close gpu0
    [ "$(life gpu0)" = stopped ]
    [ "$(result 'r["data"]' peek view 0 2 --by gpu1)" = beef ]
    q free view
    [ "$(result 'r["regions"]' show)" = "[]" ]
}

@test "what was borrowed stays pinned for whoever mapped it, once a mapping" {
    open_two --master
    q alloc gpu0 host 8K --name ring
    at=$(result 'r["regions"][0]["host"]["address"]' show ring)
    q map-host gpu0 "$at" 8K --name one
    q map-host gpu1 "$at" 8K --name two
    [ "$(result 'r["regions"][0]["address"] == r["regions"][1]["address"]' show gpu0)" = False ]
    q free ring
    q poke one --data 4242 --by gpu0
    [ "$(result 'r["data"]' peek two 0 2 --by gpu1)" = 4242 ]
    q free one
    [ "$(result 'r["data"]' peek two 0 2 --by gpu1)" = 4242 ]
    # its pages are not given out before the last unpin
    q alloc gpu0 host 8K --name new
    [ "$(result 'r["data"]' peek new 0 2)" = 0000 ]
    q poke new --data ffff
    [ "$(result 'r["data"]' peek two 0 2 --by gpu1)" = 4242 ]
}

# ---- releases, kept taken, taken again

@test "a region that is out after its GPU was given back reaches nothing, also where its address is used again" {
    open_two --master
    q alloc gpu0 gpu 8K --name far
    for kind in gpu bar host; do
        q alloc gpu1 "$kind" 8K --name "old-$kind"
    done
    q map-peer gpu1 far --name old-peer
    q close gpu1
    reaches_nothing() {
        for name in old-gpu old-bar old-host old-peer; do
            for words in "peek $name 0 1" "peek $name 0 1 --by gpu1" "poke $name --data ee --by gpu0" \
                "poke $name --data ee --by nic0"; do
                # shellcheck disable=SC2086
                misuse "it was released, and the region's memory went back with it" $words
            done
        done
    }
    reaches_nothing
    [ "$(result '[(x["name"], x["state"], x["gone"]) for x in r["regions"] if x["gone"] or x["name"] == "far"]' show)" = \
        "[('far', 'out', False), ('old-gpu', 'out', True), ('old-bar', 'out', True), ('old-host', 'out', True), \
('old-peer', 'out', True)]" ]
    # the same addresses once more, of the GPU that was taken again
    q open gpu1 --master
    for kind in gpu bar host; do
        q alloc gpu1 "$kind" 8K --name "new-$kind"
        [ "$(result 'r["regions"][0]["address"]' show "old-$kind")" = \
            "$(result 'r["regions"][0]["address"]' show "new-$kind")" ]
    done
    q map-peer gpu1 far --name new-peer
    reaches_nothing
    for name in new-gpu new-bar new-host new-peer; do
        [ "$(result 'r["data"]' peek "$name" 0 1 --by gpu1)" = 00 ]
    done
    [ "$(result 'sum(x["gone"] for x in r["regions"])' show)" = 4 ]
    q free old-gpu old-bar old-host old-peer
    [ "$(result 'r["data"]' peek new-peer 0 1 --by gpu1)" = 00 ]
}

@test "a GPU is released and taken again, with all of its memory" {
    open_two
    all=$(free_bytes gpu0)
    q alloc gpu0 gpu 1M
    q alloc gpu0 host 4K
    [ "$(result '[(g["alias"], g["life"]) for g in r["gpus"]]' close gpu0)" = \
        "[('gpu0', 'stopped'), ('gpu1', 'taken')]" ]
    for words in 'alloc gpu0 gpu 4K' 'walk gpu0 0x300000000000' 'map-peer gpu0 r1' 'map-host gpu0 0x300000000000 4K'; do
        misuse "the session does not have this GPU" "$words"
    done
    # the regions end by their frees, which give nothing back any more
    q free r1 r2
    q open gpu0
    [ "$(life gpu0)" = taken ]
    [ "$(free_bytes gpu0)" = "$all" ]
    [ "$(result 'r["region"]["id"]' alloc gpu0 gpu 4K)" = r3 ]
}

@test "regions of the GPU before it was taken again are another GPU's" {
    open_two
    q alloc gpu0 gpu 64K
    q close gpu0
    q open gpu0
    refused "0000:03:00.0" map-peer gpu0 r1
    refused "0000:03:00.0" map-peer gpu1 r1
    misuse "released" bus r1 nic0
    q free r1
    misuse "r1" free r1
}

@test "a GPU whose memory a peer maps stays taken after its release, until the peer's last free" {
    open_two --master
    q alloc gpu0 gpu 64K
    q poke r1 --data abcd
    q map-peer gpu1 r1
    q map-peer gpu1 r1
    q close gpu0
    [ "$(life gpu0)" = kept-taken ]
    refused "0000:04:00.0" open gpu0
    [ "$(result 'r["data"]' peek r2 0 2 --by gpu1)" = abcd ]
    q free r1
    q free r2
    [ "$(life gpu0)" = kept-taken ]
    q free r3
    q open gpu0
    [ "$(life gpu0)" = taken ]
}

@test "a peer's release ends its mappings, so that the owner can go on" {
    open_two
    all=$(free_bytes gpu0)
    q alloc gpu0 gpu 1M
    q map-peer gpu1 r1
    q close gpu1
    [ "$(life gpu1)" = stopped ]
    [ "$(result 'r["kept"]' free r1)" = "[]" ]
    [ "$(free_bytes gpu0)" = "$all" ]
    q free r2
}

@test "both released, the peer last: the owner's function goes back by itself" {
    open_two
    q alloc gpu0 gpu 64K
    q map-peer gpu1 r1
    q close gpu0
    [ "$(life gpu0)" = kept-taken ]
    q close gpu1
    [ "$(result '[g["life"] for g in r["gpus"]]' show)" = "['stopped', 'stopped']" ]
    q open gpu0 gpu1
}

@test "in a session reach answers as map-peer does, whatever the formats, sizes and links that GPUs were opened with" {
    q open -m "$machine" --gpu-memory gpu3=32GiB gpu0 gpu2 gpu3
    q open gpu1 --format amd-gfx9
    q open gpu4 gpu6 --format plain --link 3:gpu4,gpu6
    q open gpu5 --format plain
    local gpus="gpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6" all=""
    for owner in $gpus; do
        q alloc "$owner" gpu 4K --name "of-$owner"
    done
    for by in $gpus; do
        for owner in $gpus; do
            [ "$by" != "$owner" ] || continue
            status=0
            q -n map-peer "$by" "of-$owner" || status=$?
            # yes is 0, refused 3
            answer=$(result 'r["pairs"][0]["answer"], r["pairs"][0]["gate"]' reach "$by" "$owner") || :
            [ "$status" -eq 0 ] || [ "$status" -eq 3 ]
            [[ "$answer" == "('yes', "* ]] && yes=0 || yes=3
            all+=$yes
            [ "$status" -eq "$yes" ] || { echo "$by $owner: $answer, map-peer $status"; return 1; }
        done
    done
    [[ $all == *0*3*0* ]]
    [ "$(result 'r["pairs"][0]["gate"]' reach gpu1 gpu0 || :)" = other-space ]
    [ "$(result 'r["pairs"][0]["answer"]' reach gpu4 gpu6)" = yes ]
}

# ---- bus

@test "bus gives the BAR's address plus the memory's, and the pages of system memory, in runs of 4 KiB" {
    open_two
    # BAR 1 of gpu0 lies at 0x381000000000 (topo says so)
    bar=$(result 'r["functions"][0]["bars"][1]["address"]' list gpu0)
    q alloc gpu0 gpu 64K
    page=$(result 'r["regions"][0]["pages"][0]["address"]' show r1)
    [ "$(result 'r["runs"]' bus r1 nic0)" = "[{'address': '$(printf '0x%x' $((bar + page)))', 'bytes': 65536}]" ]
    q alloc gpu0 host 12K
    [ "$(result 'r["runs"]' bus r2 0000:05:00.0)" = "$(result 'r["regions"][0]["pages"]' show r2)" ]
    [ "$(result 'r["client"]' bus r2 nic0)" = 0000:05:00.0 ]
    [ "$(result '[(x["region"], x["client"]) for x in r["reservations"]]' show)" = \
        "[('r1', '0000:05:00.0'), ('r2', '0000:05:00.0')]" ]
    # asked again, for the same and for another
    q bus r1 nic0
    q bus r1 nvme0
    [ "$(result 'len(r["reservations"])' show)" = 3 ]
}

@test "bus is refused, reserving nothing, where the client cannot reach the memory" {
    q open -m "$machine" --iommu nvme0=translate --gpu-memory gpu1=32GiB gpu0 gpu1
    q alloc gpu0 gpu 4K
    q alloc gpu1 gpu 4K
    for client in 05:00 no-such 0000:ff:1f.7 gpu9; do
        refused "" bus r1 $client
    done
    refused "0000:03:00.0: it is the GPU whose memory it is" bus r1 gpu0
    refused "IOMMU" bus r1 nvme0
    refused "its memory BAR shows 16 GiB of 32 GiB" bus r2 nic0
    refused "the bus does not carry its requests" bus r1 nic1
    [ "$(result 'r["reservations"]' show)" = "[]" ]
    [ "$(result 'r["kept"]' free r1 r2)" = "[]" ]
}

@test "bus of what alloc did not give, or of a region that ended, is misuse" {
    open_two
    q alloc gpu0 gpu 4K
    q map-peer gpu1 r1
    q alloc gpu0 host 4K
    q map-host gpu0 "$(result 'r["regions"][0]["host"]["address"]' show r3)" 4K
    misuse "" bus r2 nic0
    misuse "" bus r4 nic0
    q free r1
    misuse "freed" bus r1 nic0
    misuse "" bus r9 nic0
    q close gpu0
    misuse "released" bus r3 nic0
}

@test "the free of a reserved region gives nothing back, whoever maps it, until the session ends" {
    open_two --master
    at=$(result 'r["region"]["address"]' alloc gpu0 gpu 64K)
    q map-peer gpu1 r1
    q bus r1 nic0
    page=$(result 'r["regions"][0]["pages"][0]["address"]' show r1)
    q free r1
    [ "$(result 'r["regions"][0]["kept"]' show r1)" = "reserved for 0000:05:00.0; 0000:04:00.0 maps it" ]
    run mapped gpu0 "$at"
    [ "$status" -eq 1 ]
    # the peer goes on, and frees as always
    q poke r2 --data 77 --by gpu1
    q free r2
    q alloc gpu0 gpu 64K
    [ "$(result 'r["regions"][-1]["pages"][0]["address"]' show)" != "$page" ]
    [ "$(result 'r["regions"][0]["kept"]' show r1)" = "reserved for 0000:05:00.0" ]
}

@test "a GPU with a reservation stays taken after its release, and nothing of it goes back" {
    open_two --master
    q alloc gpu0 gpu 64K --name given
    q alloc gpu0 gpu 64K --name own
    q bus given nic0
    q close gpu0
    [ "$(life gpu0)" = kept-taken ]
    refused "0000:05:00.0" open gpu0
    # what is freed later goes back, but for what was reserved
    held=$(free_bytes gpu0)
    [ "$(result 'r["kept"]' free own)" = "[]" ]
    [ "$(free_bytes gpu0)" = $((held + 65536)) ]
    [ "$(result '[k["why"] for k in r["kept"]]' free given)" = "['reserved for 0000:05:00.0']" ]
    refused "0000:05:00.0" open gpu0
}

@test "the session does not end while a client may still write what it was given, unless by force" {
    open_two --master
    q alloc gpu0 gpu 4K
    q bus r1 nic0
    q free r1
    refused "0000:05:00.0: it was given memory of r1 and still masters the bus" close
    [[ $answer == *": a driver would stop it; on a twin nothing does: close --force"* ]]
    [ "$(life gpu0)" = taken ]
    [ "$(result 'r' close --force)" = "{'closed': True, 'regions': 0}" ]
    run q show
    [ "$status" -eq 2 ]
}

@test "a GPU of the session that was given memory holds up no end: it masters no more before any goes back" {
    for client in gpu1 gpu0; do
        open_two --master
        q alloc gpu0 host 4K --name one
        q bus one $client
        q alloc gpu0 gpu 4K --name two
        q bus two gpu1
        [ "$(result 'r' close)" = "{'closed': True, 'regions': 2}" ]
    done
}
