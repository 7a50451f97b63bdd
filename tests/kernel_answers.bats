#!/usr/bin/env bats
# What a real Linux 6.1 answered under many settings (tests/kernel-answers/README.md), asked of the command.

setup() {
    : "${RIGMEM:?names the program under test}"
    answers=$BATS_TEST_DIRNAME/kernel-answers
    cd "$BATS_TEST_TMPDIR" || return
}

# check MACHINE FORM: the settings of the machine, each written into a file of that form, or given as options; two of
# each processor's.
check() {
    python3 - "$RIGMEM" "$answers/$1" "$2" <<'PYTHON'
import json, os, re, subprocess, sys

program, directory, form = sys.argv[1:]
HEADER = re.compile(r"^([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ")
ROW = re.compile(r"^([0-9a-f]{2,3}): ((?:[0-9a-f]{2} ?){16})$")


def word(data, at, size):
    return int.from_bytes(data[at:at + size], "little")


def rows(lines):
    """Each row of the dump: line, function, offset."""
    function = None
    for number, line in enumerate(lines):
        header = HEADER.match(line)
        if header:
            function = header.group(1)
        row = ROW.match(line)
        if row and function:
            yield number, function, int(row.group(1), 16), bytes.fromhex(row.group(2))


def patched(lines, setting):
    space = {}
    for _, function, offset, data in rows(lines):
        space.setdefault(function, bytearray(4096))[offset:offset + 16] = data
    for function, control in setting["acs"].items():
        data, at = space[function], 0x100
        while word(data, at, 2) != 0x000D:
            at = word(data, at, 4) >> 20
            assert at, function
        data[at + 6:at + 8] = int(control, 16).to_bytes(2, "little")
    for function, ids in setting["ids"].items():
        vendor, device = (int(part, 16) for part in ids.split(":"))
        space[function][0:4] = vendor.to_bytes(2, "little") + device.to_bytes(2, "little")
    out = list(lines)
    for number, function, offset, _ in rows(lines):
        out[number] = "%02x: %s" % (offset, space[function][offset:offset + 16].hex(" "))
    return "\n".join(out)


def rigmem(*words):
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def compare(setting, *words):
    pairs = json.loads(rigmem("--json", *words, "reach", "--all"))["result"]["pairs"]
    said = {(pair["to"], pair["from"]): pair["p2pdma"] for pair in pairs}
    for provider, client, distance in setting["answers"]:
        if provider == client:
            continue
        p = said[provider, client]
        where = (words, provider, client, distance, p)
        if distance < 0:
            assert p["verdict"] == "NOT_SUPPORTED", where
        else:
            assert p["verdict"] in ("BUS_ADDR", "THRU_HOST_BRIDGE"), where
            assert p["distance"] == distance, where


checked = 0
lines = open(os.path.join(directory, "machine.hex")).read().split("\n")
text = os.path.join(directory, "machine.text")
for name in ("EPYC", "Skylake-Server", "qemu64"):
    document = json.load(open(os.path.join(directory, name + ".json")))
    facts = ["--cpu", document["cpu"], "--kernel", document["kernel"]]
    settings = [s for s in document["settings"] if form == "hex" or not s["ids"]]
    for setting in (settings[len(settings) // 3], settings[-1]):
        if form == "hex":
            with open("machine.hex", "w") as file:
                file.write(patched(lines, setting))
            words = ["-m", "machine.hex", *facts]
        else:
            words = ["-m", text, *facts]
            for function, control in setting["acs"].items():
                words += ["--assume", "acs=%s:0x%04x" % (function, int(control, 16))]
        compare(setting, *words)
        rigmem(*words, "capture", "-o", "capture.json")
        compare(setting, "-m", "capture.json")
        checked += 1
assert checked == 6
PYTHON
}

@test "a dump whose bytes a setting changed gives the kernel's answers, and so does its capture" {
    for machine in conventional functions integrated pxb switch-acs; do
        check "$machine" hex
    done
}

@test "a text with --assume acs gives the kernel's answers, and so does its capture" {
    for machine in conventional functions integrated pxb switch-acs; do
        check "$machine" text
    done
}

@test "ids in a function's line that its own bytes contradict: the bytes count, with a warning" {
    sed 's/^0000:00:00.0 .*/0000:00:00.0 Host bridge [0600]: Device [8086:2f00]/' \
        "$answers/pxb/machine.hex" >odd.hex
    "$RIGMEM" -m odd.hex -j list 0000:00:00.0 >out 2>err
    python3 -c 'import json
d = json.load(open("out"))
f = d["result"]["functions"][0]
assert (f["vendor"], f["device"]) == ("0x8086", "0x29c0"), f
assert any("8086:2f00" in w and "8086:29c0" in w for w in d["warnings"]), d["warnings"]'
}
