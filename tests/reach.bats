#!/usr/bin/env bats
# rigmem reach. The answers were worked out by hand from Linux's rules: tests/machines/README.md.

setup() {
    : "${RIGMEM:?names the program under test}"
    machines=$BATS_TEST_DIRNAME/machines
    server=$machines/server-8gpu.json
    xeon=$machines/xeon-listed.json
    sriov=$machines/sriov.hex
    cd "$BATS_TEST_TMPDIR" || return
}

# Succeeds iff the command fails: bats does not see the failure of a negated command.
refute() {
    if "$@"; then return 1; fi
}

json() {
    python3 -c 'import json,sys; d=json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"
}

# The one pair's member by a Python expression over p.
pair() {
    python3 -c 'import json,sys; p=json.load(open("out"))["result"]["pairs"][0]; print(eval(sys.argv[1]))' "$1"
}

# Runs reach with --json into ./out; sets status.
ask() {
    status=0
    "$RIGMEM" -j "$@" >out 2>err || status=$?
}

@test "a pair's answer is the exit code: yes 0, no 1, unknown 6" {
    ask -m "$server" reach gpu0 gpu1
    [ "$status" -eq 0 ]
    [ "$(pair 'p["answer"], p["gate"]')" = "('yes', None)" ]
    ask -m "$server" reach gpu2 gpu3
    [ "$status" -eq 1 ]
    [ "$(pair 'p["answer"], p["gate"]')" = "('no', 'acs-redirect')" ]
    ask -m "$sriov" reach nic0 gpu0
    [ "$status" -eq 6 ]
    [ "$(pair 'p["answer"]')" = unknown ]
}

@test "a row and a matrix exit 0 whatever they say" {
    for words in "reach" "reach gpu2" "reach --all"; do
        # shellcheck disable=SC2086
        run "$RIGMEM" -q -m "$server" $words
        [ "$status" -eq 0 ]
        [ "$output" = "" ]
    done
}

@test "-q answers a pair by its exit code alone" {
    run "$RIGMEM" -q -m "$server" reach gpu2 gpu3
    [ "$status" -eq 1 ]
    [ "$output" = "" ]
}

@test "text: first the answer, then the first closed gate" {
    "$RIGMEM" -m "$server" reach gpu2 gpu3 >out || [ "$?" -eq 1 ]
    [ "$(sed -n 1p out)" = "gpu2 (0000:09:00.0) -> gpu3 (0000:0a:00.0): no" ]
    sed -n 2p out | grep -q '^  acs-redirect: .*0000:08:08.0'
}

@test "what the kernel says and what this library maps are two lines" {
    "$RIGMEM" -m "$xeon" --iommu all=translate reach gpu0 gpu1 >out || [ "$?" -eq 1 ]
    grep -q '^  this library maps  *no$' out
    grep -q "^  the kernel's p2pdma says  THRU_HOST_BRIDGE, distance 4, by the rules of Linux 6.1$" out
    sed -n 2p out | grep -q '^  iommu-translates: '
}

@test "a pair under one switch: BUS_ADDR, distance 4, PIX, the switch as common bridge" {
    ask -m "$server" reach gpu0 gpu1
    [ "$(pair 'p["p2pdma"]["verdict"], p["p2pdma"]["possible"], p["p2pdma"]["distance"], p["p2pdma"]["common"], p["path"]')" = \
        "('BUS_ADDR', ['BUS_ADDR'], 4, '0000:01:00.0', 'PIX')" ]
    [ "$(pair 'p["p2pdma"]["redirecting"]')" = "[]" ]
}

@test "redirecting functions with their bits: the provider's path first, then the client's" {
    ask -m "$server" reach gpu4 gpu5
    [ "$(pair 'p["p2pdma"]["redirecting"]')" = \
        "[{'bits': '0x000c', 'function': '0000:82:09.0'}, {'bits': '0x000c', 'function': '0000:82:08.0'}]" ]
    [ "$(pair 'p["p2pdma"]["verdict"], p["p2pdma"]["distance"]')" = "('NOT_SUPPORTED', 4)" ]
}

@test "redirecting ports are named also when the verdict is yes" {
    ask -m "$server" --cpu AMD:25 reach gpu2 gpu3
    [ "$status" -eq 0 ]
    [ "$(pair 'p["p2pdma"]["verdict"], [r["function"] for r in p["p2pdma"]["redirecting"]]')" = \
        "('THRU_HOST_BRIDGE', ['0000:08:08.0'])" ]
    "$RIGMEM" -m "$server" --cpu AMD:25 reach gpu2 gpu3 | grep -q 'redirecting  *0000:08:08.0 ACS 0x000c'
}

