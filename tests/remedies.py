"""Applies remedies that `reach` prints for a machine, by options, and checks the answer told with
them: remedies.py RIGMEM MACHINE [OPTION...]. Of remedies whose steps are of the same kinds the first
few are applied. Prints how many pairs have remedies of which kinds."""
import collections, json, re, subprocess, sys

rigmem, machine, options = sys.argv[1], sys.argv[2], sys.argv[3:]
BDF = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"


def ask(*words):
    out = subprocess.run([rigmem, "-j", "-m", machine, *options, *words], capture_output=True, text=True)
    return json.loads(out.stdout)["result"]


facts = {f["function"]: f for f in ask("list")["functions"]}


def word_after(command):
    """The ACS control word that one setpci line leaves: VALUE:MASK of the word at +6."""
    function, value, mask = re.fullmatch(rf"setpci -s ({BDF}) ECAP_ACS\+6\.w=([0-9a-f]+):([0-9a-f]+)", command).groups()
    old = int(facts[function]["acs_control"], 16)
    return function, old & ~int(mask, 16) | int(value, 16) & int(mask, 16)


def apply(step, pair, rules):
    """The options that do what the step says, and the words that must stand in it."""
    if step["kind"] == "acs":
        words = [word_after(c) for c in step["commands"]]
        assert step["parameter"] == "pci=disable_acs_redir=" + ";".join(f for f, _ in words), step
        assert "isolation" in step["warning"] and "IOMMU groups" in step["warning"], step
        return [w for f, word in words for w in ("--assume", f"acs={f}:{word:04x}")], rules
    if step["kind"] == "bar" and step["commands"]:
        power, function, bar = re.fullmatch(rf"echo (\d+) > /sys/bus/pci/devices/({BDF})/resource(\d)_resize",
                                            step["commands"][0]).groups()
        bytes = 1 << 20 + int(power)
        assert bytes in [s for b in facts[function]["bars"] if b["bar"] == int(bar) for s in b["resizable"]], step
        return ["--assume", f"bar={function}:{bytes}"], rules
    if step["kind"] == "iommu":
        assert step["parameter"] in ("iommu=pt", "iommu.passthrough=1") and "ACS redirects stay" in step["warning"], step
        ends = [f for f in (pair["from"], pair["to"]) if facts[f]["iommu"] == "translate"]
        return [w for f in ends for w in ("--iommu", f"{f}=identity")], rules
    if step["kind"] == "kernel":
        return [], re.search(r"run Linux (\S+) or later", step["text"]).group(1)
    if step["kind"] == "move":
        card, port = re.search(rf"move the card of .*?({BDF})\)? to the slot under port .*?({BDF})", step["text"]).groups()
        return ["--assume", f"parent={card}:{port}"], rules
    raise AssertionError(step)


MOST = 6
found_kinds = collections.Counter()
for pair in ask("reach")["pairs"]:
    assert (pair["hint"] is None) == (pair["remedy"] == []), pair
    assert "noacs" not in json.dumps(pair["remedy"]) and "whitelist" not in json.dumps(pair["remedy"])
    if not pair["remedy"]:
        continue
    kinds = "+".join(step["kind"] for step in pair["remedy"])
    found_kinds[kinds] += 1
    if found_kinds[kinds] > MOST:
        continue
    words, rules = [], None
    for step in pair["remedy"]:
        more, rules = apply(step, pair, rules)
        words += more
    last = pair["remedy"][-1]
    then = ask(*words, "reach", pair["from"], pair["to"], *(["--rules", rules] if rules else []))["pairs"][0]
    told, found = (last["answer"], last["verdict"]), (then["answer"], then["p2pdma"]["verdict"])
    assert told == found, (pair["from"], pair["to"], words, told, found)
    assert found != (pair["answer"], pair["p2pdma"]["verdict"]), (pair["from"], pair["to"], words)
print(*(f"{kinds} {count}" for kinds, count in sorted(found_kinds.items())), sep=", ")
