#!/usr/bin/env bats
# The memory commands one by one: their options, what they print, their documents, their exit codes.

setup() {
    : "${RIGMEM:?names the program under test}"
    machine=$BATS_TEST_DIRNAME/machines/server-8gpu.json
    cd "$BATS_TEST_TMPDIR" || return
    export RIGMEM_STATE=$PWD/s.json
}

q() {
    "$RIGMEM" -q "$@"
}

open_two() {
    q -m "$machine" open gpu0 gpu1 "$@"
}

# steps SCRIPT CHECK: runs the script in one process, and Python on its steps: s[0] is the first's result.
steps() {
    RIGMEM_STATE='' "$RIGMEM" -j -k -m "$machine" -c "$1" >document 2>errors || :
    python3 -c "import json
document = json.load(open('document'))
s = [step.get('result', step.get('error')) for step in document['steps']]
$2"
}

@test "a region's document has every key, and what it holds" {
    steps 'open gpu0 gpu1; alloc gpu0 gpu 5000 --uncached --name a; alloc gpu0 bar 8MiB; alloc gpu0 host 1
map-peer gpu1 a; map-host gpu1 0x300000000000 1; free r1; show' '
keys = {"id", "name", "gpu", "source", "kind", "of", "address", "bytes", "uncached", "target", "pages", "host",
        "state", "kept", "gone"}
gpu, bar, host, peer = [x["region"] for x in s[1:5]]
for region in gpu, bar, host, peer:
    assert set(region) == keys, region
    assert region["state"] == "out" and region["kept"] is None and region["gone"] is False
    assert sum(p["bytes"] for p in region["pages"]) == region["bytes"]
assert (gpu["id"], gpu["name"], gpu["gpu"]) == ("r1", "a", "0000:03:00.0")
assert (gpu["source"], gpu["kind"], gpu["target"], gpu["of"], gpu["host"]) == ("allocated", "gpu", "gpu", None, None)
# rounded to 4 KiB, from 8 MiB on to 2 MiB, host memory to the page
assert (gpu["bytes"], bar["bytes"], host["bytes"]) == (8192, 8 << 20, 4096)
assert gpu["uncached"] and not bar["uncached"] and host["uncached"]
assert bar["name"] is None and bar["kind"] == "bar"
# the BAR of a twin has no address in the process
assert bar["host"] is None
assert set(host["host"]) == {"address", "bytes", "path", "offset"} and host["host"]["bytes"] == 4096
assert (host["kind"], host["target"], host["host"]["address"]) == ("host", "system", host["address"])
assert (peer["source"], peer["of"], peer["kind"], peer["target"], peer["gpu"]) == \
    ("peer", "r1", "gpu", "peer", "0000:04:00.0")
assert peer["address"] == gpu["address"]
# an address of no host region is refused
assert s[5]["code"] == 3 and s[5]["kind"] == "refused"
assert s[6] == {"freed": ["r1"], "kept": [{"id": "r1", "why": "0000:04:00.0 maps it"}]}
kept = [r for r in s[7]["regions"] if r["id"] == "r1"][0]
assert kept["state"] == "kept" and kept["kept"] == "0000:04:00.0 maps it"
'
}

@test "open and show tell the session, the GPUs, the regions and the reservations" {
    steps 'open gpu0 gpu1 --link 2:gpu0,gpu1 --gpu-memory gpu1=8GiB --combine; alloc gpu0 gpu 4K; bus r1 nic0
show; show gpu1; show r1; show r9' '
assert set(s[0]) == {"session", "gpus", "regions", "reservations"}
assert set(s[0]["session"]) >= {"machine", "kind", "state_file"}
assert s[0]["session"]["kind"] == "twin" and s[0]["session"]["state_file"] is None
assert s[0]["session"]["machine"].endswith("/server-8gpu.json")
a, b = s[0]["gpus"]
assert set(a) >= {"function", "alias", "format", "memory", "memory_bar", "bar_bytes", "link", "free_bytes", "root",
                  "life"}
assert (a["function"], a["alias"], a["format"], a["life"]) == ("0000:03:00.0", "gpu0", "nv-mmu-v2", "taken")
assert (a["memory"], b["memory"], a["bar_bytes"], a["memory_bar"]) == (16 << 30, 8 << 30, 16 << 30, 1)
assert (a["link"]["fabric"], b["link"]["fabric"]) == (2, 2) and a["link"]["place"] != b["link"]["place"]
assert a["root"].startswith("0x") and 0 < a["free_bytes"] < a["memory"]
assert s[2] == {"client": "0000:05:00.0", "runs": s[2]["runs"]} and s[2]["runs"][0]["bytes"] == 4096
assert s[3]["reservations"] == [{"region": "r1", "gpu": "0000:03:00.0", "client": "0000:05:00.0"}]
assert [g["alias"] for g in s[4]["gpus"]] == ["gpu1"] and s[4]["regions"] == []
assert [r["id"] for r in s[5]["regions"]] == ["r1"]
assert s[6]["code"] == 2 and s[6]["hint"] == "rigmem show lists what there is"
'
}

