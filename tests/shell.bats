#!/usr/bin/env bats
# The shell on a terminal, as a person types.

setup() {
    : "${RIGMEM:?names the program under test}"
    here=$BATS_TEST_DIRNAME
    cd "$BATS_TEST_TMPDIR" || return
    cp "$here/machines/server-8gpu.json" server.json
    export PYTHONPATH=$here XDG_STATE_HOME=$PWD/state HOME=$PWD TERM=dumb PYTHONDONTWRITEBYTECODE=1
    unset RIGMEM_STATE
}

# on_terminal SCRIPT [ARG]...: runs Python with t, `rigmem -m server.json ARG...` on a terminal.
on_terminal() {
    local script=$1
    shift
    printf '%s\n' 'import os, signal, sys' 'from terminal import Terminal' \
        't = Terminal([sys.argv[1], "-m", "server.json"] + sys.argv[2:])' "$script" >script.py
    python3 script.py "$RIGMEM" "$@"
}

# on_input TEXT: the shell over standard input says TEXT on standard error.
on_input() {
    "$RIGMEM" shell 2>err || true
    grep -q "$1" err
}

@test "the prompt names the machine, and says whether there is a session" {
    on_terminal '
t.expect("rigmem server.json> ")
t.send("open gpu0\r")
t.expect("a twin of ")
t.expect("rigmem server.json twin> ")
t.send("close\r")
t.expect("closed")
t.expect("rigmem server.json> ")
t.send("exit\r")
assert t.end()[1] == 0
'
}

@test "at the end of input the session gives back what is out, and says so" {
    on_terminal '
t.send("open gpu0\ralloc gpu0 gpu 64K\ralloc gpu0 host 4K\r")
t.expect("r2 0x")
t.expect("twin> ")
t.send("\x04")
rest, code = t.end()
assert "rigmem: 2 regions were given back" in rest, rest
assert code == 0, code
'
    [ ! -e s.json ]
}

@test "an interrupt cancels the line, whole or half typed, and keeps the session" {
    on_terminal '
t.send("open gpu0\r")
t.expect("twin> ")
t.send("alloc gpu0 gpu 6")
t.expect("alloc gpu0 gpu 6")
t.send("\x03")
t.expect("^C")
t.expect("twin> ")
t.send("\x03")
t.expect("^C")
t.expect("twin> ")
t.send("alloc gpu0 gpu 64K\r")
t.expect("r1 0x")
t.expect("twin> ")
t.send("\x04")
rest, code = t.end()
assert "1 region was given back" in rest
'
}

@test "a signal to end gives back what is out, and ends the shell as the signal does" {
    for NAME in TERM HUP; do
        export NAME
        on_terminal '
t.send("open gpu0\ralloc gpu0 gpu 64K\r")
t.expect("r1 0x")
t.expect("twin> ")
t.send("alloc gpu0")
t.expect("alloc gpu0")
number = getattr(signal, "SIG" + os.environ["NAME"])
t.signal(number)
rest, code = t.end()
assert "1 region was given back" in rest, rest
assert code == -number, code
' || return
    done
}

