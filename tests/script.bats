#!/usr/bin/env bats
# Scripts: how their lines are read, where they stop, and their one document.

setup() {
    : "${RIGMEM:?names the program under test}"
    machine=$BATS_TEST_DIRNAME/machines/server-8gpu.json
    cd "$BATS_TEST_TMPDIR" || return
    unset RIGMEM_STATE
}

# words: the words of each command of the script on standard input, as its document has them, one command a
# line. `complete` takes any words.
words() {
    cat >script
    "$RIGMEM" -k -j -f script 2>errors | python3 -c 'import json,sys
document = json.load(sys.stdin)
for step in document["steps"]: print(step["line"], *["<%s>" % word for word in step["argv"][1:]])
if not document["steps"] and "error" in document: print(document["error"]["where"], document["error"]["why"])'
}

@test "words are separated by blanks, commands by newlines and semicolons" {
    [ "$(printf 'complete  a\t b;complete c;; ;complete d\n\n ;\ncomplete e' | words)" = "1 <a> <b>
1 <c>
1 <d>
4 <e>" ]
    [ "$(words </dev/null)" = "" ]
    [ "$(printf '\n;;\n  # only a comment' | words)" = "" ]
}

@test "a comment begins at the start of a word only" {
    run words <<'EOF_SCRIPT'
# one ; complete a
complete a#b #c ; complete d
complete # "
complete \#e "#f" x#
EOF_SCRIPT
    [ "$output" = "2 <a#b>
3
4 <#e> <#f> <x#>" ]
}

@test "quotes and backslashes are those of sh" {
    run words <<'EOF_SCRIPT'
complete 'a b' "c d" e\\ f 'g"h' "i'j" k"l"'m' '' ""
complete "a\"b" "c\\d" "e\$f" "g\h" 'i\j' \k \'
complete "a
b" c;complete d
EOF_SCRIPT
    [ "$output" = "1 <a b> <c d> <e\\> <f> <g\"h> <i'j> <klm> <> <>
2 <a\"b> <c\\d> <e\$f> <g\\h> <i\\j> <k> <'>
3 <a
b> <c>
4 <d>" ]
}

@test "a backslash joins lines, and lines go on being counted" {
    run words <<'EOF_SCRIPT'
complete a\
b \
  c "d\
e"
complete f
complete \
# a comment after all
complete g
EOF_SCRIPT
    [ "$output" = "1 <ab> <c> <de>
5 <f>
6
8 <g>" ]
}

@test "lines that end as on Windows, and a byte order mark, are read as they are meant" {
    [ "$(printf '\xef\xbb\xbfcomplete a\r\ncomplete b \\\r\n  c "d\\\r\ne"\r\n# f\r\n\r\ncomplete g\r' | words)" = "1 <a>
2 <b> <c> <de>
7 <g>" ]
}

@test "what cannot be read is told with its place, before anything runs" {
    [ "$(printf 'version\nhelp "a\n' | words)" = "script:2:6 the quote does not end" ]
    [ "$(printf "version\nhelp b 'a" | words)" = "script:2:8 the quote does not end" ]
    [ "$(printf 'version; \\' | words)" = "script:1:10 a backslash ends the text" ]
    [ "$(printf 'version\nver\0sion\n' | words)" = "script:2:4 a NUL byte is no text" ]
    printf 'version\nversion "\n' >script
    run "$RIGMEM" -f script
    [ "$status" -eq 5 ]
    [ "$output" = "rigmem: script:2:9: the quote does not end" ]
    # a usage error too, in any line
    printf 'version\nversion\nalloc gpu0 gpu\n' >script
    run "$RIGMEM" -f script
    [ "$status" -eq 2 ]
    [[ $output == "rigmem: script:3: alloc: SIZE: is missing"* ]]
}

@test "lines and words of a megabyte, and a hundred thousand commands, are read" {
    head -c 1000000 /dev/zero | tr '\0' x >long
    { printf 'help '; cat long; } >script
    run "$RIGMEM" -f script
    [ "$status" -eq 2 ]
    { printf 'help'; printf ' x%.0s' {1..100000}; } >script
    run "$RIGMEM" -f script
    [ "$status" -eq 2 ]
    [[ $output == "rigmem: script:1: help: x: one argument too many"* ]]
    printf '%.0s;' {1..100000} >script
    run "$RIGMEM" -f script
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    head -c 17000000 /dev/zero | tr '\0' ' ' >script
    run "$RIGMEM" -f script
    [ "$status" -eq 5 ]
    [[ $output == *"script: is larger than 16 MiB" ]]
}

@test "a script comes from a file, from an argument, or from standard input" {
    printf 'open gpu0\nalloc gpu0 gpu 4K\n' >script
    expected=$("$RIGMEM" -m "$machine" -f script 2>&1)
    [[ $expected == *"r1 0x300000000000 4 KiB"*"1 region was given back" ]]
    [ "$("$RIGMEM" -m "$machine" -c "$(cat script)" 2>&1)" = "$expected" ]
    [ "$("$RIGMEM" -m "$machine" <script 2>&1)" = "$expected" ]
    [ "$("$RIGMEM" -m "$machine" -f - <script 2>&1)" = "$expected" ]
    run "$RIGMEM" -f none
    [ "$status" -eq 3 ]
    run "$RIGMEM" -f script -c version
    [ "$status" -eq 2 ]
    run "$RIGMEM" -f script version
    [ "$status" -eq 2 ]
    printf 'version -c help\n' >inner
    run "$RIGMEM" -f inner
    [ "$status" -eq 2 ]
}

@test "a machine before a script is that of its session on file, or it is misuse" {
    "$RIGMEM" -q -s s.json -m "$machine" open gpu0
    "$RIGMEM" -q -s s.json -m "$machine" -c 'alloc gpu0 gpu 4K'
    for other in "-m $BATS_TEST_DIRNAME/machines/arm64.json" '--kernel 5.10'; do
        # shellcheck disable=SC2086 # words
        run "$RIGMEM" -s s.json $other -c 'alloc gpu0 gpu 4K'
        [ "$status" -eq 2 ]
        [[ $output == *"the session is of another machine: $machine"* ]]
        # shellcheck disable=SC2086 # words
        run "$RIGMEM" -s s.json $other alloc gpu0 gpu 4K
        [ "$status" -eq 2 ]
    done
    [ "$("$RIGMEM" -s s.json -j show | grep -o '"id":"r' | wc -l)" -eq 1 ]
    # who only asks tries them on its machine, as one command does
    "$RIGMEM" -s s.json -c 'reach -q nic0 gpu0'
    for words in '-c reach\ -q\ nic0\ gpu0' 'reach -q nic0 gpu0'; do
        run eval '"$RIGMEM" -s s.json --iommu all=translate' "$words"
        [ "$status" -eq 1 ]
    done
}

@test "a script's document that cannot be written is told, and is an exit code" {
    for script in version 'version; raech' ''; do
        printf '%s\n' "$script" >script
        run bash -c '"$1" -j -f script >/dev/full' bash "$RIGMEM"
        [ "$status" -eq 7 ]
        [[ $output == *"rigmem: standard output: no space left on device" ]]
    done
    run bash -c '"$1" -j -c version >&-' bash "$RIGMEM"
    [ "$status" -eq 7 ]
}

@test "a script that cannot be read is refused, whatever it is" {
    for what in none . ./../; do
        run "$RIGMEM" -f "$what"
        [ "$status" -eq 3 ]
        [ "$output" = "rigmem: $what: $([ "$what" = none ] && echo no such file or directory || echo is a directory)" ]
    done
}

@test "a script exits as the command that stopped it; with -k it goes on, and exits as the first that failed" {
    while IFS=: read -r code commands; do
        status=0
        "$RIGMEM" -m "$machine" -c "$commands; version" >out 2>err || status=$?
        [ "$status" -eq "$code" ]
        # what follows did not run
        [ "$(grep -c '^rigmem [0-9]' out)" -eq 0 ]
        status=0
        "$RIGMEM" -k -m "$machine" -c "$commands; version" >out 2>err || status=$?
        [ "$status" -eq "$code" ]
        [ "$(grep -c '^rigmem [0-9]' out)" -eq 1 ]
        grep -q '^rigmem: -c:1: ' err
    done <<'EOF_CASES'
2:open gpu0; free r1
3:open gpu0; open gpu0
4:open gpu0; alloc gpu0 gpu 1T
7:open gpu0; fault cut=1; alloc gpu0 host 4K
2:open gpu0; free r1; alloc gpu0 gpu 1T
EOF_CASES
    # an answer stops nothing, and is the code where it is the last
    "$RIGMEM" -m "$machine" -c 'open gpu0; walk gpu0 0x0; version' >out
    run "$RIGMEM" -m "$machine" -c 'open gpu0; version; walk gpu0 0x0'
    [ "$status" -eq 1 ]
}

@test "with --json a script is one document, whatever comes of it" {
    while IFS=: read -r code steps commands; do
        status=0
        "$RIGMEM" -j -m "$machine" -c "$commands" >out 2>err || status=$?
        [ "$status" -eq "$code" ]
        python3 - "$code" "$steps" <<'EOF_PY'
import json, sys
text = open("out").read()
d = json.loads(text)
assert text.endswith("}\n") and text.count("\n") == 1
code, steps = int(sys.argv[1]), int(sys.argv[2])
assert d["schema"] == "rigmem/1" and d["command"] is None and d["warnings"] == []
assert len(d["steps"]) == steps, d
assert d["ok"] == (code in (0, 1)) and ("error" in d) == (not d["ok"])
if not d["ok"]:
    assert d["error"]["code"] == code, d["error"]
for s in d["steps"]:
    assert set(s) >= {"line", "argv", "ok"} and ("result" in s) == s["ok"] and ("error" in s) != s["ok"], s
EOF_PY
    done <<'EOF_CASES'
0:0:# nothing
0:2:open gpu0; show
1:2:open gpu0; walk gpu0 0x0
2:2:open gpu0; free r1; show
3:2:open gpu0; open gpu0; show
5:0:open "gpu0
2:1:open; frobnicate; show
EOF_CASES
}

@test "a coprocess gets each answer before it asks the next" {
    coproc SHELL_ANSWERS { "$RIGMEM" -j -m "$machine" shell 2>/dev/null; }
    ask() {
        printf '%s\n' "$1" >&"${SHELL_ANSWERS[1]}"
        IFS= read -r -t 60 answer <&"${SHELL_ANSWERS[0]}"
    }
    ask 'open gpu0'
    [[ $answer == '{"command":"open","ok":true,'* ]]
    ask 'alloc gpu0 gpu 64K --name x'
    [[ $answer == *'"id":"r1"'* ]]
    ask 'alloc gpu0 gpu'
    [[ $answer == *'"code":2,'*'"ok":false'* ]]
    ask 'free "x'
    [[ $answer == *'"code":5,'*'"where":"-:1:6"'* ]]
    ask 'walk gpu0 0x0'
    [[ $answer == *'"end":null'* ]]
    ask 'free x'
    [[ $answer == *'"freed":["r1"]'* ]]
    # several on one line are several documents
    printf 'version; version\n' >&"${SHELL_ANSWERS[1]}"
    IFS= read -r -t 60 answer <&"${SHELL_ANSWERS[0]}"
    IFS= read -r -t 60 second <&"${SHELL_ANSWERS[0]}"
    [[ $answer == '{"command":"version"'* && $second == "$answer" ]]
    pid=$SHELL_ANSWERS_PID
    eval "exec ${SHELL_ANSWERS[1]}>&-"
    wait "$pid"
}

@test "lines without an end, with bytes that are no text, or of a script that is piped in pieces are answered" {
    [ "$(printf 'version' | "$RIGMEM" shell | wc -l)" -ge 1 ]
    # each piece is read before the next one comes
    cat >pieces.py <<'EOF_PY'
import array, fcntl, os, subprocess, sys, termios, time
shell = subprocess.Popen([sys.argv[1], "shell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
left = array.array("i", [0])
for piece in (b"ver", b"sion\nvers", b"ion\n"):
    os.write(shell.stdin.fileno(), piece)
    end = time.time() + 60
    while fcntl.ioctl(shell.stdin, termios.FIONREAD, left) or left[0] > 0:
        assert time.time() < end
        time.sleep(0.001)
print(shell.communicate()[0].decode(), end="")
EOF_PY
    [ "$(python3 pieces.py "$RIGMEM" | grep -c '^rigmem [0-9]')" -eq 2 ]
    run bash -c 'printf "ver\0sion\nversion\n" | "$1" shell' - "$RIGMEM"
    [ "$status" -eq 0 ]
    [[ $output == *"-:1:4: a NUL byte is no text"*"rigmem 0"* ]]
    status=0
    head -c 17000000 /dev/zero | tr '\0' ' ' | "$RIGMEM" shell 2>err || status=$?
    [ "$status" -eq 5 ]
    grep -q 'a line is longer than 16 MiB' err
    # what cannot be read is no end
    run "$RIGMEM" shell </
    [ "$status" -eq 7 ]
    [ "$output" = "rigmem: -: is a directory" ]
}

@test "facts given before a script or the shell hold for each of its commands, unless their own say otherwise" {
    local answers='gpu0 (0000:03:00.0) -> gpu1 (0000:04:00.0): '
    run "$RIGMEM" -m "$machine" --iommu all=translate -k -c 'reach gpu0 gpu1; reach gpu0 gpu1 --iommu all=none'
    [ "$status" -eq 0 ]
    [ "$(grep -F -e "$answers" <<<"$output")" = "${answers}no
${answers}yes" ]
    echo 'reach gpu0 gpu1' >script
    for how in "-f script" "-f -" "" shell; do
        # shellcheck disable=SC2086
        run "$RIGMEM" -m "$machine" --iommu all=translate $how <script
        [ "$status" -eq 1 ]
        [ "${lines[0]}" = "${answers}no" ]
    done
    # a session is opened with them, and has them then: to name them again is right, others are another machine
    run "$RIGMEM" -m "$machine" --gpu-memory gpu0=8GiB --assume bar=gpu0:8GiB -k -c \
        'open gpu0; show gpu0; show gpu0 --assume bar=gpu0:16GiB; reach gpu1 gpu0'
    [ "$status" -eq 2 ]
    [ "$(grep -c '^0000:03:00.0  gpu0  nv-mmu-v2   8 GiB  8 GiB ' <<<"$output")" -eq 2 ]
    [[ $output == *"-c:1: show: facts: the session is of another machine"* ]]
    [[ $output == *"gpu1 (0000:04:00.0) -> gpu0 (0000:03:00.0): yes"* ]]
    # what is tried is compared with the machine that they give
    run "$RIGMEM" -m "$machine" --iommu all=translate -c 'reach gpu0 gpu1 --iommu all=none --diff'
    [[ $output == *"gpu0"*"no"*"yes"* ]]
    # a wrong one fails the first command that asks for the machine
    run "$RIGMEM" -m "$machine" --iommu gpu77=translate -c 'version; reach gpu0 gpu1'
    [ "$status" -eq 2 ]
    [[ $output == *"rigmem: -c:1: reach: gpu77: no such function"* ]]
}
