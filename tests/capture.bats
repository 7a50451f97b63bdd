#!/usr/bin/env bats
# rigmem capture and rigmem diff.

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

@test "reach on a capture answers byte for byte as on what it was made from" {
    for machine in "$machines"/*.json "$machines"/*.txt "$machines"/*.hex; do
        "$RIGMEM" -m "$machine" capture >capture.json
        "$RIGMEM" -m "$machine" -j reach --all >a
        "$RIGMEM" -m capture.json -j reach --all >b
        cmp a b
        "$RIGMEM" -m "$machine" reach --why >a
        "$RIGMEM" -m capture.json reach --why >b
        cmp a b
    done
}

@test "a capture of a capture is the same file" {
    "$RIGMEM" -m "$machines/server-8gpu.json" capture >a
    "$RIGMEM" -m a capture >b
    cmp a b
}

@test "facts given by options go into the capture" {
    "$RIGMEM" -m "$machines/sriov.hex" --cpu AMD:25 --kernel 6.1.0 --iommu all=identity capture >capture.json
    "$RIGMEM" -j -m capture.json list gpu0 >out
    [ "$(json 'd["result"]["machine"]["cpu_vendor"], d["result"]["machine"]["cpu_family"], d["result"]["machine"]["kernel"]' <out)" = \
        "('AuthenticAMD', 25, '6.1.0')" ]
    [ "$(json 'd["result"]["functions"][0]["iommu"]' <out)" = identity ]
}

@test "-o writes the file 0600 and prints nothing; - is standard output" {
    run "$RIGMEM" -m "$machines/sriov.hex" capture -o c.json
    [ "$status" -eq 0 ]
    [ "$output" = "" ]
    [ "$(stat -c %a c.json)" = 600 ]
    cmp c.json <("$RIGMEM" -m "$machines/sriov.hex" capture)
    cmp c.json <("$RIGMEM" -m "$machines/sriov.hex" capture -o -)
}

@test "-o replaces a file whole" {
    echo old >c.json
    "$RIGMEM" -m "$machines/sriov.hex" capture --output c.json
    cmp c.json <("$RIGMEM" -m "$machines/sriov.hex" capture)
    [ "$(ls)" = c.json ]
}

@test "-o through a link, onto a FIFO or a directory is refused and leaves nothing" {
    echo kept >target
    ln -s target link
    mkfifo fifo
    mkdir directory
    before=$(ls)
    for place in link fifo directory; do
        run "$RIGMEM" -m "$machines/sriov.hex" capture -o $place
        [ "$status" -eq 3 ]
        [[ $output == "rigmem: capture: $place: is "* ]]
    done
    run "$RIGMEM" -m "$machines/sriov.hex" capture -o missing/c.json
    [ "$status" -eq 3 ]
    [ "$(cat target)" = kept ]
    [ "$(ls)" = "$before" ]
}

@test "JSON: with -o the file, without it the capture itself" {
    "$RIGMEM" -j -m "$machines/sriov.hex" capture -o c.json >out
    [ "$(json 'd["result"]["file"]' <out)" = c.json ]
    [ "$(json 'd["result"]["bytes"]' <out)" -eq "$(stat -c %s c.json)" ]
    "$RIGMEM" -j -m "$machines/sriov.hex" capture >out
    [ "$(python3 -c 'import json; print(json.load(open("out"))["result"]["capture"] == json.load(open("c.json")))')" = True ]
}

@test "--redact leaves out the host's name and keeps reach's answers" {
    grep -q server-8gpu "$machines/server-8gpu.json"
    "$RIGMEM" -m "$machines/server-8gpu.json" capture --redact >r.json
    refute grep -q server-8gpu r.json
    answers() { json '[(p["from"], p["to"], p["answer"], p["gate"], p["p2pdma"]) for p in d["result"]["pairs"]]'; }
    [ "$("$RIGMEM" -j -m r.json reach | answers)" = "$("$RIGMEM" -j -m "$machines/server-8gpu.json" reach | answers)" ]
}

@test "diff of a machine with itself: no difference, exit 0" {
    run "$RIGMEM" diff "$machines/server-8gpu.json" "$machines/server-8gpu.json"
    [ "$status" -eq 0 ]
    [ "$output" = "no difference" ]
}

@test "diff names the fact that changed, before and after, exit 1" {
    "$RIGMEM" -m "$machines/server-8gpu.json" --assume acs=08:08.0:0011 capture >after.json
    run "$RIGMEM" diff "$machines/server-8gpu.json" after.json
    [ "$status" -eq 1 ]
    [ "$output" = "0000:08:08.0
  acs_control: 0x001d => 0x0011" ]
}

@test "diff names a function that moved, and the machine's own facts" {
    "$RIGMEM" -m "$machines/server-8gpu.json" --kernel 6.12.1 --assume parent=gpu7:02:0a.0 capture >after.json
    run "$RIGMEM" diff "$machines/server-8gpu.json" after.json
    [ "$status" -eq 1 ]
    [[ $output == *"  kernel: "*" => 6.12.1"* ]]
    [[ $output == *"0000:8a:00.0
"*"  parent: 0000:88:09.0 => 0000:02:0a.0"* ]]
}

@test "diff names functions that came and went" {
    run "$RIGMEM" diff "$machines/sriov.hex" "$machines/xeon-listed.json"
    [ "$status" -eq 1 ]
    [[ $output == *"0000:05:00.0 removed"* ]]
    [[ $output == *"0000:98:00.0 added"* ]]
}

@test "a fact that only one side shows is counted, and is no difference" {
    "$RIGMEM" -m "$machines/sriov.hex" --kernel 6.1 capture >known.json
    run "$RIGMEM" diff "$machines/sriov.hex" known.json
    [ "$status" -eq 0 ]
    [[ $output == "no difference
"*" facts stand in one of the two only" ]]
}

@test "diff --json: same, machine, functions with their fields" {
    "$RIGMEM" -m "$machines/server-8gpu.json" --assume acs=08:08.0:0011 capture >after.json
    "$RIGMEM" -j diff "$machines/server-8gpu.json" after.json >out || [ "$?" -eq 1 ]
    [ "$(json 'd["ok"], d["result"]["same"], d["result"]["machine"]' <out)" = "(True, False, [])" ]
    [ "$(json 'd["result"]["functions"]' <out)" = \
        "[{'change': 'changed', 'fields': [{'a': '0x001d', 'b': '0x0011', 'field': 'acs_control'}], 'function': '0000:08:08.0'}]" ]
}

@test "diff -q answers by its exit code alone" {
    run "$RIGMEM" -q diff "$machines/sriov.hex" "$machines/xeon-listed.json"
    [ "$status" -eq 1 ]
    [ "$output" = "" ]
}