@test "history is kept in a file of the user's own, and comes back by key" {
    on_terminal '
t.expect("> ")
t.send("version\r")
t.expect("rigmem 0")
t.expect("server.json> ")
t.send("help exit\r")
t.expect("server.json> ")
t.send("\x04")
t.end()
'
    [ "$(cat state/rigmem/history)" = "version
help exit" ]
    [ "$(stat -c %a state/rigmem/history)" = 600 ]
    [ "$(stat -c %a state/rigmem)" = 700 ]
    on_terminal '
t.expect("> ")
t.send("\x10\x10")
t.expect("version")
t.send("\r")
t.expect("rigmem 0")
t.expect("> ")
t.send("\x04")
assert t.end()[1] == 0
'
    # a file that others may have planted is left alone
    mv state/rigmem/history real
    ln -s ../../real state/rigmem/history
    cp real before
    on_terminal '
t.expect("> ")
t.send("list gpu\r")
t.expect("> ")
t.send("\x04")
assert t.end()[1] == 0
'
    cmp real before
}

@test "commands, options, values, functions, regions and files are completed" {
    touch data-file
    on_terminal '
def line(typed, whole):
    t.send(typed + "\t")
    t.expect(whole)
    t.send("\x03")
    t.expect("> ")
t.expect("> ")
# of the machine of -m, before a session is open
line("open 0000:8a", "open 0000:8a:00.0 ")
line("reach gpu7 0000:8c", "reach gpu7 0000:8c:00.0 ")
line("vers", "version ")
line("open --mas", "open --master ")
line("open -m ser", "open -m server.json ")
t.send("open gpu0 gpu1\r")
t.expect("twin> ")
t.send("alloc gpu0 gpu 64K --name target\r")
t.expect("r1 0x")
t.expect("twin> ")
line("all", "alloc ")
line("alloc gpu0 ho", "alloc gpu0 host ")
line("alloc 0000:03", "alloc 0000:03:00.0 ")
line("bus r1 nvme3", "bus r1 nvme3 ")
line("bus r1 0000:05:", "bus r1 0000:05:00.0 ")
line("free tar", "free target ")
line("peek @", "peek @last ")
line("alloc gpu0 gpu 4K --unc", "alloc gpu0 gpu 4K --uncached ")
line("peek r1 --by nic2", "peek r1 --by nic2 ")
line("fault flush=ne", "fault flush=never ")
line("fault gpu1:flush=l", "fault gpu1:flush=late ")
line("fault gone=nvme3", "fault gone=nvme3 ")
line("open --link 1:gpu0,gpu7", "open --link 1:gpu0,gpu7 ")
line("map-host gpu0 --file data-", "map-host gpu0 --file data-file ")
line("help fau", "help fault ")
line("version; vers", "version; version ")
# what only the shell knows
line("sour", "source ")
line("exi", "exit ")
line("version; qui", "version; quit ")
line("source data-", "source data-file ")
line("reach --iommu gpu1=tr", "--iommu gpu1=translate ")
# several: what they share first, then all of them
t.send("map-\t")
t.send("\t\t")
t.expect("map-host")
t.expect("map-peer")
t.send("\x03")
t.expect("> ")
t.send("\x04")
assert t.end()[1] == 0
'
}

@test "the shell's own words are suggested where they were meant, and take no argument that has no sense" {
    on_terminal '
def answer(line, *wanted):
    t.send(line + "\r")
    for text in wanted:
        t.expect(text)
    t.expect("> ")
t.expect("> ")
answer("quti", "rigmem: quti: no such command", "hint: did you mean \x27quit\x27?")
answer("exti", "hint: did you mean \x27exit\x27?")
answer("sorce x", "hint: did you mean \x27source\x27?")
answer("raech", "hint: did you mean \x27reach\x27?")
answer("exit 3", "rigmem: exit: takes no argument")
answer("quit now", "rigmem: quit: takes no argument")
answer("source", "rigmem: source: takes one file")
answer("source /", "rigmem: /: is a directory")
t.send("exit\r")
assert t.end()[1] == 0
'
    # they are words of the shell alone
    printf 'quti\n' >script
    for how in quti '-f script' '-c quti'; do
        # shellcheck disable=SC2086 # words
        run "$RIGMEM" $how
        [ "$status" -eq 2 ]
        [[ $output != *"did you mean"* ]]
    done
    printf 'quti\n' | on_input "did you mean 'quit'"
    printf 'source script\n' | on_input 'script:1: quti: no such command'
}

@test "complete in the shell, or in a script, ends nothing but itself" {
    { echo 'complete -- reac'; sleep 0.5; echo version; } | "$RIGMEM" shell >out
    [ "$(cut -f 1 out)" = "reach
$("$RIGMEM" version)" ]
}

@test "help, source, a wrong command and an open quote are answered, and the shell goes on" {
    printf 'alloc gpu0 gpu 4K\n# a comment\nfree r9\nalloc gpu0 gpu 4K\n' >script
    on_terminal '
t.expect("> ")
t.send("frobnicate\r")
t.expect("rigmem: frobnicate: no such command")
t.expect("> ")
t.send("help alloc\r")
t.expect("--uncached")
t.expect("> ")
t.send("open gpu0\r")
t.expect("twin> ")
t.send("source script\r")
t.expect("r1 0x")
t.expect("rigmem: script:3: free: r9: no such region")
t.expect("twin> ")
t.send("source\r")
t.expect("rigmem: source: takes one file")
t.expect("twin> ")
t.send("source missing\r")
t.expect("rigmem: missing: no such file or directory")
t.expect("twin> ")
t.send("source \"scr\r")
t.expect("the quote does not end")
t.expect("twin> ")
t.send("shell\r")
t.expect("rigmem: shell: does not go into a shell or a script")
t.expect("twin> ")
t.send("show\r")
shown = t.expect("twin> ")
assert "r1" in shown and "r2" not in shown, shown
t.send("quit\r")
rest, code = t.end()
assert "1 region was given back" in rest
'
}

@test "a session on a file stays when the shell ends, and the prompt shows it" {
    on_terminal '
t.expect("rigmem server.json> ")
t.send("open gpu0\r")
t.expect("rigmem server.json twin on file> ")
t.send("alloc gpu0 gpu 64K --name kept\r")
t.expect("r1 0x")
t.expect("twin on file> ")
t.send("free ke\t")
t.expect("free kept ")
t.send("\x03")
t.expect("> ")
t.send("\x04")
rest, code = t.end()
assert "given back" not in rest, rest
assert code == 0
' -s s.json
    [[ $("$RIGMEM" -s s.json show kept) == *"r1"* ]]
    "$RIGMEM" -q -s s.json close
}

@test "the prompt and completion wait for nobody who uses the session" {
    "$RIGMEM" -q -m server.json -s s.json open gpu0
    "$RIGMEM" -q -s s.json alloc gpu0 gpu 64K --name kept
    on_terminal '
import fcntl
lock = open("s.json.lock")
fcntl.flock(lock, fcntl.LOCK_EX)
t.expect("rigmem server.json twin on file> ")
t.send("free ke\t")
t.expect("free kept ")
t.send("\x03")
t.expect("twin on file> ")
t.send("bus kept nvme3\t")
t.expect("bus kept nvme3 ")
t.send("\x03")
t.expect("twin on file> ")
t.send("version\r")
t.expect("twin on file> ")
lock.close()
t.send("exit\r")
assert t.end()[1] == 0
' -s s.json
}

@test "the prompt follows what other processes do to the session" {
    on_terminal '
import subprocess
def other(*words):
    subprocess.run([sys.argv[1], "-q", "-m", "server.json", "-s", "s.json"] + list(words), check=True)
t.expect("rigmem server.json> ")
other("open", "gpu0")
t.send("\r")
t.expect("rigmem server.json twin on file> ")
other("alloc", "gpu0", "gpu", "4K", "--name", "theirs")
t.send("free th\t")
t.expect("free theirs ")
t.send("\r")
t.expect("freed")
t.expect("twin on file> ")
other("close")
t.send("show\r")
t.expect("rigmem: show: no session is open")
t.expect("rigmem server.json> ")
t.send("exit\r")
t.end()
' -s s.json
}

@test "while the state file is the same the prompt does not read it" {
    "$RIGMEM" -q -m server.json -s s.json open gpu0
    printf '#!/bin/bash\nexport ASAN_OPTIONS=detect_leaks=0\n%s "%s" "$@"\n' \
        'exec strace -f -qq -o trace -e trace=openat,flock' "$RIGMEM" >traced
    chmod +x traced
    RIGMEM=$PWD/traced on_terminal '
t.expect("twin on file> ")
for i in range(3):
    t.send("version\r")
    t.expect("rigmem 0")
    t.expect("twin on file> ")
t.send("exit\r")
assert t.end()[1] == 0
' -s s.json
    [ "$(grep -c '"s.json"' trace)" -eq 1 ]
    [ "$(grep -c flock trace)" -eq 0 ]
}

@test "very long lines, bytes above ASCII and a terminal that changes its size do no harm" {
    on_terminal '
t.expect("> ")
t.send("version " + "x" * 3000 + "\r")
t.expect("one argument too many")
t.expect("> ")
t.send("source /" + "y/" * 20000 + "\r")
t.expect("file name too long")
t.expect("> ")
t.send("alloc g\u00e9\u4e16 gpu 4K\r")
t.expect("rigmem: alloc: no session is open")
t.expect("> ")
t.send(b"\xff\xfe\r")
t.expect("no such command")
t.expect("> ")
t.send("version")
t.expect("version")
for columns in (20, 200, 1, 80):
    t.resize(columns)
    t.signal(signal.SIGWINCH)
t.send("\r")
t.expect("rigmem 0")
t.expect("> ")
t.send("\x04")
assert t.end()[1] == 0
'
}

@test "on a terminal that can more the shell is the same" {
    export TERM=xterm
    on_terminal '
t.expect("rigmem server.json> ")
t.send("opne gpu0\x02\x02\x02\x02\x02\x02\x02\x7f\x7f\x02")
t.send("\x05\x15open gpu0\r")
t.expect("a twin of ")
t.expect("twin> ")
t.send("\x10")
t.expect("open gpu0")
t.send("\x03")
t.expect("> ")
t.send("\x04")
assert t.end()[1] == 0
'
}

@test "without readline the shell reads lines as the terminal edits them" {
    mkdir -p none
    echo nothing >none/libreadline.so.8
    cp none/libreadline.so.8 none/libreadline.so
    export LD_LIBRARY_PATH=$PWD/none
    on_terminal '
t.expect("rigmem server.json> ")
t.send("open gpu0\n")
t.expect("twin> ")
t.send("alloc gpu0 gpu 64")
t.send("\x03")
t.expect("twin> ")
t.send("alloc gpu0 gpu 64K\n")
t.expect("r1 0x")
t.expect("twin> ")
t.send("\x04")
rest, code = t.end()
assert "1 region was given back" in rest, rest
'
}

@test "rigmem alone on a terminal is the shell; with -n nothing that it does stays" {
    on_terminal '
t.expect("rigmem server.json> ")
t.send("open gpu0\r")
t.expect("twin> ")
t.send("alloc gpu0 gpu 4K -n\r")
t.expect("r1 0x300000000000")
t.expect("twin> ")
t.send("alloc gpu0 gpu 4K\r")
t.expect("r1 0x300000000000")
t.expect("twin> ")
t.send("exit\r")
assert "1 region" in t.end()[0]
'
}

@test "the tour in README is what the shell shows" {
    mkdir tests
    ln -s "$here/machines" tests/machines
    cat >script.py <<'EOF_PY'
import re, sys
from terminal import Terminal

def fits(shown, written):
    pattern = ".*".join(re.escape(part) for part in written.split("..."))
    return re.fullmatch(pattern, shown, re.S)

text = open(sys.argv[2]).read().split("## A tour of the shell")[1].split("\n## ")[0]
steps = re.findall(r"^(rigmem server-8gpu\.json(?: twin)?> )(.*)\n((?:(?!rigmem server|```).*\n)*)", text, re.M)
assert len(steps) > 10, steps
t = Terminal([sys.argv[1], "-m", "tests/machines/server-8gpu.json"], columns=200)
last = None
for prompt, command, written in steps:
    before = t.expect(prompt)
    assert last is None or fits(before.replace("\r", ""), last), (before, last)
    t.send(command + "\r")
    t.expect(command + "\r\n")
    last = written
before = t.expect("rigmem server-8gpu.json")
assert fits(before.replace("\r", ""), last), (before, last)
t.send("\x04")
assert t.end()[1] == 0
EOF_PY
    python3 script.py "$RIGMEM" "$here/../README.md"
}
