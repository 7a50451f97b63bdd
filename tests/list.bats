#!/usr/bin/env bats
# rigmem list. What the bundled machines hold is told in tests/machines/README.md.

setup() {
    : "${RIGMEM:?names the program under test}"
    machines=$BATS_TEST_DIRNAME/machines
    cd "$BATS_TEST_TMPDIR" || return
}

json() {
    python3 -c 'import json,sys; d=json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"
}

@test "every function is listed, in bus order" {
    "$RIGMEM" -m "$machines/sriov.hex" list >out
    [ "$(awk 'NR>1 {print $1}' out)" = "0000:00:00.0
0000:00:01.0
0000:01:00.0
0000:02:01.0
0000:02:02.0
0000:03:00.0
0000:04:00.0
0000:04:00.1
0000:05:00.0" ]
    [ "$(head -1 out | awk '{print $1, $2, $NF}')" = "FUNCTION ALIAS NAME" ]
}

@test "the filters gpu, nic, nvme and bridge choose by kind" {
    count() { "$RIGMEM" -m "$machines/server-8gpu.json" list "$1" | tail -n +2 | wc -l; }
    [ "$(count gpu)" -eq 8 ]
    [ "$(count nic)" -eq 4 ]
    [ "$(count nvme)" -eq 4 ]
    # four root ports, four switches of one upstream and four downstream ports
    [ "$(count bridge)" -eq 24 ]
}

@test "a bus address or an alias chooses one function" {
    run "$RIGMEM" -m "$machines/server-8gpu.json" list gpu3
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[1]} == 0000:0a:00.0* ]]
    run "$RIGMEM" -m "$machines/server-8gpu.json" list 0a:00.0
    [[ ${lines[1]} == 0000:0a:00.0*gpu3* ]]
}

@test "a text chooses every function whose line holds it, whatever its case" {
    run "$RIGMEM" -m "$machines/sriov.hex" list 10B5:8724
    [ "${#lines[@]}" -eq 4 ]
    run "$RIGMEM" -m "$machines/sriov.hex" list ETHERNET
    [ "${#lines[@]}" -eq 4 ]
}

@test "a filter that nothing passes prints the header and exits 0" {
    run "$RIGMEM" -m "$machines/sriov.hex" list nothing-like-it
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
}

@test "an address that is not there is a usage error" {
    run "$RIGMEM" -m "$machines/sriov.hex" list 0000:77:00.0
    [ "$status" -eq 2 ]
    [[ $output == *"rigmem: list: 0000:77:00.0: no such function"* ]]
}

@test "unknown facts are ? in text and null with a reason in JSON" {
    "$RIGMEM" -m "$machines/sriov.hex" list gpu >out
    [[ $(tail -1 out) == *" ? "* ]]
    "$RIGMEM" -j -m "$machines/sriov.hex" list gpu >out
    [ "$(json 'd["result"]["functions"][0]["numa_node"]' <out)" = None ]
    [ "$(json '"numa_node" in [u["field"] for u in d["result"]["functions"][0]["unknown"]]' <out)" = True ]
}

@test "assumed facts are told: the GPU's memory by its id" {
    "$RIGMEM" -m "$machines/sriov.hex" list gpu0 | grep -q '16 GiB (assumed)'
    "$RIGMEM" -j -m "$machines/sriov.hex" list gpu0 >out
    [ "$(json '[a["value"] for a in d["result"]["functions"][0]["assumed"] if a["field"]=="gpu_memory"]' <out)" = "[17179869184]" ]
}

@test "a fact that is given is known: --gpu-memory, --iommu, --gpu" {
    "$RIGMEM" -j -m "$machines/sriov.hex" --gpu-memory gpu0=8GiB --iommu gpu0=identity list gpu0 >out
    [ "$(json 'd["result"]["functions"][0]["gpu_memory"]' <out)" = 8589934592 ]
    [ "$(json 'd["result"]["functions"][0]["iommu"]' <out)" = identity ]
    [ "$(json '[a for a in d["result"]["functions"][0]["assumed"] if a["field"]=="gpu_memory"]' <out)" = "[]" ]
    "$RIGMEM" -j -m "$machines/sriov.hex" --gpu 03:00.0 list 03:00.0 >out
    [ "$(json 'd["result"]["functions"][0]["gpu"]' <out)" = True ]
}

@test "addresses and ids are text, sizes and counts are numbers" {
    "$RIGMEM" -j -m "$machines/server-8gpu.json" list gpu0 >out
    [ "$(json '[type(d["result"]["functions"][0][k]).__name__ for k in ("vendor","device","class","gpu_memory","numa_node","iommu_group")]' <out)" = \
        "['str', 'str', 'str', 'int', 'int', 'int']" ]
    [ "$(json '[b["bytes"] for b in d["result"]["functions"][0]["bars"] if b["bar"]==1]' <out)" = "[17179869184]" ]
}

