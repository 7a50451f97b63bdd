#!/usr/bin/env bats
# Sessions: the state file between commands, names, dry runs, refusals, scripts.

setup() {
    : "${RIGMEM:?names the program under test}"
    machine=$BATS_TEST_DIRNAME/machines/server-8gpu.json
    cd "$BATS_TEST_TMPDIR" || return
    export RIGMEM_STATE=$PWD/s.json
}

# The result of a command's JSON by a Python expression over r.
result() {
    local expression=$1
    shift
    "$RIGMEM" -j "$@" | python3 -c 'import json,sys; print(eval(sys.argv[1], {"r": json.load(sys.stdin)["result"]}))' \
        "$expression"
}

open_two() {
    "$RIGMEM" -q -m "$machine" open gpu0 gpu1 "$@"
}

@test "a command without a session is misuse, says how to start one, and leaves no file" {
    for words in 'alloc gpu0 gpu 4K' show 'free r1' close 'walk gpu0 0x0' 'fault failed' recover; do
        # shellcheck disable=SC2086 # words
        run "$RIGMEM" $words
        [ "$status" -eq 2 ]
        [[ $output == *"no session is open"*"hint: rigmem open -m FILE starts one"* ]]
    done
    [ -z "$(ls -A)" ]
}

@test "a place where no file can be made is refused, and nothing is said to be open" {
    mkdir gone
    cd gone
    rmdir ../gone
    for state in s.json /proc/s.json; do
        for words in "-m $machine open gpu0" recover; do
            # shellcheck disable=SC2086 # words
            run "$RIGMEM" -s "$state" $words
            [ "$status" -eq 3 ]
            [[ $output == "rigmem: "*": s.json.lock: no such file or directory" ]]
        done
        run "$RIGMEM" -j -s "$state" -m "$machine" open gpu0
        [ "$status" -eq 3 ]
        [[ $output == *'"ok":false'* ]]
    done
}

@test "this machine's own functions are refused, with what to do instead" {
    run "$RIGMEM" open
    [ "$status" -eq 3 ]
    [[ $output == *"hint: rigmem capture -o FILE"* ]]
    [ -z "$(ls -A)" ]
}

@test "the same commands give the same addresses in one process and in many" {
    commands='open gpu0 gpu1
alloc gpu0 gpu 64K
alloc gpu0 host 8K
alloc gpu1 bar 4K
map-peer gpu1 r1
free r2
alloc gpu1 gpu 3M
alloc gpu0 gpu 12K
free r1 r4
alloc gpu0 gpu 100K'
    printf '%s\n' "$commands" | RIGMEM_STATE='' "$RIGMEM" -m "$machine" -j |
        python3 -c 'import json,sys
for s in json.load(sys.stdin)["steps"]: print(json.dumps(s["result"].get("region"), sort_keys=True))' |
        sed 's/"path": "[^"]*"/"path": null/; s/"path": null, *//; s/"offset": [0-9a-z]*, //' >one
    printf '%s\n' "$commands" | while read -r words; do
        # shellcheck disable=SC2086 # words
        "$RIGMEM" -m "$machine" -j $words
    done | python3 -c 'import json,sys
for line in sys.stdin: print(json.dumps(json.loads(line)["result"].get("region"), sort_keys=True))' |
        sed 's/"path": "[^"]*"/"path": null/; s/"path": null, *//; s/"offset": [0-9a-z]*, //' >many
    [ "$(wc -l <one)" -eq 10 ]
    sed -i 's/, "path": null//' one many
    cmp one many
}

@test "another machine with a session's file is misuse" {
    open_two
    run "$RIGMEM" -m "$BATS_TEST_DIRNAME/machines/desktop-amd.txt" show
    [ "$status" -eq 2 ]
    [[ $output == *"the session is of another machine"* ]]
    run "$RIGMEM" -m "$machine" --iommu all=translate show
    [ "$status" -eq 2 ]
    "$RIGMEM" -q -m "$machine" show
}