@test "peek, poke and walk have their documents, by the process, a GPU, and DMA" {
    steps 'open gpu0 --master; alloc gpu0 gpu 64K; poke r1 16 --data 0x00ff_12AB; peek r1 14 6; peek gpu0 0x300000000010 0 2 --by gpu0
poke r1 --fill 0x5a --length 3; peek r1 0 4; poke r1 100 --data 77 --by nic0; peek r1 100 1; walk gpu0 0x300000000123
walk gpu0 0x300000010000; peek gpu0 0x300000010000 --by gpu0; peek r1 0 8 --by gpu9; peek r1 64K; peek r1 0 0' '
assert s[2] == {"address": "0x300000000010", "bytes": 4}
assert s[3] == {"address": "0x30000000000e", "bytes": 6, "data": "000000ff12ab"}
assert s[4] == {"address": "0x300000000010", "bytes": 2, "data": "00ff"}
assert s[5] == {"address": "0x300000000000", "bytes": 3} and s[6]["data"] == "5a5a5a00"
assert s[8]["data"] == "77"
w = s[9]
assert set(w) == {"address", "levels", "end"} and w["address"] == "0x300000000123"
# the five levels of that format, each table where the entry before it says
assert [l["level"] for l in w["levels"]] == ["PDE3", "PDE2", "PDE1", "PDE0", "PT64K"]
for above, below in zip(w["levels"], w["levels"][1:]):
    assert set(above) == {"level", "table", "index", "entry", "fields"}
    assert above["fields"]["kind"] == "directory" and above["fields"]["address"] == below["table"]
assert w["levels"][1]["index"] == 0x300000000000 >> 38 & 511
leaf = w["levels"][-1]["fields"]
assert (leaf["kind"], leaf["bytes"], leaf["memory"]) == ("leaf", 65536, "own")
# the exact byte, and what is left of its page
assert w["end"] == {"target": "gpu", "address": hex(int(leaf["address"], 16) + 0x123), "bytes": 65536 - 0x123}
assert s[10]["end"] is None and document["steps"][10]["exit"] == 1 and document["steps"][10]["ok"]
# an access that the tables do not carry is refused, naming the level
assert s[11]["code"] == 3 and "PT64K" in s[11]["why"] + s[11]["what"], s[11]
assert [x["code"] for x in s[12:]] == [2, 2, 2]
'
}

@test "poke takes --data HEX, or --fill BYTE with --length N, and nothing else" {
    open_two
    q alloc gpu0 gpu 4K
    for words in '' '--data 0' '--data 0g' '--data' '--fill 1' '--length 4' '--fill 256 --length 1' '--fill 1 --length 0' \
        '--data 00 --fill 1 --length 1' '--data 00 --length 1' '4095 --data 0011' '0 1 --data 00' '--fill 1 --length 1T'; do
        # shellcheck disable=SC2086 # words
        run "$RIGMEM" poke r1 $words
        [ "$status" -eq 2 ]
    done
    [ "$("$RIGMEM" poke r1 4094 --data 0011)" = "2 bytes at 0x300000000ffe" ]
    [ "$("$RIGMEM" poke r1 --fill 7 --length 1)" = "1 byte at 0x300000000000" ]
    [[ $("$RIGMEM" peek r1) == "0x300000000000  07 00"* ]]
}

@test "an access by a device that the fabric does not carry is refused, naming the hop" {
    open_two
    q alloc gpu0 gpu 4K
    # the GPUs do not master the bus
    q alloc gpu0 host 4K
    run "$RIGMEM" peek r2 --by gpu0
    [ "$status" -eq 3 ]
    [[ $output == *"0000:03:00.0: "*master* ]]
    # behind another switch, under another root port: by the CPU, which is on no list
    run "$RIGMEM" peek r1 --by nic1
    [ "$status" -eq 3 ]
    [[ $output == *"rigmem: peek: root complex: it drops peer requests from below root bus 0000:00"* ]]
}