@test "host bridges with root, representative, id and the entry that matched" {
    ask -m "$xeon" reach gpu0 gpu1
    [ "$(pair '[(b["root"], b["representative"], b["id"], b["entry"]) for b in sorted(p["p2pdma"]["host_bridges"], key=lambda b: b["root"])]')" = \
        "[('0000:15', '0000:15:00.0', '8086:09a2', '8086:09a2'), ('0000:97', '0000:97:00.0', '8086:09a2', '8086:09a2')]" ]
    [ "$(pair 'p["p2pdma"]["verdict"], p["p2pdma"]["distance"], p["path"]')" = "('THRU_HOST_BRIDGE', 4, 'SYS')" ]
    ask -m "$server" reach gpu0 gpu4
    [ "$(pair '[(b["root"], b["id"], b["entry"]) for b in sorted(p["p2pdma"]["host_bridges"], key=lambda b: b["root"])]')" = \
        "[('0000:00', '8086:6f00', None), ('0000:80', '8086:6f04', None)]" ]
    [ "$(pair 'p["gate"], p["path"], p["p2pdma"]["distance"]')" = "('bridge-unlisted', 'SYS', 8)" ]
}

@test "the rule set is the machine's kernel's, and --rules chooses another" {
    ask -m "$xeon" reach gpu0 gpu1
    [ "$(json 'd["result"]["rules"]' <out)" = 6.1 ]
    ask -m "$xeon" reach gpu0 gpu1 --rules 5.15
    [ "$status" -eq 1 ]
    [ "$(json 'd["result"]["rules"]' <out)" = 5.15 ]
    [ "$(pair 'p["gate"]')" = bridge-unlisted ]
    ask -m "$xeon" reach f3:00.0 gpu0 --rules=7.2
    [ "$status" -eq 0 ]
    ask -m "$xeon" reach f3:00.0 gpu0
    [ "$status" -eq 1 ]
    ask -m "$xeon" --kernel 5.15.0-91-generic reach gpu0 gpu1
    [ "$status" -eq 1 ]
}

@test "rules of no kernel are a usage error; before the command --rules says where it stands" {
    ask -m "$xeon" reach --rules 4.4
    [ "$status" -eq 2 ]
    ask --rules 6.1 -m "$xeon" reach
    [ "$status" -eq 2 ]
    grep -q 'stands after its command' err
}

@test "a function that is not there is a usage error" {
    ask -m "$server" reach gpu8
    [ "$status" -eq 2 ]
    grep -q '^rigmem: reach: gpu8: no such function' err
    ask -m "$server" reach gpu0 0000:77:00.0
    [ "$status" -eq 2 ]
}

@test "self: a GPU does not reach itself by this library, and p2pdma says distance 0" {
    ask -m "$server" reach gpu0 gpu0
    [ "$status" -eq 1 ]
    [ "$(pair 'p["gate"], p["p2pdma"]["distance"]')" = "('self', 0)" ]
}

@test "--why lists every gate of the pair, open or closed" {
    "$RIGMEM" -m "$server" reach gpu2 gpu3 --why >out || [ "$?" -eq 1 ]
    for gate in self other-machine other-space link iommu-translates bar-unassigned bar-small same-bridge acs-redirect \
        cpu-amd-zen bridge-unlisted; do
        grep -Eq "^    (open|closed|\?) +$gate " out
    done
    grep -Eq '^    closed +acs-redirect ' out
    grep -Eq '^    open +bar-small ' out
    [ "$("$RIGMEM" -m "$server" reach gpu2 gpu3 | grep -c '^  gates$')" -eq 0 ]
}

@test "a redirect's remedy is the setpci line of each port, one kernel parameter, and what they lead to" {
    run "$RIGMEM" -m "$server" reach gpu4 gpu5
    [ "$status" -eq 1 ]
    [[ $output == *"setpci -s 0000:82:09.0 ECAP_ACS+6.w=0:2c"* ]]
    [[ $output == *"setpci -s 0000:82:08.0 ECAP_ACS+6.w=0:2c"* ]]
    [[ $output == *"kernel parameter: pci=disable_acs_redir=0000:82:09.0;0000:82:08.0"* ]]
    [[ $output == *"isolation between the IOMMU groups below is lost"* ]]
    [[ $output == *"leads to yes, BUS_ADDR"* ]]
    [[ $output != *noacs* ]]
    ask -m "$server" reach gpu4 gpu5
    [ "$(pair '[(s["kind"], s["answer"], s["verdict"], len(s["commands"])) for s in p["remedy"]]')" = "[('acs', 'yes', 'BUS_ADDR', 2)]" ]
    [[ $(pair 'p["hint"]') == *"pci=disable_acs_redir=0000:82:09.0;0000:82:08.0"*"then yes, BUS_ADDR"* ]]
    # and it is true: with these words the pair is reached
    run "$RIGMEM" -m "$server" reach gpu4 gpu5 --assume acs=82:09.0:0011 --assume acs=82:08.0:0011
    [ "$status" -eq 0 ]
}

