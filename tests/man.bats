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