@test "an id is never used again, a name may be after a free" {
    open_two
    "$RIGMEM" -q alloc gpu0 gpu 4K --name a
    run "$RIGMEM" alloc gpu0 gpu 4K --name a
    [ "$status" -eq 2 ]
    [[ $output == *"r1 has this name"* ]]
    "$RIGMEM" -q free a
    [ "$(result 'r["region"]["id"]' alloc gpu0 gpu 4K --name a)" = r2 ]
    run "$RIGMEM" free r1
    [ "$status" -eq 2 ]
    [ "$(result 'r["freed"]' free @last)" = "['r2']" ]
    run "$RIGMEM" free a
    [ "$status" -eq 2 ]
}

@test "a name that could be an id, a function or an option is refused" {
    open_two
    for name in r7 gpu0 nic0 1a -- '' 'a b' "$(printf '%064d' 0 | tr 0 a)"; do
        run "$RIGMEM" alloc gpu0 gpu 4K --name="$name"
        [ "$status" -eq 2 ]
    done
    [ "$(result 'r["regions"]' show)" = "[]" ]
}

@test "free checks all names first, and frees none where one is wrong or twice" {
    open_two
    "$RIGMEM" -q alloc gpu0 gpu 4K
    "$RIGMEM" -q alloc gpu0 gpu 4K
    for words in 'r1 r9' 'r1 r2 r1' 'r1 @last r2'; do
        # shellcheck disable=SC2086 # words
        run "$RIGMEM" free $words
        [ "$status" -eq 2 ]
        [ "$(result 'len(r["regions"])' show)" = 2 ]
    done
    [ "$(result 'r["freed"]' free r2 r1)" = "['r2', 'r1']" ]
}

@test "a dry run prints what the real run gives, and changes nothing" {
    "$RIGMEM" -n -m "$machine" open gpu0
    [ -z "$(ls -A)" ]
    open_two
    cp s.json before
    dry=$("$RIGMEM" -n alloc gpu0 gpu 64K)
    run "$RIGMEM" -n free r1
    [ "$status" -eq 2 ]
    "$RIGMEM" -n close
    cmp s.json before
    [ "$("$RIGMEM" alloc gpu0 gpu 64K)" = "$dry" ]
    # in one process too
    [ "$(RIGMEM_STATE='' "$RIGMEM" -m "$machine" -c 'open gpu0; alloc gpu0 gpu 4K -n; alloc gpu0 gpu 4K' |
        tail -n 2 | uniq | wc -l)" -eq 1 ]
}

@test "no room, refusals and misuse have their codes, and take nothing" {
    open_two
    free_bytes=$(result 'r["gpus"][0]["free_bytes"]' show gpu0)
    run "$RIGMEM" alloc gpu0 gpu 1T
    [ "$status" -eq 4 ]
    run "$RIGMEM" alloc gpu0 gpu 0
    [ "$status" -eq 2 ]
    run "$RIGMEM" alloc gpu2 gpu 4K
    [ "$status" -eq 2 ]
    [[ $output == *"hint: rigmem open gpu2 takes it"* ]]
    run "$RIGMEM" map-host gpu0 0x1000 4K
    [ "$status" -eq 3 ]
    run "$RIGMEM" open gpu0
    [ "$status" -eq 3 ]
    "$RIGMEM" -q alloc gpu0 gpu 4K
    run "$RIGMEM" bus r1 0000:ff:1f.7
    [ "$status" -eq 3 ]
    "$RIGMEM" -q free r1
    [ "$(result 'r["gpus"][0]["free_bytes"]' show gpu0)" = "$free_bytes" ]
}

@test "armed faults end the next request at their step, once" {
    open_two
    "$RIGMEM" -q fault refuse=1
    run "$RIGMEM" alloc gpu0 host 4K
    [ "$status" -eq 3 ]
    "$RIGMEM" -q alloc gpu0 host 4K
    "$RIGMEM" -q fault noroom=1
    run "$RIGMEM" alloc gpu0 host 4K
    [ "$status" -eq 4 ]
    "$RIGMEM" -q fault cut=1
    run "$RIGMEM" alloc gpu0 host 4K
    [ "$status" -eq 7 ]
    # not reached is disarmed too; misuse does not disarm
    "$RIGMEM" -q fault refuse=50
    run "$RIGMEM" alloc gpu0 host 0
    [ "$status" -eq 2 ]
    "$RIGMEM" -q alloc gpu0 host 4K
    for spec in flush=often gone=gpu77 refuse=0 cut= nothing; do
        run "$RIGMEM" fault $spec
        [ "$status" -eq 2 ]
    done
}