@test "below the matrix one parameter clears all ports of a switch, and says how many pairs that changes" {
    "$RIGMEM" -m "$server" reach >out
    grep -F 'hint: boot with pci=disable_acs_redir=0000:82:09.0;0000:82:08.0;0000:82:0a.0;0000:82:0b.0,' out | grep -q ': 6 more pairs are reached$'
}

@test "where no setting helps a card is moved, and the answer there is told" {
    run "$RIGMEM" -m "$server" reach gpu2 gpu5
    [[ $output == *"hint: move the card of gpu"* ]]
    [[ $output == *"leads to yes, BUS_ADDR"* ]]
    ask -m "$server" reach gpu2 gpu5
    [ "$(pair 'p["remedy"][0]["kind"], p["remedy"][-1]["answer"]')" = "('move', 'yes')" ]
}

@test "a small BAR is told of its GPU, also where no client is asked about" {
    "$RIGMEM" -m "$server" --assume bar=gpu3:256MiB reach gpu3 >out
    "$RIGMEM" -m "$server" --assume bar=gpu3:256MiB reach >out
    grep -A1 '^memory that nobody reaches' out | grep -Fq 'gpu3: BAR 1 is 256 MiB of 16 GiB'
    ask -m "$server" --assume bar=gpu3:256MiB reach
    [ "$(json '[(t["bar_bytes"], t["memory"]) for t in d["result"]["targets"] if t["covers"] is False]' <out)" = "[(268435456, 17179869184)]" ]
}

@test "remedies are true: applied by options they lead to the answer told with them" {
    remedies() { python3 "$BATS_TEST_DIRNAME/remedies.py" "$RIGMEM" "$@"; }
    # 4 pairs by the port above gpu2, 6 by those of the third switch; 96 between switches and sockets
    [ "$(remedies "$server")" = "acs 10, move 90, move+acs 6" ]
    [ "$(remedies "$server" --iommu gpu0=translate | tr , '\n' | grep -c iommu)" -ge 2 ]
    [ "$(remedies "$xeon" --kernel 5.15)" = "kernel 2" ]
    [ "$(remedies "$machines/desktop-amd.txt")" = "bar 1" ]
    [ "$(remedies "$machines/client-intel.txt" --iommu all=none)" = "acs 2" ]
    # where all is well, or nothing helps, there is none
    [ "$(remedies "$xeon")" = "" ]
    [ "$(remedies "$machines/vmd.json")" = "" ]
}

@test "what passes the IOMMU by is told as the machine's kernel has it" {
    "$RIGMEM" -m "$machines/arm64.json" --iommu all=translate reach nic0 gpu0 >out || [ "$?" -eq 1 ]
    grep -q 'kernel parameter: iommu.passthrough=1$' out
    "$RIGMEM" -m "$server" --iommu all=translate reach nic0 gpu0 >out || [ "$?" -eq 1 ]
    grep -q 'kernel parameter: iommu=pt$' out
    grep -q 'mind: .*ACS redirects stay as they are' out
    # and a redirect is cleared by none of them
    "$RIGMEM" -m "$server" --iommu all=identity reach gpu2 gpu3 >out || [ "$?" -eq 1 ]
    grep -q '^  acs-redirect: ' out
}

@test "nothing is advised where nothing helps" {
    # the BAR cannot be resized, and no slot changes that
    ask -m "$server" --assume bar=gpu1:256MiB reach gpu0 gpu1
    [ "$(pair 'p["remedy"], p["hint"]')" = "([], None)" ]
    # and where all is well
    ask -m "$server" reach gpu0 gpu1
    [ "$(pair 'p["remedy"], p["hint"]')" = "([], None)" ]
}

@test "--why below a matrix shows each pair's gates" {
    [ "$("$RIGMEM" -m "$xeon" reach --why | grep -c '^  gates$')" -eq 2 ]
}

@test "two reasons are both told: a small BAR and the route" {
    ask -m "$server" --assume bar=gpu3:256MiB reach gpu2 gpu3
    [ "$(pair 'p["gate"]')" = bar-small ]
    [ "$(pair 'sorted(g["gate"] for g in p["gates"] if g["open"] is False and g["decides"])')" = "['acs-redirect', 'bar-small', 'bridge-unlisted', 'cpu-amd-zen']" ] ||
        [ "$(pair '{"acs-redirect", "bar-small"} <= set(g["gate"] for g in p["gates"] if g["open"] is False)')" = True ]
}

@test "the matrix: GPUs, NICs and NVMe drives as rows, GPUs as columns" {
    "$RIGMEM" -m "$server" reach >out
    [ "$(sed -n 1p out | xargs)" = "gpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7" ]
    [ "$(sed -n '2,17p' out | awk '{print $1}' | xargs)" = \
        "gpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7 nic0 nvme0 nic1 nvme1 nic2 nvme2 nic3 nvme3" ]
}

