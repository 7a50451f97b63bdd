#!/usr/bin/env bats
# rigmem topo. What the bundled machines hold is told in tests/machines/README.md.

setup() {
    : "${RIGMEM:?names the program under test}"
    machines=$BATS_TEST_DIRNAME/machines
    cd "$BATS_TEST_TMPDIR" || return
}

# Succeeds iff the command fails: bats does not see the failure of a negated command.
refute() {
    if "$@"; then return 1; fi
}

json() {
    python3 -c 'import json,sys; d=json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"
}

@test "the tree shows each function below its bridge" {
    "$RIGMEM" -m "$machines/sriov.hex" topo >out
    [ "$(sed 's/^\([| +`-]*[0-9a-f:.]*\).*/\1/' out | tail -n +2)" = '+- 0000:00:00.0
`- 0000:00:01.0
   `- 0000:01:00.0
      +- 0000:02:01.0
      |  +- 0000:03:00.0
      |  +- 0000:04:00.0
      |  `- 0000:04:00.1
      `- 0000:02:02.0
         `- 0000:05:00.0' ]
}

@test "host bridges stand with their representative and whether Linux lists it" {
    "$RIGMEM" -m "$machines/server-8gpu.json" topo >out
    grep -q '^host bridge 0000:00  represented by 0000:00:00.0 8086:6f00  not listed  NUMA 0$' out
    grep -q '^host bridge 0000:80  represented by 0000:80:02.0 8086:6f04  not listed  NUMA 1$' out
    "$RIGMEM" -m "$machines/xeon-listed.json" topo >out
    grep -q '^host bridge 0000:15  represented by 0000:15:00.0 8086:09a2  listed as 8086:09a2' out
}

@test "ports show their ACS control and whether it redirects, GPUs their memory and BAR" {
    "$RIGMEM" -m "$machines/server-8gpu.json" topo >out
    grep -q '0000:08:08.0 downstream port  ACS 0x001d redirects' out
    grep '0000:08:09.0 downstream port  ACS 0x0000' out | grep -vq redirects
    grep -q '0000:09:00.0 \[gpu2\] GPU .*memory 16 GiB, BAR 16 GiB' out
}

@test "a link below what it could be shows both" {
    "$RIGMEM" -m "$machines/server-8gpu.json" topo | grep -q '0000:02:0b.0 .*link 8 GT/s x4 of 8 GT/s x16'
}

@test "unknown ACS is ?" {
    "$RIGMEM" -m "$machines/client-intel-unprivileged.txt" topo >out
    refute grep -q 'ACS 0x' out
    grep -q '?' out
}

@test "--assume moves a card in the picture" {
    "$RIGMEM" -m "$machines/server-8gpu.json" --assume parent=gpu7:02:0a.0 topo >out
    [ "$(sed -n '/0000:02:0a.0/,/0000:02:0b.0/p' out | grep -c gpu7)" -eq 1 ]
}

@test "JSON nests children, lists the host bridges and names the rules" {
    "$RIGMEM" -j -m "$machines/server-8gpu.json" topo >out
    [ "$(json '[(b["root"], b["representative"], b["id"], b["entry"], b["listed"]) for b in d["result"]["host_bridges"]]' <out)" = \
        "[('0000:00', '0000:00:00.0', '8086:6f00', None, 'no'), ('0000:80', '0000:80:02.0', '8086:6f04', None, 'no')]" ]
    [ "$(json 'd["result"]["host_bridges"][0]["functions"][1]["children"][0]["children"][0]["children"][0]["alias"]' <out)" = gpu0 ]
    [ "$(json 'd["result"]["rules"], d["result"]["unplaced"]' <out)" = "('6.1', [])" ]
}

@test "--dot is a graph that graphviz takes" {
    "$RIGMEM" -m "$machines/server-8gpu.json" topo --dot >graph
    head -1 graph | grep -q '^digraph'
    command -v dot >/dev/null || skip "needs graphviz"
    dot -Tsvg graph >/dev/null
}

@test "-o writes svg, png, pdf by graphviz, and dot without it; the file is 0600" {
    "$RIGMEM" -m "$machines/server-8gpu.json" topo -o t.dot
    cmp t.dot <("$RIGMEM" -m "$machines/server-8gpu.json" topo --dot)
    [ "$(stat -c %a t.dot)" = 600 ]
    command -v dot >/dev/null || skip "needs graphviz"
    for kind in svg png pdf; do
        run "$RIGMEM" -m "$machines/server-8gpu.json" topo -o t.$kind
        [ "$status" -eq 0 ]
        [ "$output" = "" ]
    done
    head -c 4 t.png | tail -c 3 | grep -q PNG
    head -c 4 t.pdf | grep -q '%PDF'
    grep -q '<svg' t.svg
}

@test "-o with another ending is a usage error" {
    run "$RIGMEM" -m "$machines/server-8gpu.json" topo -o t.gif
    [ "$status" -eq 2 ]
    [ ! -e t.gif ]
}

@test "without graphviz -o is refused with a hint, and nothing is left" {
    run env PATH=/nowhere "$RIGMEM" -m "$machines/server-8gpu.json" topo -o t.svg
    [ "$status" -eq 3 ]
    [[ $output == *"rigmem: topo: dot: graphviz is not installed"* ]]
    [[ $output == *"hint: "* ]]
    [ "$(ls)" = "" ]
}

@test "a picture of names with quotes and escapes is still a graph" {
    command -v dot >/dev/null || skip "needs graphviz"
    printf '00:00.0 VGA compatible controller [0300]: A "b" \\ \033c [1002:73bf]\n\tRegion 0: Memory at e0000000 (64-bit, prefetchable) [size=256M]\n' >odd.txt
    "$RIGMEM" -m odd.txt topo --dot >graph
    dot -Tsvg graph >/dev/null
}
