#!/usr/bin/env bats
# The manual pages say what the command table says.

setup() {
    : "${RIGMEM:?names the program under test}"
    man=$BATS_TEST_DIRNAME/../man
    cd "$BATS_TEST_TMPDIR" || return
    "$RIGMEM" help --json >table
}

@test "every command has its page, with every argument and option in its synopsis and options" {
    python3 - table "$man" <<'EOF_PY'
import json, re, sys
table = json.load(open(sys.argv[1]))["result"]
for command in table["commands"]:
    if command["name"] in ("help", "version"):
        continue
    page = open("%s/rigmem-%s.1" % (sys.argv[2], command["name"])).read()
    synopsis = page.split(".Sh SYNOPSIS")[1].split(".Sh")[0]
    words = synopsis.split()
    wanted = [a["name"] for a in command["arguments"]]
    letters = []
    for option in command["options"]:
        letters.append(option["letter"] or option["name"])
        assert "Fl Fl " + option["name"] in page.split(".Sh OPTIONS")[1].split(".Sh")[0], option
        if option["value"]:
            wanted.append(option["value"])
    got = [w for i, w in enumerate(words) if words[i - 1] in ("Ar", ".Ar") and w != "GLOBAL"]
    assert got == wanted, (command["name"], got, wanted)
    flags = re.findall(r"Fl (?:Fl )?([A-Za-z-]+)", synopsis)
    assert flags == letters, (command["name"], flags, letters)
    codes = [int(c) for c in re.findall(r"^\.It (\d+)$", page.split(".Sh EXIT STATUS")[1].split(".Sh")[0], re.M)]
    assert codes == command["exits"], (command["name"], codes, command["exits"])
EOF_PY
}

@test "help COMMAND names the page that there is" {
    for command in $("$RIGMEM" -j help | python3 -c 'import json, sys
print(*(row["name"] for row in json.load(sys.stdin)["result"]["commands"]))'); do
        page=$("$RIGMEM" help "$command" | sed -n 's/.* The whole: man \(.*\)\.$/\1/p')
        [ -f "$man/$page.1" ]
        [ "$page" = "rigmem-$command" ] || [ ! -e "$man/rigmem-$command.1" ]
    done
}

@test "rigmem(1) has every command, every global option, every reason and every exit code" {
    python3 - table "$man/rigmem.1" <<'EOF_PY'
import json, re, sys
table = json.load(open(sys.argv[1]))["result"]
page = open(sys.argv[2]).read()
for command in table["commands"]:
    assert re.search(r"^\.It Cm %s\b" % command["name"], page, re.M), command["name"]
for option in table["options"]:
    assert re.search(r"^\.It .*Fl Fl %s\b" % option["name"], page, re.M), option["name"]
for code in list(range(8)) + [70]:
    assert re.search(r"^\.It %d$" % code, page, re.M), code
EOF_PY
    "$RIGMEM" help reasons | while read -r word _; do
        grep -q "^\.It Cm $word\$" "$man/rigmem.1"
    done
}

@test "pages have the sections of the house in mdoc's order" {
    for page in "$man"/rigmem.1 "$man"/rigmem-*.1; do
        for section in NAME SYNOPSIS DESCRIPTION OPTIONS "EXIT STATUS" EXAMPLES "SEE ALSO"; do
            grep -q "^\.Sh $section\$" "$page"
        done
    done
}

@test "rigmem-json(5) names every member of every command's document" {
    cd "$BATS_TEST_TMPDIR" || return
    python3 - "$RIGMEM" "$BATS_TEST_DIRNAME" <<'EOF_PYTHON'
import json, re, subprocess, sys
rigmem, here = sys.argv[1:]
machines = here + "/machines/"
page = set(re.sub("[^a-z0-9_]+", " ", open(here + "/../man/rigmem-json.5").read()).split())
def members(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            # a capture is in rigmem-machine(5)
            yield from members(inner) if key != "capture" else ()
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner)
unknown, commands = {}, set()
for line in f"""-m {machines}server-8gpu.json open gpu0 gpu1 --master --link 1:gpu0,gpu1
alloc gpu0 gpu 4K --name a
alloc gpu0 host 4K
map-peer gpu1 a
bus a nic0
map-host gpu1 0x300000002000 4K
fault gpu1:flush=never
free r4
show
peek a
poke a --data 00
walk gpu0 0x300000000000
walk gpu1 0x300000000000
walk gpu0 0
recover
list
topo
reach
reach gpu0 gpu2 --why
reach gpu0 gpu1 --diff --assume p2pdma=off
capture
capture -o capture.json
reach --dot
topo -o topo.dot
diff {machines}server-8gpu.json {machines}arm64.json
-m {machines}client-intel-unprivileged.txt reach
-m {machines}client-intel-unprivileged.txt list
help
help alloc
help exit
version
completion zsh
close gpu1
free none
close --force
-c version;raech""".split("\n"):
    run = subprocess.run([rigmem, "-s", "s.json", "-j"] + line.split(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    text = run.stdout.decode("ascii")
    document = json.loads(text)
    assert text == json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n", line
    commands.add(document["command"])
    for key in members(document):
        if key not in page:
            unknown.setdefault(key, line)
assert not unknown, unknown
table = json.loads(subprocess.check_output([rigmem, "-j", "help"]))["result"]["commands"]
assert {row["name"] for row in table} - commands == {"shell"}, commands
EOF_PYTHON
}