@test "a GPU off the bus fails requests, and the session ends by force" {
    open_two
    "$RIGMEM" -q alloc gpu0 bar 4K
    "$RIGMEM" -q alloc gpu1 gpu 4K
    "$RIGMEM" -q fault gone=gpu0
    "$RIGMEM" -q show
    run "$RIGMEM" alloc gpu0 gpu 4K
    [ "$status" -eq 7 ]
    [[ $output == *"0000:03:00.0: it left the bus"* ]]
    run "$RIGMEM" peek r1
    [ "$status" -eq 7 ]
    "$RIGMEM" -q alloc gpu1 gpu 4K
    run "$RIGMEM" close
    [ "$status" -eq 7 ]
    [[ $output == *"hint: close --force ends the session all the same"* ]]
    [ "$(result 'r["gpus"][1]["life"]' show)" = stopped ]
    "$RIGMEM" close --force
    [ -z "$(ls -A)" ]
}

@test "host memory names the file and offset where other programs map it" {
    open_two
    "$RIGMEM" -q alloc gpu0 host 8K --name ring
    path=$(result 'r["regions"][0]["host"]["path"]' show ring)
    offset=$(result 'r["regions"][0]["host"]["offset"]' show ring)
    printf 'hello' | dd of="$path" bs=1 seek="$offset" conv=notrunc status=none
    [ "$(result 'r["data"]' peek ring 0 5)" = 68656c6c6f ]
}

@test "a file is borrowed behind an IOMMU, and the GPU writes into it" {
    truncate -s 8K data
    "$RIGMEM" -q -m "$machine" --iommu all=translate open gpu0 --master
    [ "$(result 'r["region"]["bytes"]' map-host gpu0 --file data --offset 100 200)" = 200 ]
    "$RIGMEM" -q poke @last --data 616263 --by gpu0
    [ "$(dd if=data bs=1 skip=100 count=3 status=none)" = abc ]
    [ "$(result 'r["regions"][0]["host"]["offset"]' show)" = 100 ]
    run "$RIGMEM" map-host gpu0 --file data --offset 8000 1000
    [ "$status" -eq 3 ]
    rm data
    run "$RIGMEM" show
    [ "$status" -eq 0 ]
    [[ $output == *"warning"*"reaches nothing"* ]]
}

@test "a changing command has one fsync of the file and one of the directory, a looking one none" {
    open_two
    # a build that looks for leaks cannot be traced
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    strace -f -o trace -e trace=fsync,fdatasync,sync_file_range "$RIGMEM" -q alloc gpu0 gpu 4K
    [ "$(grep -c fsync trace)" -eq 2 ]
    strace -f -o trace -e trace=fsync,fdatasync,sync_file_range "$RIGMEM" -q show
    [ "$(grep -c sync trace)" -eq 0 ]
}

@test "a state file that breaks a rule is bad input, and stays as it is" {
    open_two
    cp s.json good
    for damage in 's/rigmem-state/other/' 's/"version":2/"version":"2"/' 's/"version":2/"version":0/' 's/"generation":[0-9]*/"generation":-1/' \
        's/}$//' 's/"last_region":0/"last_region":"x"/' 's/"names":{}/"names":[]/'; do
        sed "$damage" good >s.json
        cp s.json damaged
        run "$RIGMEM" show
        [ "$status" -eq 5 ]
        cmp s.json damaged
    done
}

@test "each list, object and switch of a state file is looked at: without it, or with a word there, it is bad input" {
    "$RIGMEM" -q -m "$machine" open gpu0 gpu1 --link 3:gpu0,gpu1 --master
    "$RIGMEM" -q alloc gpu0 gpu 64K --name g
    "$RIGMEM" -q bus g nic0
    "$RIGMEM" -q map-peer gpu1 g
    "$RIGMEM" -q peek g 0 4 --by gpu1
    python3 - "$RIGMEM" <<'EOF_PYTHON'
import copy, json, os, subprocess, sys
document = json.load(open("s.json"))
def members(value, path):
    if isinstance(value, (dict, list, bool)) and path and not isinstance(path[-1], int):
        yield path
    if isinstance(value, dict) and path != ["capture"]:
        for key in value:
            yield from members(value[key], path + [key])
    elif isinstance(value, list):
        for i in range(min(len(value), 2)):
            yield from members(value[i], path + [i])
tried, bad = 0, []
for path in members(document, []):
    for what in ("gone", "word"):
        damaged = copy.deepcopy(document)
        owner = damaged
        for key in path[:-1]:
            owner = owner[key]
        if what == "gone":
            del owner[path[-1]]
        else:
            owner[path[-1]] = "x"
        with open("s.json", "w") as f:
            json.dump(damaged, f)
        tried += 1
        if subprocess.run([sys.argv[1], "-q", "show"], stderr=subprocess.DEVNULL).returncode != 5:
            bad.append((path, what))
# a link that is not there is null, and so never an object
assert tried > 60 and not bad, (tried, bad)
EOF_PYTHON
}