@test "cells hold this library's answer, the kernel's verdict, the path and the distance" {
    "$RIGMEM" -m "$server" reach >out
    row() { grep "^$1 " out | head -1 | sed 's/  */ /g'; }
    [ "$(row gpu0)" = "gpu0 X yes B PIX 4 no N PHB 8 no N PHB 8 no N SYS 8 no N SYS 8 no N SYS 8 no N SYS 8" ]
    [ "$(row gpu2)" = "gpu2 no N PHB 8 no N PHB 8 X no N PIX 4 no N SYS 8 no N SYS 8 no N SYS 8 no N SYS 8" ]
    [ "$(row nic1)" = "nic1 no N PHB 8 no N PHB 8 no N PIX 4 yes B PIX 4 no N SYS 8 no N SYS 8 no N SYS 8 no N SYS 8" ]
    [ "$(row nvme3)" = "nvme3 no N SYS 8 no N SYS 8 no N SYS 8 no N SYS 8 no N PHB 8 no N PHB 8 yes B PIX 4 yes B PIX 4" ]
}

@test "the matrix is directional: a small BAR blocks only requests to it" {
    "$RIGMEM" -m "$xeon" --assume bar=gpu1:256MiB reach >out
    grep -Eq '^gpu0 +X +no +T SYS 4$' out
    grep -Eq '^gpu1 +yes T SYS 4 +X$' out
    grep -q '^  bar-small: gpu0 -> gpu1: ' out
    grep -q '^assuming .*0000:98:00.0.* = 256 MiB (--assume)$' out
}

@test "the legend explains the letters and paths of the table, and no others" {
    "$RIGMEM" -m "$xeon" reach >out
    grep -q '^  T    through the host bridge$' out
    grep -q '^  SYS  across NUMA nodes$' out
    refute grep -Eq '^  (B|N|PIX|PXB|PHB) ' out
}

@test "distinct reasons stand once, with how many pairs they are of" {
    "$RIGMEM" -m "$server" reach >out
    # 4 pairs with gpu2 below the second switch; 2 + 4 below the third
    grep -q '^  acs-redirect: gpu2 -> gpu3 and 3 more: .*: 0000:08:08.0 0x001d$' out
    [ "$(grep -c '^  acs-redirect: ' out)" -eq 2 ]
    grep '^  acs-redirect: gpu4 -> gpu5 and 5 more: ' out | grep 0000:82:08.0 | grep 0000:82:09.0 | grep 0000:82:0a.0 |
        grep -q 0000:82:0b.0
    # 14 no-pairs... each of 16 clients to the other switch of its socket: 4 clients x 2 GPUs x 2 directions
    [ "$(grep -c '^  bridge-unlisted: ' out)" -eq 2 ]
}

@test "reach A is A's row" {
    "$RIGMEM" -m "$server" reach nic0 >out
    [ "$(sed -n '2p' out | sed 's/  */ /g')" = "nic0 yes B PIX 4 yes B PIX 4 no N PHB 8 no N PHB 8 no N SYS 8 no N SYS 8 no N SYS 8 no N SYS 8" ]
    [ "$(sed -n '3p' out)" = "" ]
    ask -m "$server" reach nic0
    [ "$(json '[(p["from"], p["to"], p["answer"]) for p in d["result"]["pairs"]][:3]' <out)" = \
        "[('0000:05:00.0', '0000:03:00.0', 'yes'), ('0000:05:00.0', '0000:04:00.0', 'yes'), ('0000:05:00.0', '0000:09:00.0', 'no')]" ]
    [ "$(json 'len(d["result"]["pairs"])' <out)" -eq 8 ]
}

@test "--all: every function that is no bridge, both ways" {
    ask -m "$server" reach --all
    # 16 endpoints and the function 00:00.0, each with itself too
    [ "$(json 'len(d["result"]["pairs"])' <out)" -eq 289 ]
    "$RIGMEM" -m "$server" reach --all | sed -n 1p | grep -q 'nvme0'
}

@test "for a client that is no GPU there are no gates of spaces and links" {
    ask -m "$server" reach nic0 gpu0
    [ "$status" -eq 0 ]
    [ "$(pair '[g["open"] for g in p["gates"] if g["gate"] in ("other-space", "link")]')" = "[]" ]
}

@test "for a target that is no GPU the answer is p2pdma's alone" {
    ask -m "$server" reach gpu0 nic0
    [ "$status" -eq 0 ]
    [ "$(pair '[g["open"] for g in p["gates"] if g["gate"] in ("bar-small", "bar-unassigned") and g["open"] is not None]')" = "[]" ]
    [ "$("$RIGMEM" -m "$server" reach gpu0 nic0 | grep -c 'this library maps')" -eq 0 ]
}