@test "map-host borrows what a host region or a file holds, and says what it borrowed" {
    truncate -s 10000 data
    q -m "$machine" --iommu gpu0=translate open gpu0 --master
    # FILE to its end, from an offset, so many bytes
    for words in "--file data:10000:0" "--file data --offset 100:9900:100" "--file data --offset 0x1000 12:12:4096"; do
        IFS=: read -r arguments bytes offset <<<"$words"
        # shellcheck disable=SC2086 # words
        "$RIGMEM" -j map-host gpu0 $arguments >out
        python3 - "$bytes" "$offset" "$PWD/data" <<'EOF_PY'
import json, sys
r = json.load(open("out"))["result"]["region"]
assert r["source"] == "borrowed" and r["kind"] is None and r["target"] == "system" and r["uncached"]
assert (r["bytes"], r["host"]["bytes"]) == (int(sys.argv[1]),) * 2
assert (r["host"]["path"], r["host"]["offset"]) == (sys.argv[3], int(sys.argv[2]))
# the address keeps the byte's place in its page
assert int(r["address"], 16) % 4096 == int(sys.argv[2]) % 4096
EOF_PY
    done
    for words in '--file data 10001:3' '--file data --offset 10000:3' '--file none:3' '--file .:3' '--file data 0:2' \
        '--offset 4 0x1000 4K:2' '0x1000:2' ':2' '0x1000 4K:3' '0x300000000000 0:2' '--file data 1 2:2' 'here 4K:2'; do
        # shellcheck disable=SC2086 # words
        run "$RIGMEM" map-host gpu0 ${words%:*}
        [ "$status" -eq "${words##*:}" ]
    done
    # a GPU that is taken physically cannot have pages of the process's own
    q open gpu1
    run "$RIGMEM" map-host gpu1 --file data
    [ "$status" -eq 3 ]
    [[ $output == *hint:* ]]
}

@test "a dry run of each changing command prints what the real run prints, and changes nothing" {
    truncate -s 8K data
    q -m "$machine" open gpu0 --master
    while read -r words; do
        [ ! -e s.json ] || cp s.json before
        # which file holds system memory only the real run knows
        # shellcheck disable=SC2086 # words
        dry=$("$RIGMEM" -n $words)
        cmp s.json before
        # shellcheck disable=SC2086 # words
        [ "$("$RIGMEM" $words | grep -v system-memory)" = "$dry" ]
    done <<'EOF_COMMANDS'
open gpu1
alloc gpu0 gpu 64K --name one
alloc gpu0 bar 64K
alloc gpu1 host 8K
poke one --data c0ffee
peek one 0 3 --by gpu0
map-host gpu0 0x300000020000 4K
map-peer gpu1 one
bus r2 nic0
free one @last
fault flush=never
free r2
recover
close gpu1
close --force
EOF_COMMANDS
    [ ! -e s.json ]
    # in one process
    RIGMEM_STATE='' "$RIGMEM" -m "$machine" -c 'open gpu0 gpu1 -n; open gpu0 gpu1; alloc gpu0 gpu 64K -n; alloc gpu0 gpu 64K
map-peer gpu1 r1 -n; map-peer gpu1 r1; bus r1 nic0 -n; bus r1 nic0; free r1 -n; free r1; close gpu0 -n; close gpu0' >out
    python3 - <<'EOF_PY'
text = open("out").read()
half = text.split("a twin of ")
assert half[2].startswith(half[1]), half[1:3]
rest = half[2].split("taken\n")[-1].split("\n")
assert rest[0] == rest[1] and rest[2] == rest[3] and rest[4] == rest[5], rest
assert rest[6:8] == rest[8:10], rest
assert half[3] == half[4]
EOF_PY
}