@test "a state file that breaks a rule gets nothing beside it but its lock, whoever reads it" {
    open_two
    rm -r s.json.d
    cp s.json good
    # at the first part that is read, and at the last, when memory was written to
    for damage in 's/"last":0/"last":"x"/' 's/"tables":\["[^"]*"/"tables":["x"/' 's/"mappings":\["[^"]*"/"mappings":["x"/'; do
        sed "$damage" good >s.json
        ! cmp -s good s.json
        for words in show 'alloc gpu0 gpu 4K' '-n alloc gpu0 gpu 4K' 'close --force'; do
            # shellcheck disable=SC2086 # words
            run "$RIGMEM" $words
            [ "$status" -eq 5 ]
            [ "$(ls)" = "good
s.json
s.json.lock" ]
        done
    done
}

@test "system memory that somebody removed or cut is told of once, by each that looks until a command made it anew" {
    for damage in 'rm s.json.d/system-memory' 'truncate -s 0 s.json.d/system-memory'; do
        open_two --master
        "$RIGMEM" -q show
        [ ! -e s.json.d/system-memory ]
        "$RIGMEM" -q alloc gpu0 host 64K --name h
        "$RIGMEM" -q poke h --data c0ffee
        $damage
        for _ in 1 2; do
            run "$RIGMEM" show
            [ "$status" -eq 0 ]
            [[ $output == *"warning: $RIGMEM_STATE.d: memory is missing: "* ]]
        done
        run "$RIGMEM" alloc gpu0 gpu 64K
        [ "$status" -eq 0 ]
        [[ $output == *"warning: $RIGMEM_STATE.d: memory is missing: "* ]]
        run "$RIGMEM" peek h 0 4 --by gpu0
        [ "$output" = "0x300000000000  00 00 00 00                                      ...." ]
        "$RIGMEM" -q close
    done
}

@test "GPU memory that somebody removed or cut is told of, and the tables are there again" {
    for damage in 'rm -r s.json.d' "rm s.json.d/0000:03:00.0-memory" "truncate -s 5000 s.json.d/0000:03:00.0-memory"; do
        open_two --master
        "$RIGMEM" -q alloc gpu0 gpu 64K --name g
        "$RIGMEM" -q map-peer gpu1 g
        "$RIGMEM" -q walk gpu0 0x300000000000
        $damage
        run "$RIGMEM" walk gpu0 0x300000000000
        [ "$status" -eq 0 ]
        [[ $output == *"warning: $RIGMEM_STATE.d: memory is missing: the GPUs' tables are written again"* ]]
        "$RIGMEM" -q alloc gpu0 gpu 64K
        [ "$("$RIGMEM" peek g 0 4 --by gpu1 2>&1)" = "0x300000000000  00 00 00 00                                      ...." ]
        "$RIGMEM" -q close
    done
}

@test "who looks at a session whose memory was removed makes none" {
    open_two
    rm -r s.json.d
    "$RIGMEM" -q show
    "$RIGMEM" -q peek gpu0 0 1 || [ $? -eq 3 ]
    [ ! -e s.json.d ]
}

@test "memory files that are no regular files of one name that others may not write are refused before anything is begun" {
    open_two
    memory=s.json.d/0000:03:00.0-memory
    cp --sparse=always "$memory" kept
    for damage in "ln -s $PWD/elsewhere $memory" "mkfifo $memory" "mkdir $memory" "ln kept $memory" "install -m 666 /dev/null $memory"; do
        rm -rf "$memory"
        $damage
        for words in show 'alloc gpu0 gpu 4K' 'close --force'; do
            # shellcheck disable=SC2086 # words
            run timeout 20 "$RIGMEM" $words
            [ "$status" -eq 3 ]
            [[ $output == *": s.json.d/0000:03:00.0-memory: "* ]]
        done
        [ ! -e s.json.intent ] && [ ! -e elsewhere ]
    done
    rm -r "$memory"
    mv kept "$memory"
    [ "$("$RIGMEM" close)" = closed ]
}

@test "a name that is no UTF-8 is spelled where it is only told, and refused where it must be found again" {
    cp "$machine" $'m\xff.json'
    [[ $("$RIGMEM" -m $'m\xff.json' --iommu all=translate open gpu0 gpu1) == "a twin of $PWD/m\\xff.json, in "* ]]
    "$RIGMEM" -q -m $'m\xff.json' --iommu all=translate show
    mkdir $'d\xff'
    head -c 8192 /dev/zero >$'d\xff/data'
    run "$RIGMEM" map-host gpu0 --file $'d\xff/data'
    [ "$status" -eq 3 ]
    [ "$output" = 'rigmem: map-host: d\xff/data: its name is no UTF-8, as a state file'"'"'s text is
hint: rename it, or what is above it' ]
    # the name of what is above it is found out
    run bash -c 'cd "$2" && "$1" map-host gpu0 --file data' bash "$RIGMEM" $'d\xff'
    [ "$status" -eq 3 ]
    [[ $output == *"its name is no UTF-8"* ]]
    "$RIGMEM" -q alloc gpu0 gpu 4K
    run "$RIGMEM" bus r1 $'\xff'
    [ "$status" -eq 3 ]
    [[ $output == *'\xff: it is no bus address of a function'* ]]
    [ ! -e s.json.intent ]
    "$RIGMEM" -q close
    # in one process nothing is written down
    [[ $(RIGMEM_STATE='' "$RIGMEM" -m "$machine" --iommu all=translate -v -c $'open gpu0; map-host gpu0 --file d\xff/data' 2>/dev/null) == \
*"r1: $PWD/d\\xff/data from byte 0" ]]
}

@test "a fabric is a number of digits, without sign or blank" {
    for number in ' 1' +1 -18446744073709551615 0x1 256 ''; do
        run "$RIGMEM" -m "$machine" open gpu0 gpu1 --link "$number:gpu0,gpu1"
        [ "$status" -eq 2 ]
        [[ $output == *"hint: the form is --link N:GPU,GPU"* ]]
        [ ! -e s.json ]
    done
}

@test "a state file of another version is bad input that names both versions and who can close it" {
    open_two
    cp s.json good
    for version in 1 3; do
        sed "s/\"version\":2/\"version\":$version/" good >s.json
        cp s.json other
        run "$RIGMEM" show
        [ "$status" -eq 5 ]
        [ "$output" = "rigmem: show: $RIGMEM_STATE: this session is of version $version; this rigmem reads version 2
hint: close it with the rigmem that opened it" ]
        cmp s.json other
    done
}

@test "reach in a session answers about its machine without -m" {
    open_two
    "$RIGMEM" -q -s s.json reach gpu0 gpu1
    [ "$("$RIGMEM" list gpu | wc -l)" -eq 9 ]
}

@test "reach in a session answers with its GPUs as they were opened: memory, links" {
    "$RIGMEM" -q -m "$machine" open gpu0 gpu2 --link 3:gpu0,gpu2 --gpu-memory gpu0=32GiB
    run "$RIGMEM" -s s.json reach gpu0 gpu2
    [ "$status" -eq 0 ]
    [[ $output == *"this library maps         yes, by links of a fabric"* ]]
    [ "$(result '[(g["open"],g["decides"],g["why"]) for g in r["pairs"][0]["gates"] if g["gate"]=="link"]' \
        reach gpu2 gpu0)" = "[(True, True, 'links of fabric 3 join them')]" ]
    "$RIGMEM" -q reach gpu2 gpu0
    # 32 GiB behind a BAR of 16: nic0 reaches it no more, the linked peer does
    run "$RIGMEM" reach nic0 gpu0
    [ "$status" -eq 1 ]
    [[ $output == *"bar-small: BAR 1 reaches 16 GiB of 32 GiB of memory"* ]]
    # without the session's machine there are no links
    run "$RIGMEM" -m "$machine" reach -q gpu0 gpu2
    [ "$status" -eq 1 ]
}

@test "a script stops at its first failure with FILE:LINE, or goes on with -k" {
    printf 'open gpu0\n# a comment\nfree r9; alloc gpu0 gpu 4K\n' >script
    RIGMEM_STATE='' run "$RIGMEM" -m "$machine" -f script
    [ "$status" -eq 2 ]
    [[ $output == *"rigmem: script:3: free: r9:"* ]]
    [[ $output != *"r1 0x"* ]]
    RIGMEM_STATE='' run "$RIGMEM" -m "$machine" -k -f script
    [ "$status" -eq 2 ]
    [[ $output == *"r1 0x"* ]]
}

@test "a script is parsed whole before anything runs" {
    printf 'open gpu0\nalloc gpu0 gpu "4K\n' >script
    RIGMEM_STATE='' run "$RIGMEM" -m "$machine" -f script
    [ "$status" -eq 5 ]
    [ "$output" = "rigmem: script:2:16: the quote does not end" ]
    printf 'open gpu0\nfrobnicate\n' >script
    run "$RIGMEM" -m "$machine" -f script
    [ "$status" -eq 2 ]
    [ ! -e s.json ]
}

@test "words of a script are quoted as in sh" {
    printf '%s\n' "version -v; version   # x" 'ver"sio"n' "'version'" 'ver\' 'sion' 'version \' >script
    RIGMEM_STATE='' run "$RIGMEM" -f script
    [ "$status" -eq 0 ]
    [ "$(grep -c '^rigmem [0-9]' <<<"$output")" -eq 6 ]
}

@test "a script's JSON is one document of steps" {
    RIGMEM_STATE='' "$RIGMEM" -j -m "$machine" -c 'open gpu0; walk gpu0 0x300000000000; free r1' >out 2>err || status=$?
    [ "$status" -eq 2 ]
    python3 - <<'EOF_PY'
import json
d = json.load(open("out"))
assert not d["ok"] and d["error"]["code"] == 2 and d["error"]["where"] == "-c:1", d
assert [s["argv"][0] for s in d["steps"]] == ["open", "walk", "free"]
assert [s["ok"] for s in d["steps"]] == [True, True, False]
assert d["steps"][1]["result"]["end"] is None and d["steps"][1]["exit"] == 1
EOF_PY
}

@test "an in-memory session gives back what is out, and says so" {
    RIGMEM_STATE='' run "$RIGMEM" -m "$machine" -c 'open gpu0; alloc gpu0 gpu 4K; alloc gpu0 gpu 4K'
    [ "$status" -eq 0 ]
    [[ $output == *"rigmem: 2 regions were given back" ]]
    [ -z "$(ls -A)" ]
}

@test "the shell answers line by line where standard input is no terminal" {
    RIGMEM_STATE='' python3 - "$RIGMEM" "$machine" <<'EOF_PY'
import json, subprocess, sys
p = subprocess.Popen([sys.argv[1], "-j", "-m", sys.argv[2], "shell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                     text=True, bufsize=1)
def ask(line):
    p.stdin.write(line + "\n")
    return json.loads(p.stdout.readline())
assert ask("open gpu0")["ok"]
assert ask("alloc gpu0 gpu 4K")["result"]["region"]["id"] == "r1"
assert ask("free r2")["error"]["code"] == 2
assert ask("free r1")["result"]["freed"] == ["r1"]
p.stdin.close()
assert p.wait() == 0
EOF_PY
}

@test "processes that share a state file queue: no region is lost, none is doubled" {
    open_two
    for writer in 1 2 3 4; do
        (for _ in 1 2 3 4 5 6 7 8 9 10; do "$RIGMEM" alloc gpu$((writer % 2)) gpu 4K >>"ids.$writer" || exit 1; done) &
    done
    wait
    [ "$(cat ids.* | cut -d' ' -f1 | sort -u | wc -l)" -eq 40 ]
    [ "$(cat ids.* | cut -d' ' -f2 | sort -u | wc -l)" -eq 40 ]
    [ "$(result 'len(r["regions"])' show)" = 40 ]
}