@test "what is missing is named with how to give it, and the answer given per possibility" {
    "$RIGMEM" -m "$sriov" reach nic0 gpu0 >out || [ "$?" -eq 6 ]
    sed -n 1p out | grep -q '^nic0 (0000:03:00.0) -> gpu0 (0000:05:00.0): unknown: yes if .*, else no$'
    grep -q 'unknown .*--iommu 0000:03:00.0=none|identity|translate' out
    ask -m "$sriov" reach nic0 gpu0
    [ "$(pair '"--iommu" in str(p["unknown"]), p["possibilities"].startswith("yes if")')" = "(True, True)" ]
}

@test "what a tree without names does not show is never a yes" {
    # two cards below ports of one host bridge
    printf '%s\n' '-[0000:00]-+-00.0' '           +-01.0-[01]----00.0' \
        '           \-02.0-[02]--+-00.0' '                        \-00.1' >tree.txt
    for pair in '01:00.0 02:00.0' '02:00.0 02:00.1' '02:00.0 02:00.0'; do
        # shellcheck disable=SC2086
        run "$RIGMEM" -m tree.txt --cpu AMD:25 reach $pair
        [ "$status" -eq 6 ] || return
        [[ ${lines[0]} == *": unknown: yes if "*"is no GPU"*", else no" ]] || return
        [[ $output == *"--gpu 0000:02:00"* ]] || return
        # shellcheck disable=SC2086
        ask -m tree.txt --cpu AMD:25 reach $pair
        [ "$(pair '[u["field"] for u in p["unknown"]][0]')" = "gpu 0000:${pair#* }" ] || return
    done
    # named as GPUs, with the facts that are then asked for
    run "$RIGMEM" -m tree.txt --cpu AMD:25 --gpu 02:00.0 --gpu-memory 02:00.0=8GiB \
        --iommu all=none reach 01:00.0 02:00.0
    [ "$status" -eq 6 ]
    [[ ${lines[0]} == *"0000:01:00.0 is of the same vendor if it is a GPU"* ]]
    "$RIGMEM" -j -m tree.txt list 02:00.0 >out
    [ "$(json '[(f["gpu"], [u["field"] for u in f["unknown"] if u["field"] == "gpu"]) for f in d["result"]["functions"]]' <out)" = "[(None, ['gpu'])]" ]
}

@test "with the facts given the same pair is decided" {
    ask -m "$sriov" --iommu all=none --assume bar=gpu0:16GiB reach nic0 gpu0
    [ "$status" -eq 0 ]
    [ "$(pair 'p["unknown"]')" = "[]" ]
}

@test "a fact that does not matter is not missing: no common bridge and listed host bridges need no ACS" {
    ask -m "$xeon" reach gpu0 gpu1
    [ "$(pair 'p["unknown"]')" = "[]" ]
}

@test "what is assumed is told with its source" {
    ask -m "$server" --assume acs=08:08.0:0x0011 reach gpu2 gpu3
    [ "$status" -eq 0 ]
    [ "$(pair '[a["from"] for a in p["assumed"] if "0000:08:08.0" in a["field"]]')" = "['--assume']" ]
    "$RIGMEM" -m "$server" --assume acs=08:08.0:0x0011 reach gpu2 gpu3 | grep -q '^  assuming .*0000:08:08.0.*(--assume)$'
}

@test "--assume repeats, takes aliases and addresses, words with 0x or without" {
    ask -m "$server" --assume acs=0000:82:08.0:11 --assume acs=82:09.0:0x11 reach gpu4 gpu5
    [ "$status" -eq 0 ]
    ask -m "$server" --assume acs=82:08.0:11 reach gpu4 gpu5
    [ "$status" -eq 1 ]
}

@test "--assume parent moves a card: gpu4 under gpu0's switch" {
    ask -m "$server" --assume parent=gpu4:0000:02:0a.0 reach gpu4 gpu0
    [ "$status" -eq 0 ]
    [ "$(pair 'p["p2pdma"]["verdict"], p["p2pdma"]["distance"]')" = "('BUS_ADDR', 4)" ]
    ask -m "$server" --assume parent=83:00.0:02:0a.0 reach gpu4 gpu0
    [ "$status" -eq 0 ]
}

@test "--assume p2pdma=off changes the kernel's own line and not the verdict" {
    ask -m "$server" --assume p2pdma=off reach gpu0 gpu1
    [ "$status" -eq 0 ]
    [ "$(pair 'p["p2pdma"]["verdict"], p["p2pdma"]["kernel"]')" = "('BUS_ADDR', 'no')" ]
    "$RIGMEM" -m "$server" --assume p2pdma=off reach gpu0 gpu1 | grep -q 'but this kernel is built without p2pdma'
    ask -m "$server" --assume p2pdma=on reach gpu0 gpu1
    [ "$(pair 'p["p2pdma"]["kernel"]')" = yes ]
}