@test "what lies outside, is no byte or no GPU is said of the thing that is wrong" {
    "$RIGMEM" -q -m "$machine" open gpu0
    "$RIGMEM" -q alloc gpu0 gpu 4K --name g
    while IFS='=' read -r words wanted; do
        # shellcheck disable=SC2086 # words
        run "$RIGMEM" $words
        [ "$status" -eq 2 ]
        [ "${lines[0]}" = "rigmem: $wanted" ]
    done <<'EOF_LINES'
peek g 4K=peek: 4K: is not within g
peek g 8K 1=peek: 8K: is not within g
peek g 1 4K=peek: 0x1+0x1000 is not within r1, which has 0x1000 bytes
peek gpu0 0xffffffffffffffff 0 2=peek: gpu0: 0xffffffffffffffff+0x2 is not within 64 bits
poke g --fill 256 --length 1=poke: --fill: '256' is no byte: 0 to 255, or 0x00 to 0xff
poke g --fill -1 --length 1=poke: --fill: '-1' is no byte: 0 to 255, or 0x00 to 0xff
poke g --fill red --length 1=poke: --fill: 'red' is no byte: 0 to 255, or 0x00 to 0xff
EOF_LINES
    # open takes a function with a memory BAR, and no bridge
    [[ $("$RIGMEM" alloc nic0 gpu 4K 2>&1) == *"hint: rigmem open nic0 takes it"* ]]
    [[ $("$RIGMEM" alloc 00:00.0 gpu 4K 2>&1) != *hint* ]]
}

