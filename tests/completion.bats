#!/usr/bin/env bats
# rigmem completion and the scripts it prints.

setup() {
    : "${RIGMEM:?names the program under test}"
    here=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    server=$BATS_TEST_DIRNAME/machines/server-8gpu.json
    cd "$BATS_TEST_TMPDIR" || return
    mkdir -p bin
    ln -sf "$RIGMEM" bin/rigmem
    PATH=$PWD/bin:$PATH
}

# What bash's function offers for the command line given, the cursor at its end; one a line, sorted.
bash_offers() {
    bash --norc -c '
        [ -r /usr/share/bash-completion/bash_completion ] && . /usr/share/bash-completion/bash_completion
        . "$1"
        COMP_LINE=$2
        COMP_POINT=${#2}
        # split as readline does: at blanks, and : and = as words of their own
        COMP_WORDS=()
        while IFS= read -r word; do COMP_WORDS+=("$word"); done < <(grep -oE "[:=]+|[^[:space:]:=]+" <<<"$2")
        case $2 in *[[:space:]]) COMP_WORDS+=("") ;; esac
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        compopt() { :; }
        _rigmem
        printf "%s\n" "${COMPREPLY[@]}"
    ' bash "$here/completions/rigmem.bash" "$1" | sort
}

@test "the scripts in the tree are what the program prints" {
    cmp "$here/completions/rigmem.bash" <("$RIGMEM" completion bash)
    cmp "$here/completions/_rigmem" <("$RIGMEM" completion zsh)
    cmp "$here/completions/rigmem.fish" <("$RIGMEM" completion fish)
}

@test "completion of another shell is a usage error" {
    run "$RIGMEM" completion tcsh
    [ "$status" -eq 2 ]
    [[ $output == *"rigmem: completion: tcsh: is none of bash|zsh|fish"* ]]
    run "$RIGMEM" completion
    [ "$status" -eq 2 ]
}

