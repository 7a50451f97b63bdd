#!/usr/bin/env bats
# Every option of the command table is used by a test of the command line.

setup() {
    : "${RIGMEM:?names the program under test}"
    tests=$BATS_TEST_DIRNAME/..
}

# untested: the options of commands, and the global ones, that no line of the tests uses; as
# `COMMAND --OPTION`. A command's option counts where its command stands on the line, or starts it.
untested() {
    "$RIGMEM" help --json >table
    python3 - table "$tests"/*.bats <<'EOF_PY'
import json, re, sys
table = json.load(open(sys.argv[1]))["result"]
lines = []
for path in sys.argv[2:]:
    text = open(path).read().replace("\\\n", " ")
    lines += [line for line in text.split("\n") if not line.lstrip().startswith(("#", "@test"))]

def uses(line, option):
    if re.search(r"(^|[^-\w])--%s\b" % re.escape(option["name"]), line):
        return True
    letter = option["letter"]
    # a letter counts among rigmem's own words, not grep's or head's
    return bool(letter) and any(re.search(r"(^|\s)-[jqvnkhV]*%s($|\s)" % letter, words) for words in
                                re.findall(r"(?:\"?\$\{?RIGMEM\}?\"?|\brigmem|\b(?:q|ask|apart)) ([^|;)]*)", line))

def report(command, option):
    print(command, "--" + option["name"])

for command in table["commands"]:
    named = [line for line in lines if re.search(r"\b%s\b" % re.escape(command["name"]), line)]
    # what opens a session may be wrapped
    if command["name"] == "open":
        named += [line for line in lines if re.search(r"\bopen_\w+", line)]
    for option in command["options"]:
        if not any(uses(line, option) for line in named):
            report(command["name"], option)
for option in table["options"]:
    if not any(uses(line, option) for line in lines):
        report("", option)
EOF_PY
}

@test "every option has a test that uses it" {
    cd "$BATS_TEST_TMPDIR"
    run untested
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "the look for untested options finds one that is missing" {
    cd "$BATS_TEST_TMPDIR"
    mkdir some
    for file in "$tests"/*.bats; do
        sed 's/--uncached/--cached/g; s/--keep-going//g; s/ -k / /g; s/ -k$//
            s/--quiet//g; /grep/!s/ -q//g' "$file" >"some/$(basename "$file")"
    done
    tests=some
    run untested
    [[ $'\n'$output == *$'\nalloc --uncached'* ]]
    [[ $'\n'$output == *$'\n --keep-going'* ]]
    # other programs' -q is none
    grep -q 'grep -q' some/*.bats
    [[ $'\n'$output == *$'\n --quiet'* ]]
}