@test "a dry run writes no file: no picture, no capture, no directory of a first session" {
    "$RIGMEM" -q -m "$machine" capture -o there.json
    cp there.json before
    for words in 'capture -o there.json' 'capture -o new.json' 'reach -o new.dot' 'topo -o new.dot' 'topo -o new.svg'; do
        # shellcheck disable=SC2086 # words
        "$RIGMEM" -n -m "$machine" --kernel 5.10 $words
        [ "$(ls)" = "before
there.json" ]
        cmp there.json before
    done
    ln -s before link.json
    run "$RIGMEM" -n -m "$machine" capture -o link.json
    [ "$status" -eq 3 ]
    run "$RIGMEM" -n -m "$machine" capture -o none/new.json
    [ "$status" -eq 3 ]
    rm link.json
    # root's own place is the same for all
    if [ "$(id -u)" -ne 0 ]; then return; fi
    # shellcheck disable=SC2016 # sh's own
    run env -u RIGMEM_STATE unshare -m sh -c 'mount -t tmpfs none /run && "$1" -n -m "$2" open gpu0 && ls -A /run' sh "$RIGMEM" "$machine"
    if [[ $output == *unshare* || $output == *mount* ]]; then skip "no mounts here"; fi
    [ "$status" -eq 0 ]
    [[ $output == *", in /run/rigmem/session.json"*taken ]]
}

@test "a dry run fails as the real run does" {
    open_two
    for words in 'alloc gpu0 gpu 1T:4' 'free r9:2' 'map-host gpu0 0x1000 4K:3' 'bus r1 nic0:2' 'open gpu0:3' 'fault x:2'; do
        # shellcheck disable=SC2086 # words
        run "$RIGMEM" -n ${words%:*}
        [ "$status" -eq "${words##*:}" ]
        dry=$output
        # shellcheck disable=SC2086 # words
        run "$RIGMEM" ${words%:*}
        [ "$output" = "$dry" ]
    done
}

@test "-q prints no result, -v says more on standard error, --color changes nothing of memory's" {
    open_two
    [ "$("$RIGMEM" -q alloc gpu0 host 4K 2>&1)" = "" ]
    "$RIGMEM" -v alloc gpu0 host 4K >out 2>err
    [ "$(cat out)" = "r2 0x300000001000 4 KiB of host memory for 0000:03:00.0
r2: $PWD/s.json.d/system-memory from byte 4096" ]
    [ "$("$RIGMEM" --color always show r1 | cat -v)" = "$("$RIGMEM" --color never show r1)" ]
    run "$RIGMEM" -q alloc gpu0 host 0
    [ "$status" -eq 2 ]
    [ -n "$output" ]
}

@test "each fault says what it is, and works" {
    open_two --master
    for spec in flush=late flush=never flush=ok gpu1:flush=late gpu1:flush=ok gone=nic0 refuse=1 noroom=1 cut=1; do
        [ "$("$RIGMEM" fault $spec)" = "$spec" ]
    done
    # the latest is what is armed
    run q alloc gpu0 host 64K
    [ "$status" -eq 7 ]
    q alloc gpu0 gpu 4K
    run "$RIGMEM" poke @last --data 00 --by nic0
    [ "$status" -eq 7 ]
    q fault failed
    for words in 'alloc gpu0 gpu 4K' 'alloc gpu1 host 4K' 'map-peer gpu1 @last'; do
        # shellcheck disable=SC2086 # words
        run q $words
        [ "$status" -eq 7 ]
    done
    # a free is never refused: it keeps what may still be reached
    [[ $("$RIGMEM" free @last) == *"is kept: "* ]]
    q close --force
    # faults end with the session
    open_two
    q alloc gpu0 host 64K
}

@test "each exit code comes from the memory commands as it is said" {
    run "$RIGMEM" -m "$machine" open gpu0
    [ "$status" -eq 0 ]
    run "$RIGMEM" walk gpu0 0x300000000000
    [ "$status" -eq 1 ]
    [[ $output == *"nothing is mapped at 0x300000000000" ]]
    run "$RIGMEM" alloc gpu0 gpu 4MB
    [ "$status" -eq 2 ]
    [[ $output == *"hint: "*"MiB"* ]]
    run "$RIGMEM" open gpu0
    [ "$status" -eq 3 ]
    run "$RIGMEM" alloc gpu0 gpu 17GiB
    [ "$status" -eq 4 ]
    # more than the GPU ever had says so
    [[ $output == *"17 GiB is more than the GPU has for memory"* ]]
    q fault gone=gpu0
    run "$RIGMEM" alloc gpu0 gpu 4K
    [ "$status" -eq 7 ]
    q close --force
    echo '{' >s.json
    chmod 600 s.json
    run "$RIGMEM" show
    [ "$status" -eq 5 ]
    [[ $output == "rigmem: show: $PWD/s.json:2:1: "* ]]
    rm s.json
    # a dump holds no sizes of BARs: what is not known is said, and can be given
    run "$RIGMEM" -m "$BATS_TEST_DIRNAME/machines/sriov.hex" open
    [ "$status" -eq 6 ]
    [[ $output == *"0000:05:00.0 is not opened: how much memory its BAR 1 shows is not known"* ]]
    run "$RIGMEM" -m "$BATS_TEST_DIRNAME/machines/sriov.hex" open gpu0
    [ "$status" -eq 6 ]
    [[ $output == *"hint: give it by --assume bar=0000:05:00.0:SIZE" ]]
    q -m "$BATS_TEST_DIRNAME/machines/sriov.hex" --assume bar=gpu0:16GiB open gpu0
    q close
    # a function named as a GPU, of whose memory nothing is known
    run "$RIGMEM" -m "$machine" --gpu nic0 open nic0
    [ "$status" -eq 6 ]
}

@test "sizes, addresses and names are read strictly" {
    open_two
    for size in 4k 4KB 1.5M -1 +4K 4K4 '' 0x 1_ _1 4__0 99999999999999999999 16EiB; do
        run "$RIGMEM" alloc gpu0 gpu "$size"
        [ "$status" -eq 2 ]
    done
    for size in 0x1_000 4_096 4KiB 4096B 1M 1MiB 2G; do
        q -n alloc gpu0 gpu $size
    done
    for address in r1 0x 300000000000h 4K -1 0x1p3; do
        run "$RIGMEM" walk gpu0 "$address"
        [ "$status" -eq 2 ]
    done
    run "$RIGMEM" -q walk gpu0 0x3000_0000_0000
    [ "$status" -eq 1 ]
    [ -z "$output" ]
}

@test "recover takes up what a killed command left, and says it once" {
    open_two
    printf '{"generation":%s,"verb":"alloc","gpu":%s,"kind":0,"bytes":65536,"uncached":false,"address":"0x0","offset":0,"path":null,"id":0,"client":null}\n' \
        "$(grep -o '"generation":[0-9]*' s.json | head -n 1 | cut -d: -f2)" \
        "$("$RIGMEM" -j list | python3 -c 'import json,sys
print([f["alias"] for f in json.load(sys.stdin)["result"]["functions"]].index("gpu0"))')" >s.json.intent
    chmod 600 s.json.intent
    run "$RIGMEM" recover
    [ "$status" -eq 0 ]
    [ "$output" = "a command was killed in alloc of 65536 bytes: what it took stays taken until the GPU is closed" ]
    [ "$("$RIGMEM" recover)" = "nothing was left behind" ]
    [ "$("$RIGMEM" -j recover)" = '{"command":"recover","ok":true,"result":{"claims":[],"found":[]},"schema":"rigmem/1","warnings":[]}' ]
}

@test "the result of close says what was out" {
    open_two
    q alloc gpu0 gpu 4K
    q alloc gpu1 gpu 4K
    [ "$("$RIGMEM" close)" = "closed; 2 regions were given back" ]
    open_two
    [ "$("$RIGMEM" -j close)" = '{"command":"close","ok":true,"result":{"closed":true,"regions":0},"schema":"rigmem/1","warnings":[]}' ]
    [ "$(ls)" = "" ]
}