@test "names with terminal escapes are printed escaped" {
    printf '00:00.0 VGA compatible controller [0300]: Evil \033[31mCard\007 [1002:73bf]\n\tControl: I/O+ Mem+ BusMaster+\n\tRegion 0: Memory at e0000000 (64-bit, prefetchable) [size=256M]\n' >evil.txt
    run "$RIGMEM" -m evil.txt list
    [ "$status" -eq 0 ]
    [[ $output != *$'\033'* ]]
    [[ $output != *$'\007'* ]]
}

@test "a kernel's command line whose list of ACS redirects has commas is warned of, from every source" {
    words='a comma ends disable_acs_redir=: Linux takes 1 of its 2 functions; separate them by semicolons: pci=disable_acs_redir=0000:08:08.0;0000:82:00.0'
    line='BOOT_IMAGE=/vmlinuz pci=disable_acs_redir=0000:08:08.0,0000:82:00.0 quiet'
    python3 -c 'import json,sys
c = json.load(open(sys.argv[1])); c["machine"]["command_line"] = sys.argv[2]
json.dump(c, open("commas.json", "w"))' "$machines/server-8gpu.json" "$line"
    mkdir -p root/sys/bus/pci/devices/0000:00:00.0 root/proc
    printf '0x060000\n' >root/sys/bus/pci/devices/0000:00:00.0/class
    printf '0x8086\n' >root/sys/bus/pci/devices/0000:00:00.0/vendor
    printf '0x1237\n' >root/sys/bus/pci/devices/0000:00:00.0/device
    printf '%s\n' "$line" >root/proc/cmdline
    { cat "$machines/desktop-amd.txt"; printf '\n%s\n' "$line"; } >text.txt
    for source in commas.json live:root text.txt; do
        "$RIGMEM" -m "$source" list >/dev/null 2>err
        [ "$(cat err)" = "rigmem: warning: the kernel's command line: $words" ]
    done
    "$RIGMEM" -m commas.json --json list | grep -qF "$words"
}

@test "a text without a tree is refused with what it tells all the same" {
    printf 'ACS redirect is enabled on: 0000:02:01.0, 0000:02:02.0\nhost bridge 0000:00:00.0 (8086:4c43)\n' >told
    run "$RIGMEM" -m told list
    [ "$status" -eq 5 ]
    [ "${lines[0]}" = "rigmem: list: told: it shows no PCI function: run \`sudo lspci -D -vvv -nn -xxxx\` on the machine, or \`rigmem capture\`" ]
    [ "${lines[1]}" = "hint: ACS redirects at 2 functions in it, cleared by pci=disable_acs_redir=0000:02:01.0;0000:02:02.0; host bridge 8086:4c43 is not on Linux's list, so what is redirected to it goes no further" ]
    [ "${#lines[@]}" -eq 2 ]
}

@test "functions of a source without names are named from pci.ids, in text and in JSON" {
    "$RIGMEM" -m "$machines/server-8gpu.json" list gpu0 >out
    grep -q '  NVIDIA Corporation GV100GL \[Tesla V100 PCIe 16GB\]$' out
    [ "$("$RIGMEM" -j -m "$machines/server-8gpu.json" list gpu0 | json 'd["result"]["functions"][0]["name"]')" = \
        "NVIDIA Corporation GV100GL [Tesla V100 PCIe 16GB]" ]
    # a filter finds what the list shows
    [ "$("$RIGMEM" -m "$machines/server-8gpu.json" list 'tesla v100' | tail -n +2 | wc -l)" -eq 8 ]
    for view in "topo" "reach gpu0 gpu1"; do
        # shellcheck disable=SC2086
        "$RIGMEM" -m "$machines/server-8gpu.json" $view >out
        grep -q 'gpu0.*  NVIDIA Corporation GV100GL \[Tesla V100 PCIe 16GB\]$' out
    done
}

@test "a name from pci.ids is none of the machine's facts: captures lack it" {
    "$RIGMEM" -m "$machines/server-8gpu.json" capture -o a.json
    [ "$(grep -c '"name"' a.json)" = 0 ]
    "$RIGMEM" -m a.json list | grep -q 'Mellanox Technologies'
    "$RIGMEM" -m a.json capture -o b.json
    cmp a.json b.json
}

@test "without a libpci that can be loaded: live is refused, other machines are listed without names" {
    echo 'no library' >libpci.so.3
    printf '%s' '{"format":"rigmem-machine","version":1,"functions":[{"address":"0000:03:00.0",' \
        '"parent":"root","vendor":"0x10de","device":"0x15f7"}]}' >machine.json
    printf '00:00.0 Host bridge: Intel Corporation Ice Lake Memory Map/VT-d\n\tFlags: fast devsel\n' \
        >names.txt
    export LD_LIBRARY_PATH=$PWD
    run "$RIGMEM" -m live list
    [ "$status" -eq 3 ]
    [[ $output == *libpci.so.3:* ]]
    [[ $output == *"install libpci 3.5 or later"* ]]
    run "$RIGMEM" -m machine.json list
    [ "$status" -eq 0 ]
    [[ ${lines[1]} == "0000:03:00.0 "*" 10de:15f7 "* ]]
    [[ $output != *NVIDIA* ]]
    [[ $("$RIGMEM" -m names.txt list | tail -1) == *"Ice Lake Memory Map/VT-d"* ]]
}