@test "a kernel before the oldest rules is answered by them, with a warning" {
    for version in 4.19.0-26-amd64 5.9 3.10.0-1160.el7; do
        "$RIGMEM" -m "$xeon" --kernel "$version" reach >out 2>err
        grep -q "^rigmem: warning: Linux $version is older than the oldest rules, those of 5.10, which answer for it: " err
        grep -q '^rules of Linux 5.10 (the machine.s kernel is older than every rule set: the oldest)$' out
        ask -m "$xeon" --kernel "$version" reach gpu0 gpu1
        [ "$(json 'len([w for w in d["warnings"] if w.startswith("Linux " + "'"$version"'" + " is older")]), d["result"]["rules"]' <out)" = "(1, '5.10')" ]
        "$RIGMEM" -m "$xeon" --kernel "$version" topo 2>&1 >out | grep -q 'older than the oldest rules'
    done
    # rules that were asked for by name are no substitute
    "$RIGMEM" -m "$xeon" --kernel 4.19 reach --rules 5.10 >out 2>err
    [ ! -s err ]
    "$RIGMEM" -m "$xeon" --kernel 5.10 reach >out 2>err
    [ ! -s err ]
}

@test "--diff prints only the pairs that --assume changes, before and after" {
    run "$RIGMEM" -m "$server" reach --diff --assume acs=08:08.0:0011
    [ "$status" -eq 0 ]
    [ "$output" = "gpu2 (0000:09:00.0) -> gpu3 (0000:0a:00.0): no NOT_SUPPORTED (acs-redirect) => yes BUS_ADDR
gpu3 (0000:0a:00.0) -> gpu2 (0000:09:00.0): no NOT_SUPPORTED (acs-redirect) => yes BUS_ADDR
nic1 (0000:0b:00.0) -> gpu2 (0000:09:00.0): no NOT_SUPPORTED (acs-redirect) => yes BUS_ADDR
nvme1 (0000:0c:00.0) -> gpu2 (0000:09:00.0): no NOT_SUPPORTED (acs-redirect) => yes BUS_ADDR
4 of 120 pairs change" ]
}

@test "--diff without --assume: what the other facts given change" {
    changes() { "$RIGMEM" -m "$xeon" reach --diff "$@" >out; }
    changes --kernel 5.15
    grep -Fxq "gpu0 (0000:16:00.0) -> gpu1 (0000:98:00.0): yes THRU_HOST_BRIDGE => no NOT_SUPPORTED (bridge-unlisted)" out
    changes --rules 5.15
    [ "$(tail -1 out)" = "2 of 2 pairs change" ]
    changes --iommu gpu1=translate
    grep -Fxq "gpu1 (0000:98:00.0) -> gpu0 (0000:16:00.0): yes THRU_HOST_BRIDGE => no THRU_HOST_BRIDGE (iommu-translates)" out
    changes --cpu AMD:25
    [ "$(cat out)" = "0 of 2 pairs change" ]
    changes --cpu AMD:25 --kernel 5.15
    [ "$(cat out)" = "0 of 2 pairs change" ]
    # with --assume the others are facts of both machines
    changes --iommu all=translate --assume bar=gpu1:256MiB
    [ "$(tail -1 out)" = "0 of 2 pairs change" ]
    changes --assume p2pdma=off
    [ "$(cat out)" = "0 of 2 pairs change
the kernel has no p2pdma: its own answer is no for all" ]
}

@test "--diff in JSON: the changed pairs, each with what it was before" {
    ask -m "$server" reach --diff --assume acs=08:08.0:0011
    [ "$(json '[(p["from"], p["to"], p["before"]["answer"], p["answer"]) for p in d["result"]["pairs"]][0]' <out)" = \
        "('0000:09:00.0', '0000:0a:00.0', 'no', 'yes')" ]
    [ "$(json 'len(d["result"]["pairs"])' <out)" -eq 4 ]
}

@test "--diff of a pair or a row, and of nothing" {
    run "$RIGMEM" -m "$server" reach gpu4 gpu5 --diff --assume acs=82:08.0:0011
    [ "$status" -eq 1 ]
    [ "$output" = "0 of 1 pairs change" ]
    run "$RIGMEM" -m "$server" reach nic1 --diff --assume acs=08:08.0:0011
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    run "$RIGMEM" -m "$server" reach --diff
    [ "$status" -eq 2 ]
    [[ $output == *"rigmem: reach: --diff: there is nothing to compare with"* ]]
}

@test "JSON pairs have exactly the documented members, and stay the same from run to run" {
    ask -m "$server" reach
    cp out first
    [ "$(json 'sorted(d["result"])' <out)" = "['pairs', 'rules', 'targets']" ]
    [ "$(pair 'all(k in p for k in ("from","to","answer","gate","gates","p2pdma","path","hint","remedy"))')" = True ]
    [ "$(pair 'all(k in p["p2pdma"] for k in ("verdict","possible","distance","common","redirecting","host_bridges"))')" = True ]
    [ "$(json 'all(sorted(g) == ["decides","gate","open","why"] for p in d["result"]["pairs"] for g in p["gates"])' <out)" = True ]
    [ "$(json 'len(d["result"]["pairs"])' <out)" -eq 120 ]
    ask -m "$server" reach
    cmp first out
}

@test "the table and the pairs agree in every cell" {
    for machine in "$server" "$xeon" "$sriov" "$machines/arm64.json" "$machines/vmd.json"; do
        "$RIGMEM" -m "$machine" reach --all >text
        "$RIGMEM" -j -m "$machine" reach --all >out
        python3 - text out <<'EOF_PY'
import json, sys
pairs = json.load(open(sys.argv[2]))["result"]["pairs"]
lines = open(sys.argv[1]).read().split("\n")
n = round(len(pairs) ** 0.5)
letter = {"BUS_ADDR": "B", "THRU_HOST_BRIDGE": "T", "NOT_SUPPORTED": "N", None: "?"}
word = {"yes": "yes", "no": "no", "unknown": "?"}
k = 0
for row in range(n):
    cells = lines[1 + row].split()[1:]
    for column in range(n):
        if row == column:
            assert cells.pop(0) == "X"
            assert pairs[k]["path"] == "X" and pairs[k]["p2pdma"]["distance"] == 0
            k += 1
            continue
        got = [cells.pop(0) for _ in range(4)]
        p = pairs[k]; k += 1
        d = p["p2pdma"]["distance"]
        want = [word[p["answer"]], letter[p["p2pdma"]["verdict"]], p["path"] or "?", "?" if d is None else str(d)]
        assert got == want, (p["from"], p["to"], got, want)
assert k == len(pairs)
EOF_PY
    done
}

@test "a machine without a GPU says so, with what to do" {
    run "$RIGMEM" -m "$machines/vmd.json" reach --rules 6.1
    [ "$status" -eq 0 ]
    printf '00:00.0 Host bridge [0600]: x [8086:1237]\n\tControl: I/O+\n00:01.0 Ethernet controller [0200]: y [8086:100e]\n\tControl: I/O+\n' >none.txt
    run "$RIGMEM" -m none.txt reach
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "no GPU among 2 functions" ]
    [[ ${lines[1]} == hint:*--gpu* ]]
    ask -m none.txt reach
    [ "$(json 'd["result"]["pairs"]' <out)" = "[]" ]
}

@test "--dot: arrows, green where it reaches, red and dashed where it is blocked; the table has the gate" {
    "$RIGMEM" -m "$machines/arm64.json" reach --dot >graph
    grep '"0000:04:00.0" -> "0000:03:00.0"' graph | grep -q 'color="#2e7d32"'
    grep '"0000:04:00.0" -> "0004:01:00.0"' graph | grep 'color="#c62828"' | grep -q 'style=dashed'
    # both ways alike: one arrow with two heads
    grep '"0000:03:00.0" -> "0004:01:00.0"' graph | grep -q 'dir=both'
    refute grep -q '"0004:01:00.0" -> "0000:03:00.0"' graph
    grep -Fq '<td bgcolor="white">nic0</td><td bgcolor="#c8e6c9">yes<br/><font point-size="8">PIX</font></td><td bgcolor="#ffcdd2">no<br/><font point-size="8">bridge-unlisted</font></td>' graph
}

@test "--dot marks where pairs end, with how many do" {
    # gpu2 and gpu3 to each other, nic1 and nvme1 to gpu2: all by the port above gpu2
    "$RIGMEM" -m "$server" reach --dot >graph
    grep '"0000:08:08.0" \[' graph | grep -q 'redirects<br/>.*stops 4 pairs'
    # gpu4 to and from gpu5, nic2 and nvme2: each of the two has its own port and the GPU's
    grep '"0000:82:08.0" \[' graph | grep -q 'stops 4 pairs'
    grep '"0000:82:0b.0" \[' graph | grep -q 'stops 2 pairs'
    # 16 clients to the 4 GPUs of the other socket, and to the 2 under the other switch of their own
    [ "$(grep -c 'host bridge.*stops 80 pairs' graph)" -eq 2 ]
    [ "$(grep '"0000:08:09.0" \[' graph | grep -c stops)" -eq 0 ]
    # a BAR and an IOMMU stop at the function itself
    "$RIGMEM" -m "$xeon" --assume bar=gpu1:256MiB reach --dot | grep '"0000:98:00.0" \[' | grep -q 'BAR 256 MiB<br/>.*stops 1 pair<'
    "$RIGMEM" -m "$xeon" --iommu gpu0=translate reach --dot | grep '"0000:16:00.0" \[' | grep -q 'IOMMU translates<br/>.*stops 2 pairs<'
}

@test "--dot of one pair: its ends and what is above them, and the way in colour" {
    "$RIGMEM" -m "$server" reach nic1 gpu2 --dot >graph || [ "$?" -eq 1 ]
    refute grep -q '0000:0a:00.0' graph
    # from both ends up to the common bridge 07:00.0 and no further
    for edge in '"0000:07:00.0" -> "0000:08:08.0"' '"0000:08:08.0" -> "0000:09:00.0"' '"0000:07:00.0" -> "0000:08:0a.0"' \
        '"0000:08:0a.0" -> "0000:0b:00.0"'; do
        grep -F "$edge" graph | grep -q 'color="#c62828"'
    done
    [ "$(grep -F '"0000:00:03.0" -> "0000:07:00.0"' graph | grep -c color=)" -eq 0 ]
    "$RIGMEM" -m "$server" reach nic0 gpu0 --dot | grep -F '"0000:01:00.0" -> "0000:02:08.0"' | grep -q 'color="#2e7d32"'
    # any function may be asked about
    "$RIGMEM" -m "$server" reach 0000:00:00.0 gpu0 --dot >graph || [ "$?" -eq 1 ]
    grep '"0000:00:00.0" \[' graph | grep -q 'host bridge'
}

@test "--dot explains what it shows, and nothing else, and names devices, machine and rules" {
    "$RIGMEM" -m "$server" reach --dot >graph
    grep -q '<b>server-8gpu</b>: who reaches whose memory, by the rules of Linux 6.1, on .*, CPU GenuineIntel family 6' graph
    sed -n '/^  legend/,$p' graph >legend
    for word in redirects stops 'one colour' PIX 'GT/s'; do
        grep -q "$word" legend
    done
    refute grep -Eq '&#x2192;|SYS|ACS [?]' legend
    grep '"0000:03:00.0" \[' graph | grep -q '<br/>Tesla V100 PCIe 16GB<br/>memory 16 GiB<br/>BAR 16 GiB'
    "$RIGMEM" -m "$machines/client-intel-unprivileged.txt" reach --dot | sed -n '/^  legend/,$p' | grep -q 'ACS [?]'
    "$RIGMEM" -m "$machines/desktop-amd.txt" reach --dot | grep 'host bridge 0000:00' | grep -q 'AMD Zen: passes requests on'
}

@test "--dot of eight GPUs: colours for groups and one table, no edges between pairs" {
    "$RIGMEM" -m "$server" reach --dot >graph
    refute grep -q 'constraint=false' graph
    grep -q '<td bgcolor="#a5d6a7">gpu0 gpu1</td>' graph
    grep -q 'gpu6 gpu7' graph
    # clients with the same row share it
    grep -Fq '<td bgcolor="white">nic0 nvme0</td>' graph
    # all alike: one group, told by its ends
    "$RIGMEM" -m "$server" --cpu AMD:25 reach --dot | grep -Fq '<td bgcolor="#a5d6a7">gpu0-gpu7</td>'
    # one row is no answer to who reaches whom: no groups
    "$RIGMEM" -m "$server" reach gpu2 --dot >graph
    refute grep -Eq 'a5d6a7|one colour' graph
    command -v dot >/dev/null || skip "needs graphviz"
    dot -Tsvg graph >/dev/null
}

@test "graphviz draws the pictures of all bundled machines without a word" {
    command -v dot >/dev/null || skip "needs graphviz"
    for machine in "$machines"/*.json "$machines"/*.hex "$machines"/*.txt; do
        "$RIGMEM" -m "$machine" reach --dot >graph 2>/dev/null
        dot -Tsvg graph 2>&1 >picture.svg | tee -a words
        grep -q '</svg>' picture.svg
    done
    [ ! -s words ]
    run "$RIGMEM" -m "$server" reach gpu2 -o row.svg
    [ "$output" = "" ]
}

@test "the picture in README is that of the machine it says" {
    man=$BATS_TEST_DIRNAME/../man
    "$RIGMEM" -m "$machines/arm64.json" reach --dot >now
    # stale: rigmem -m tests/machines/arm64.json reach -o man/arm64.dot, and again with .svg
    cmp now "$man/arm64.dot"
    grep -q '](man/arm64.svg)' "$man/../README.md"
    command -v dot >/dev/null || skip "needs graphviz"
    # places and sizes hang on the fonts: the words do not
    words() { grep -o '>[^<]*</text>' "$1" | sort; }
    dot -q -Tsvg now >now.svg
    cmp <(words now.svg) <(words "$man/arm64.svg")
}

@test "-o writes the picture; with --json the result is the file" {
    command -v dot >/dev/null || skip "needs graphviz"
    ask -m "$server" reach -o r.svg
    [ "$status" -eq 0 ]
    [ "$(json 'd["result"]["file"]' <out)" = r.svg ]
    grep -q '<svg' r.svg
}
