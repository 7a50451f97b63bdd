#!/usr/bin/env bats
# The grammar, exit codes, messages and the JSON envelope, for every command alike.

setup() {
    : "${RIGMEM:?names the program under test}"
    machine=$BATS_TEST_DIRNAME/machines/sriov.hex
    unset NO_COLOR
    cd "$BATS_TEST_TMPDIR" || return
}

# Succeeds iff the command fails: bats does not see the failure of a negated command.
refute() {
    if "$@"; then return 1; fi
}

# The JSON document on standard input, by a Python expression over d.
json() {
    python3 -c 'import json,sys; d=json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"
}

# Runs the program with standard output in ./out and standard error in ./err; sets status.
apart() {
    status=0
    "$RIGMEM" "$@" >out 2>err || status=$?
}

@test "without a command standard input is a script, which may hold nothing" {
    apart </dev/null
    [ "$status" -eq 0 ]
    [ ! -s out ]
    [ ! -s err ]
    apart -j </dev/null
    [ "$(json '(d["ok"], d["steps"], d["command"])' <out)" = "(True, [], None)" ]
}

@test "an unknown command suggests the one that was meant, and never dumps a usage" {
    apart raech
    [ "$status" -eq 2 ]
    [ ! -s out ]
    [ "$(cat err)" = "rigmem: raech: no such command
hint: did you mean 'reach'?
see 'rigmem help'" ]
}

@test "an unknown command that is near to nothing gets no suggestion" {
    apart qqqqq
    [ "$status" -eq 2 ]
    [ "$(cat err)" = "rigmem: qqqqq: no such command
see 'rigmem help'" ]
}

@test "a command is not found by its first letters, but suggested" {
    apart -m "$machine" rea
    [ "$status" -eq 2 ]
    grep -qx "hint: did you mean 'reach'?" err
}

@test "an unknown option suggests the one that was meant" {
    apart reach --al
    [ "$status" -eq 2 ]
    [ "$(cat err)" = "rigmem: reach: --al: no such option
hint: did you mean '--all'?
see 'rigmem help reach'" ]
}

@test "an option is not found by its first letters" {
    apart -m "$machine" reach --ver
    [ "$status" -eq 2 ]
    grep -q 'no such option' err
}

@test "an unknown letter is an unknown option" {
    apart reach -x
    [ "$status" -eq 2 ]
    grep -qx 'rigmem: reach: -x: no such option' err
}

@test "an option that needs a value says which" {
    apart list -m
    [ "$status" -eq 2 ]
    grep -qx 'rigmem: list: -m: needs a value: SOURCE' err
}

@test "an empty value is refused" {
    apart list --machine=
    [ "$status" -eq 2 ]
    grep -q 'its value is empty' err
}

@test "a switch takes no value" {
    apart reach --why=yes
    [ "$status" -eq 2 ]
    grep -qx 'rigmem: reach: --why: takes no value' err
}

@test "a choice outside the list names the list" {
    apart list --color blue
    [ "$status" -eq 2 ]
    grep -qx "rigmem: list: --color: 'blue' is none of auto|always|never" err
}

@test "too many arguments and too few are usage errors" {
    apart reach a b c
    [ "$status" -eq 2 ]
    grep -qx 'rigmem: reach: c: one argument too many' err
    apart diff only
    [ "$status" -eq 2 ]
    grep -qx 'rigmem: diff: B: is missing' err
}

@test "global options stand before or after the command, apart or joined" {
    apart -m "$machine" list gpu
    [ "$status" -eq 0 ]
    cp out first
    for words in "list gpu -m $machine" "list -m$machine gpu" "list --machine=$machine gpu" "--machine $machine list gpu"; do
        # shellcheck disable=SC2086
        apart $words
        [ "$status" -eq 0 ]
        cmp out first
    done
}

@test "letters join: -jq is -j -q" {
    apart -jqm "$machine" list gpu
    [ "$status" -eq 0 ]
    [ "$(json 'd["command"]' <out)" = list ]
}

@test "after -- nothing is an option" {
    apart -m "$machine" list -- --json
    [ "$status" -eq 0 ]
    refute grep -q schema out
}

@test "JSON is one document with the envelope's keys in order, on success" {
    apart -j -m "$machine" list gpu
    [ "$status" -eq 0 ]
    [ "$(wc -l <out)" -eq 1 ]
    [ "$(json 'list(d) == ["command","ok","result","schema","warnings"]' <out)" = True ]
    [ "$(json 'd["schema"], d["ok"], d["command"]' <out)" = "('rigmem/1', True, 'list')" ]
}

@test "JSON is one document also for an unknown command, and the line stands on standard error" {
    apart -j raech
    [ "$status" -eq 2 ]
    [ "$(wc -l <out)" -eq 1 ]
    [ "$(json 'd["ok"], d["command"], d["error"]["code"], d["error"]["kind"]' <out)" = "(False, None, 2, 'invalid')" ]
    [ "$(json 'sorted(d["error"])' <out)" = "['code', 'hint', 'kind', 'what', 'where', 'why']" ]
    grep -q '^rigmem: raech: no such command' err
}

@test "JSON asked for after the wrong word is still JSON" {
    apart raech --json
    [ "$status" -eq 2 ]
    [ "$(json 'd["error"]["what"]' <out)" = raech ]
    apart reach --nonsense -j
    [ "$(json 'd["command"]' <out)" = reach ]
}

@test "a missing file is refused, in text and in JSON" {
    apart -m nowhere list
    [ "$status" -eq 3 ]
    [ ! -s out ]
    grep -q '^rigmem: list: nowhere: ' err
    apart -j -m nowhere list
    [ "$status" -eq 3 ]
    [ "$(json 'd["error"]["kind"], d["error"]["what"]' <out)" = "('refused', 'nowhere')" ]
}

@test "a bad file is exit 5 with its place" {
    printf '00:00.0 Host bridge: x\n80000000: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n' >bad
    apart -m bad list
    [ "$status" -eq 5 ]
    grep -q '^rigmem: list: bad:2' err
    apart -j -m bad list
    [ "$(json 'd["error"]["code"], d["error"]["where"][:5]' <out)" = "(5, 'bad:2')" ]
}

@test "control characters of the command line are escaped when printed" {
    apart $'re\033[31mach'
    [ "$status" -eq 2 ]
    grep -qF 're\x1b[31mach' err
    refute grep -q $'\033' err
}

@test "a full disk ends with exit 7 and a message" {
    [ -w /dev/full ] || skip "no /dev/full"
    status=0
    "$RIGMEM" help >/dev/full 2>err || status=$?
    [ "$status" -eq 7 ]
    [ "$(cat err)" = 'rigmem: help: standard output: no space left on device' ]
    status=0
    "$RIGMEM" -j -m "$machine" reach >/dev/full 2>err || status=$?
    [ "$status" -eq 7 ]
}

@test "a closed pipe ends with exit 7 and a message" {
    # the reader is gone before the program writes
    exec 7> >(:)
    wait $!
    status=0
    "$RIGMEM" help >&7 2>err || status=$?
    exec 7>&-
    [ "$status" -eq 7 ]
    [ "$(cat err)" = 'rigmem: help: standard output: broken pipe' ]
}

@test "-q prints nothing and the exit code answers" {
    apart -q -m "$machine" --iommu all=identity --assume bar=gpu0:16GiB reach nic0 gpu0
    [ "$status" -eq 0 ]
    [ ! -s out ]
    [ ! -s err ]
}

@test "-v says on standard error what was read" {
    apart -v -m "$machine" list gpu
    [ "$status" -eq 0 ]
    grep -q "lspci's hex dump of 9 functions" err
}

@test "colour only where asked for, and NO_COLOR is beaten by the option" {
    apart -m "$machine" reach
    refute grep -q $'\033' out
    apart -m "$machine" --color always reach
    grep -q $'\033' out
    NO_COLOR=1 apart -m "$machine" --color always reach
    grep -q $'\033' out
    apart -m "$machine" --color never reach
    refute grep -q $'\033' out
}

@test "on a terminal verdicts are coloured, unless NO_COLOR is set" {
    command -v script >/dev/null || skip "needs script(1)"
    TERM=xterm script -qec "$RIGMEM -m $machine reach" /dev/null >out </dev/null
    grep -q $'\033' out
    NO_COLOR=1 TERM=xterm script -qec "$RIGMEM -m $machine reach" /dev/null >out </dev/null
    refute grep -q $'\033' out
}

@test "help lists every command of the table, and none that is hidden" {
    apart help
    [ "$status" -eq 0 ]
    for command in list reach topo capture diff completion help version; do
        grep -q "^  $command " out
    done
    refute grep -q '^  complete ' out
}

@test "help COMMAND, COMMAND -h and -h COMMAND print the same" {
    apart help reach
    cp out first
    grep -q -- '--why' out
    apart reach -h
    cmp out first
    apart -h reach
    [ "$status" -eq 0 ]
    cmp out first
}

@test "help TOPIC prints the topic; an unknown subject suggests one" {
    for topic in sources facts exit reasons; do
        apart help "$topic"
        [ "$status" -eq 0 ]
        [ -s out ]
    done
    apart help reasns
    [ "$status" -eq 2 ]
    grep -qx "hint: did you mean 'reasons'?" err
}

@test "every reason that help names is one the library knows, and the other way round" {
    apart help reasons
    [ "$(awk '{print $1}' out | sort)" = "$(printf '%s\n' acs-redirect acs-unreadable bar-above-mask bar-small \
        bar-unassigned bridge-listed bridge-same-only bridge-unlisted cpu-amd-zen iommu-translates link \
        no-representative other-machine other-space p2pdma-off remote-machine same-bridge self | sort)" ]
}

@test "help --json dumps the table: options with letters, values and choices" {
    apart help --json
    [ "$(json 'sorted(c["name"] for c in d["result"]["commands"])' <out)" = \
        "['alloc', 'bus', 'capture', 'close', 'completion', 'diff', 'fault', 'free', 'help', 'list', 'map-host', \
'map-peer', 'open', 'peek', 'poke', 'reach', 'recover', 'shell', 'show', 'topo', 'version', 'walk']" ]
    [ "$(json '[o["letter"] for o in d["result"]["options"] if o["name"]=="machine"]' <out)" = "['m']" ]
    apart help reach --json
    [ "$(json 'd["result"]["command"]["exits"]' <out)" = "[0, 1, 2, 3, 5, 6, 7]" ]
}

@test "version, --version and -V print the header's version" {
    want="rigmem $(sed -n 's/^#define RIG_VERSION "\(.*\)"/\1/p' "$BATS_TEST_DIRNAME/../lib/rigmem.h")"
    for word in version --version -V; do
        apart "$word"
        [ "$status" -eq 0 ]
        [ "$(cat out)" = "$want" ]
    done
    apart version -v
    grep -q '^rules of kernels from .*6\.1' out
}

@test "version --json lists the rule sets, oldest first" {
    apart version -j
    [ "$(json 'd["result"]["rules"][0], d["result"]["rules"][-1], "6.1" in d["result"]["rules"]' <out)" = "('5.10', '7.2', True)" ]
}

@test "facts that do not read are usage errors that name the form" {
    while read -r option value; do
        apart -m "$machine" list "$option" "$value"
        [ "$status" -eq 2 ]
        grep -q "^rigmem: list: $option: '" err
        grep -q '^hint: the form is ' err
    done <<'FORMS'
--cpu AMD
--cpu AMD:x
--cpu :25
--cpu AMD:-1
--iommu all
--iommu all=maybe
--iommu 3:0=none
--gpu-memory gpu0
--assume acs
--assume acs=gpu0
--assume acs=gpu0:12345
--assume acs=gpu0:xyz
--assume bar=gpu0
--assume parent=gpu0
--assume parent=gpu0:7
--assume p2pdma=maybe
--assume mood=good
FORMS
}

@test "sizes follow the rules of sizes: MB is refused with a hint" {
    apart -m "$machine" list --gpu-memory gpu0=16MB
    [ "$status" -eq 2 ]
    grep -q '^hint: ' err
    apart -m "$machine" list --gpu-memory gpu0=1.5GiB
    [ "$status" -eq 2 ]
}

@test "facts about a function that is not there are usage errors" {
    for option in --gpu=0000:77:00.0 --iommu=0000:77:00.0=none --gpu-memory=gpu9=1GiB --assume=acs=77:00.0:0 \
        --assume=bar=gpu9:1GiB --assume=parent=gpu9:00:01.0; do
        apart -m "$machine" list "$option"
        [ "$status" -eq 2 ]
    done
}

@test "the last of two equal options holds" {
    apart -m nowhere -m "$machine" list gpu
    [ "$status" -eq 0 ]
}

@test "standard input is a source" {
    apart -m - list gpu <"$machine"
    [ "$status" -eq 0 ]
    apart2=$(cat out)
    apart -m "$machine" list gpu
    [ "$apart2" = "$(cat out)" ]
}

@test "a result that standard output cannot take is told" {
    run bash -c '"$RIGMEM" version >&-'
    [ "$status" -eq 7 ]
}

@test "the system's reasons are told in lower case, too" {
    run "$RIGMEM" -m /nowhere list
    [ "$status" -eq 3 ]
    [ "${lines[0]}" = "rigmem: list: /nowhere: no such file or directory" ]
    run "$RIGMEM" -f /nowhere
    [ "$status" -ne 0 ]
    [[ $output == *": no such file or directory" ]]
    run "$RIGMEM" capture -m "$BATS_TEST_DIRNAME/machines/conventional.txt" -o /nowhere/x.json
    [ "$status" -eq 3 ]
    [[ $output == *": no such file or directory"* ]]
}