@test "bash: commands" {
    [ "$(bash_offers 'rigmem re')" = 'reach
recover' ]
    [ "$(bash_offers 'rigmem ' | xargs)" = "alloc bus capture close completion diff fault free help list map-host \
map-peer open peek poke reach recover shell show topo version walk" ]
}

@test "bash: options of the command and global ones" {
    [ "$(bash_offers 'rigmem reach --w')" = --why ]
    [ "$(bash_offers 'rigmem reach --a')" = "--all
--assume" ]
    [ "$(bash_offers 'rigmem capture --r')" = --redact ]
    [ "$(bash_offers 'rigmem --js')" = --json ]
}

@test "bash: functions of the machine that -m names" {
    [ "$(bash_offers "rigmem -m $server reach gpu" | xargs)" = "gpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7" ]
    [ "$(bash_offers "rigmem -m $server reach nv" | xargs)" = "nvme0 nvme1 nvme2 nvme3" ]
}

@test "bash: the colons of an address do not cut it" {
    # readline replaces only what follows the last colon
    [ "$(bash_offers "rigmem -m $server reach 0000:09")" = 09:00.0 ]
    [ "$(bash_offers "rigmem -m $server reach 0000:09:0")" = 00.0 ]
}

@test "bash: values of options: choices, facts, rules" {
    [ "$(bash_offers 'rigmem --color ' | xargs)" = "always auto never" ]
    [ "$(bash_offers 'rigmem --color=n')" = never ]
    [ "$(bash_offers "rigmem -m $server reach --rules 6")" = "$("$RIGMEM" version -j | python3 -c '
import json, sys
print("\n".join(sorted(r for r in json.load(sys.stdin)["result"]["rules"] if r.startswith("6"))))')" ]
    [ "$(bash_offers "rigmem -m $server --iommu gpu0=i")" = identity ]
    [ "$(bash_offers "rigmem -m $server --gpu-memory gpu7")" = gpu7= ]
    [ "$(bash_offers "rigmem -m $server --assume p2" | xargs)" = "p2pdma=off p2pdma=on" ]
    [ "$(bash_offers "rigmem -m $server --assume acs=gpu3")" = gpu3: ]
}

@test "an option's value that hangs on its letter is passed over as one that follows it" {
    cp "$server" machine.s
    for given in "-m$server" "-jm$server" "-qm $server" -mmachine.s; do
        # shellcheck disable=SC2086 # words
        [ "$("$RIGMEM" complete -- $given reach gpu7)" = "gpu7	" ]
    done
    # -s machine.s would take reach for a file
    [ "$("$RIGMEM" complete -- -jsmachine.s -m "$server" reach nic3)" = "nic3	" ]
}

@test "bash: faults and links name the machine's GPUs and functions" {
    [ "$(bash_offers "rigmem -m $server fault gone=nvme" | xargs)" = "nvme0 nvme1 nvme2 nvme3" ]
    [ "$(bash_offers "rigmem -m $server fault gpu5")" = gpu5: ]
    [ "$(bash_offers "rigmem -m $server fault gpu5:fl" | xargs)" = "flush=late flush=never flush=ok" ]
    [ "$(bash_offers "rigmem -m $server fault 0000:03:00.0:flush=n")" = never ]
    [ "$(bash_offers "rigmem -m $server fault nic" | xargs)" = "" ]
    [ "$(bash_offers "rigmem -m $server open --link 2:gpu5")" = gpu5 ]
    [ "$(bash_offers "rigmem -m $server open --link 2:gpu0,0000:8a")" = gpu0,0000:8a:00.0 ] ||
        [ "$(bash_offers "rigmem -m $server open --link 2:gpu0,0000:8a")" = 8a:00.0 ]
    [ "$(bash_offers "rigmem -m $server open --link 2:nic" | xargs)" = "" ]
}

@test "bash: parent=FUNCTION: goes on with bridges only" {
    [ "$(bash_offers "rigmem -m $server --assume parent=gpu0:0000:08:08")" = 08.0 ]
    [ "$(bash_offers "rigmem -m $server --assume parent=gpu0:gpu")" = "" ]
}

@test "bash: files for -m, -o and the sources of diff" {
    touch machine-a machine-b
    [ "$(bash_offers 'rigmem -m machine-' | xargs)" = "machine-a machine-b" ]
    [ "$(bash_offers 'rigmem capture -o machine-a')" = machine-a ]
    [ "$(bash_offers 'rigmem diff machine-b')" = machine-b ]
    [ "$(bash_offers 'rigmem -m li')" = live ]
}

@test "bash: commands and topics for help, shells for completion" {
    [ "$(bash_offers 'rigmem help fa')" = 'facts
fault' ]
    [ "$(bash_offers 'rigmem help reac')" = reach ]
    [ "$(bash_offers 'rigmem completion ' | xargs)" = "bash fish zsh" ]
}

@test "the completer says what each word is, writes nothing, and ends in 200 ms" {
    "$RIGMEM" complete -- -m "$server" reach gpu3 >out
    [ "$(cut -f1 out)" = gpu3 ]
    [ "$(ls)" = "bin
out" ]
    mkfifo never
    start=$(date +%s%N)
    run timeout 5 "$RIGMEM" complete -- -m never reach gpu
    # generous: the machine may be busy
    [ $((($(date +%s%N) - start) / 1000000)) -lt 2000 ]
    [ "$status" -eq 0 ]
    [ "$output" = "" ]
}

@test "the completer says nothing of a bad machine" {
    echo nonsense >bad
    run "$RIGMEM" complete -- -m bad reach gpu
    [ "$status" -eq 0 ]
    [ "$output" = "" ]
}

@test "zsh and fish take their scripts" {
    command -v zsh >/dev/null || skip "needs zsh"
    zsh -n "$here/completions/_rigmem"
    command -v fish >/dev/null || skip "needs fish"
    fish -n "$here/completions/rigmem.fish"
}

@test "fish: commands, options, functions" {
    command -v fish >/dev/null || skip "needs fish"
    offers() { HOME=$PWD fish --no-config -c "source $here/completions/rigmem.fish; complete -C '$1'" | cut -f1; }
    [ "$(offers 'rigmem rea')" = reach ]
    [ "$(offers 'rigmem reach --wh')" = --why ]
    [ "$(offers "rigmem -m $server reach nic2")" = nic2 ]
}

# What zsh's and fish's functions offer for a command line, the cursor at its end; one a line.
zsh_offers() {
    zsh -f -c '
        compdef() { :; }
        _files() { print -r -- FILES; }
        _describe() { print -rl -- "${(@P)4}"; }
        source $1
        words=(${(z)2}) CURRENT=$#words
        [[ $2 == *" " ]] && words+=("") && CURRENT=$#words
        _rigmem' zsh "$here/completions/_rigmem" "$1" | sed 's/\([^\\]\):.*/\1/; s/\\:/:/g'
}

fish_offers() {
    HOME=$PWD fish --no-config -c "source $here/completions/rigmem.fish; complete -C '$1'" | cut -f1
}

# A session with regions, and what every memory command's line is offered: LINE = OFFERS, where the line's last word
# is being completed.
open_session() {
    export RIGMEM_STATE=$PWD/s.json
    rigmem -q -m "$server" open gpu0 gpu1
    rigmem -q alloc gpu0 gpu 4K --name ring
    rigmem -q alloc gpu0 host 4K
}

memory_lines() {
    cat <<'EOF_LINES'
rigmem open --mas = --master
rigmem open --format nv-mmu-v3 = nv-mmu-v3
rigmem close --fo = --force
rigmem show ri = ring
rigmem alloc gpu0 ho = host
rigmem alloc gpu0 gpu 4K --unc = --uncached
rigmem map-host gpu0 --off = --offset
rigmem map-peer gpu1 ri = ring
rigmem bus ring nvme2 = nvme2
rigmem free r = r1 r2 ring
rigmem peek ring --by nic3 = nic3
rigmem poke ring --fi = --fill
rigmem walk gpu1 = gpu1
rigmem fault flush=l = flush=late
EOF_LINES
}

# offered WANTED COMMAND...: the command, which prints offers, prints WANTED, sorted. The completer gives up
# after 180 ms, which a busy machine may need for something else; so it is asked again.
offered() {
    local wanted=$1 got=
    shift
    for _ in {1..40}; do
        got=$("$@" </dev/null | sort | xargs)
        if [ "$got" = "$wanted" ]; then return; fi
        sleep 0.2
    done
    echo "$*: $got, not $wanted"
    return 1
}

check_offers() {
    local line
    open_session
    while IFS= read -r line; do
        offered "${line#* = }" "$1" "${line%% = *}" || return
    done < <(memory_lines)
}

@test "bash: each memory command's arguments, options and regions" {
    # readline replaces what follows the last = only
    bash_words() { bash_offers "$1" | sed 's/^late$/flush=late/'; }
    check_offers bash_words
}

@test "zsh: each memory command's arguments, options and regions" {
    command -v zsh >/dev/null || skip "needs zsh"
    check_offers zsh_offers
    offered 0000:05:00.0 zsh_offers "rigmem bus ring 0000:05:00"
    offered FILES zsh_offers "rigmem map-host gpu0 --file x"
}

@test "fish: each memory command's arguments, options and regions" {
    command -v fish >/dev/null || skip "needs fish"
    check_offers fish_offers
    offered 0000:05:00.0 fish_offers "rigmem bus ring 0000:05:00"
}
