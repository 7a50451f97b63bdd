#!/usr/bin/env python3
"""Writes the bundled machines beside this file again. Needed only to change them: python3 and lspci.

A machine is a list of functions in this file. Their addresses are dealt out as firmware would do it, their
configuration space is put together from the PCI and PCI Express specifications, and what lspci would print
of them is lspci's own reading of that space, with the facts added that it takes from the running system.
"""
import json
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TYPES = {"endpoint": 0, "legacy": 1, "root-port": 4, "upstream": 5, "downstream": 6, "to-pci": 7,
         "integrated": 9}
SPEED_CODE = {25: 1, 50: 2, 80: 3, 160: 4, 320: 5}
SPEED_TEXT = {25: "2.5", 50: "5", 80: "8", 160: "16", 320: "32"}


class Function:
    """One function. `bars` are (index, size, kind) with kind of: 32, 64, 64p (prefetchable), io."""

    def __init__(self, bdf, ids, cls, kind=None, bars=(), sub=None, secondary=None, subordinate=None,
                 acs=None, acs_can=0x5f, link=None, link_max=None, numa=None, group=None, driver=None,
                 rebar=None, sriov=None, virtual_of=None, memory=None, revision=0, command=None,
                 multi=False, ats=False, root=None):
        self.__dict__.update(locals())
        del self.__dict__["self"]
        head, self.function = bdf.rsplit(".", 1)
        dom, bus, dev = head.split(":")
        self.domain, self.bus, self.device = int(dom, 16), int(bus, 16), int(dev, 16)
        self.function = int(self.function)
        self.vendor, self.dev_id = (int(x, 16) for x in ids.split(":"))
        self.address = {}
        self.windows = {}
        self.bridge = secondary is not None
        if command is None:
            self.command = 0x0406 if kind else 0x0006


def below(functions, bridge):
    return [f for f in functions if f.domain == bridge.domain and f.bus == bridge.secondary
            and not f.virtual_of]


def deal(functions, roots):
    """Gives BARs and windows their addresses: per root bus a 32-bit and a 64-bit range, largest first."""

    def span(at, f, prefetchable):
        """Places what f needs from `at` on, returns the end and whether anything was placed."""
        begin = at
        for index, size, kind in sorted(f.bars, key=lambda b: -b[1]):
            if kind == "io" or (kind == "64p") != prefetchable:
                continue
            at = (at + size - 1) & ~(size - 1)
            f.address[index] = at
            at += size
        if f.bridge:
            at = (at + MIB - 1) & ~(MIB - 1)
            start = None
            for child in sorted(below(functions, f),
                                key=lambda c: -max([b[1] for b in c.bars], default=0)):
                largest = largest_below(child, prefetchable)
                if not largest:
                    continue
                align = max(largest, MIB)
                at = (at + align - 1) & ~(align - 1)
                start = at if start is None else start
                at, _ = span(at, child, prefetchable)
                at = (at + MIB - 1) & ~(MIB - 1)
            if start is not None:
                f.windows["pref" if prefetchable else "mem"] = (start, at - 1)
        return at, at != begin

    def largest_below(f, prefetchable):
        sizes = [s for _, s, k in f.bars if k != "io" and (k == "64p") == prefetchable]
        if f.bridge:
            sizes += [largest_below(c, prefetchable) for c in below(functions, f)]
        return max(sizes, default=0)

    for (domain, bus), (low, high) in roots.items():
        for prefetchable, at in ((False, low), (True, high)):
            for f in functions:
                if (f.domain, f.bus) == (domain, bus):
                    largest = largest_below(f, prefetchable)
                    if largest:
                        at = (at + largest - 1) & ~(largest - 1)
                        at, _ = span(at, f, prefetchable)
    io = 0x3000
    for f in functions:
        for index, size, kind in f.bars:
            if kind == "io":
                f.address[index] = io
                io += 0x100


def config_space(f):
    c = bytearray(4096)

    def put(offset, value, width):
        c[offset:offset + width] = value.to_bytes(width, "little")

    put(0, f.vendor, 2)
    put(2, f.dev_id, 2)
    if f.virtual_of:
        put(0, 0xffffffff, 4)
    put(4, f.command, 2)
    put(6, 0x0010 if f.kind not in (None, "pci") else 0, 2)
    put(8, f.revision, 1)
    put(9, f.cls, 3)
    put(12, 0x10, 1)
    put(14, (1 if f.bridge else 0) | (0x80 if f.multi else 0), 1)
    for index, _, kind in f.bars:
        if f.virtual_of:
            continue
        flags = {"io": 1, "32": 0, "64": 4, "64p": 12, "32p": 8}[kind]
        address = f.address[index]
        put(0x10 + 4 * index, (address & 0xffffffff) | flags, 4)
        if kind.startswith("64"):
            put(0x14 + 4 * index, address >> 32, 4)
    if f.bridge:
        put(0x18, f.bus, 1)
        put(0x19, f.secondary, 1)
        put(0x1a, f.subordinate, 1)
        put(0x1c, 0x01f1, 2)
        low, high = f.windows.get("mem", (0xfff00000, 0))
        put(0x20, low >> 16 & 0xfff0, 2)
        put(0x22, high >> 16 & 0xfff0, 2)
        low, high = f.windows.get("pref", (0xfff00000, 0))
        put(0x24, low >> 16 & 0xfff0 | 1, 2)
        put(0x26, high >> 16 & 0xfff0 | 1, 2)
        put(0x28, low >> 32, 4)
        put(0x2c, high >> 32, 4)
        put(0x3e, 0x0003, 2)
    elif f.sub:
        vendor, device = (int(x, 16) for x in f.sub.split(":"))
        put(0x2c, vendor, 2)
        put(0x2e, device, 2)
    if f.kind and f.kind != "pci":
        put(0x34, 0x40, 1)
        slot = 0x100 if f.kind in ("root-port", "downstream") else 0
        put(0x40, 0x10, 1)
        put(0x42, 2 | TYPES[f.kind] << 4 | slot, 2)
        put(0x44, 0x00008fc1, 4)
        put(0x48, 0x2957, 2)
        if f.link:
            most = f.link_max or f.link
            put(0x4c, SPEED_CODE[most[0]] | most[1] << 4 | 0x00400000, 4)
            put(0x50, 0x0040, 2)
            put(0x52, SPEED_CODE[f.link[0]] | f.link[1] << 4 | 0x1000, 2)
            put(0x6c, (1 << SPEED_CODE[most[0]] + 1) - 2, 4)
            put(0x70, SPEED_CODE[most[0]], 2)
        extended(f, put)
    return bytes(c)


def extended(f, put):
    parts = []
    if f.kind == "root-port":
        parts.append((0x0001, lambda at: None, 0x48))
    if f.acs is not None:
        parts.append((0x000d, lambda at: (put(at + 4, f.acs_can, 2), put(at + 6, f.acs, 2)), 8))
    if f.ats:
        parts.append((0x000f, lambda at: put(at + 4, 0x0020, 2), 8))
    if f.sriov:
        parts.append((0x0010, lambda at: sriov_body(f, put, at), 0x40))
    if f.rebar:
        parts.append((0x0015, lambda at: rebar_body(f, put, at), 0x10))
    at = 0x100
    for n, (identity, body, size) in enumerate(parts):
        after = at + (size + 0x0f & ~0x0f) if n + 1 < len(parts) else 0
        put(at, identity | 1 << 16 | after << 20, 4)
        body(at)
        at = after


def sriov_body(f, put, at):
    put(at + 0x08, 0x0009, 2)  # VF enable, VF memory space enable
    put(at + 0x0c, f.sriov["total"], 2)
    put(at + 0x0e, f.sriov["total"], 2)
    put(at + 0x10, f.sriov["count"], 2)
    put(at + 0x14, f.sriov["offset"], 2)
    put(at + 0x16, f.sriov["stride"], 2)
    put(at + 0x1a, f.sriov["device"], 2)
    put(at + 0x1c, 0x553, 4)
    put(at + 0x20, 1, 4)
    address = f.sriov["bar"]
    put(at + 0x24, (address & 0xffffffff) | 12, 4)
    put(at + 0x28, address >> 32, 4)


def rebar_body(f, put, at):
    index, sizes, now = f.rebar
    mask = 0
    for size in sizes:
        mask |= 1 << (size.bit_length() - 21)
    put(at + 4, mask << 4 & 0xffffffff, 4)
    put(at + 8, index | 1 << 5 | (now.bit_length() - 21) << 8, 4)


def hex_dump(functions, space):
    out = []
    for f in functions:
        size = min(space, 4096 if f.kind and f.kind != "pci" or f.virtual_of else 256)
        c = config_space(f)[:size]
        out.append(f"{f.bdf} {f.cls:06x}\n")
        out += [f"{o:02x}: {c[o:o + 16].hex(' ')}\n" for o in range(0, size, 16)]
        out.append("\n")
    return "".join(out)


def human(size):
    for unit, name in ((1 << 40, "T"), (GIB, "G"), (MIB, "M"), (KIB, "K")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def lspci(functions, space, options):
    with tempfile.NamedTemporaryFile("w", suffix=".hex") as f:
        f.write(hex_dump(functions, space))
        f.flush()
        return subprocess.run(["lspci", "-F", f.name, "-D", *options], check=True, text=True,
                              capture_output=True).stdout


def text(functions, space=4096, options=("-vvv", "-nn")):
    """What lspci prints of the running machine: its reading of the space and the system's own facts."""
    blocks = lspci(functions, space, options).strip("\n").split("\n\n")
    out = []
    for f, block in zip(functions, blocks, strict=True):
        lines = [x for x in block.split("\n") if not x.startswith("\tRegion ")]
        first = next((n for n, x in enumerate(lines) if x.startswith(("\tBus:", "\tCapab"))), len(lines))
        facts = []
        if f.numa is not None:
            facts.append(f"\tNUMA node: {f.numa}")
        if f.group is not None:
            facts.append(f"\tIOMMU group: {f.group}")
        for index, size, kind in sorted(f.bars):
            if kind == "io":
                what = f"I/O ports at {f.address[index]:x}"
            else:
                bits = "64-bit" if kind.startswith("64") else "32-bit"
                pre = "prefetchable" if kind.endswith("p") else "non-prefetchable"
                virtual = "[virtual] " if f.virtual_of else ""
                what = f"{virtual}Memory at {f.address[index]:08x} ({bits}, {pre})"
            facts.append(f"\tRegion {index}: {what} [size={human(size)}]")
        lines[first:first] = facts
        if f.driver:
            lines.append(f"\tKernel driver in use: {f.driver}")
        out.append("\n".join(lines) + "\n")
    return "\n".join(out) + "\n"


def speed(hundreds):
    return f"{SPEED_TEXT[hundreds]} GT/s"


def size_text(size):
    return f"{human(size)}iB" if size >= KIB else size


def capture_function(f, iommu, offset):
    """The facts of one function as a capture, rigmem-machine(5), has them."""
    kinds = {"upstream": "upstream-port", "downstream": "downstream-port",
             "integrated": "integrated-endpoint", "legacy": "legacy-endpoint",
             "to-pci": "pcie-to-pci-bridge"}
    out = {
        "address": f.bdf, "vendor": f"0x{f.vendor:04x}", "device": f"0x{f.dev_id:04x}",
        "class": f"0x{f.cls:06x}", "revision": f"0x{f.revision:02x}",
        "command": f"0x{f.command:04x}", "config_bytes": 4096,
        "header_type": "bridge" if f.bridge else "device",
        "pcie_type": kinds.get(f.kind, f.kind) if f.kind else False,
        "acs_capability": False if f.acs is None else f"0x{f.acs_can:04x}",
        "acs_control": False if f.acs is None else f"0x{f.acs:04x}",
        "ats": "yes" if f.ats else False,
    }
    if f.sub:
        out["subsystem_vendor"], out["subsystem_device"] = (f"0x{x}" for x in f.sub.split(":"))
    if f.link:
        most = f.link_max or f.link
        out |= {"link_speed": speed(f.link[0]), "link_width": f.link[1],
                "max_speed": speed(most[0]), "max_width": most[1]}
    if f.bridge:
        out |= {"primary": f"0x{f.bus:02x}", "secondary": f"0x{f.secondary:02x}",
                "subordinate": f"0x{f.subordinate:02x}", "io_window": False}
        for name, key in (("mem", "memory_window"), ("pref", "prefetchable_window")):
            low_high = f.windows.get(name)
            out[key] = f"0x{low_high[0]:x}-0x{low_high[1]:x}" if low_high else False
    bars = {}
    for index, size, kind in sorted(f.bars):
        bar = {"size": size_text(size)}
        address = f.address[index]
        bar["flags"] = {"io": "io", "32": "memory", "64": "memory 64-bit",
                        "64p": "memory 64-bit prefetchable"}[kind]
        move = offset.get(f.domain, 0)
        if move and kind != "io":
            bar |= {"bus": f"0x{address:x}", "cpu": f"0x{address + move:x}"}
        else:
            bar["address"] = f"0x{address:x}"
        bar["resizable"] = ([size_text(x) for x in f.rebar[1]] if f.rebar and f.rebar[0] == index
                            else False)
        bars[str(index)] = bar
    out["bars"] = bars
    out["numa_node"] = False if f.numa is None else f.numa
    out["iommu_group"] = False if f.group is None else f.group
    out["iommu_type"] = False if f.group is None else iommu
    out["driver"] = f.driver or False
    if f.memory:
        out["gpu_memory"] = size_text(f.memory)
    return out


def capture(functions, machine, iommu="identity", offset=None):
    """A capture with one function a line. `offset`: by domain, what the CPU adds to a bus address."""
    rows = ",\n  ".join(json.dumps(capture_function(f, iommu, offset or {}), sort_keys=True)
                        for f in functions)
    head = {"format": "rigmem-machine", "version": 1, "source": "capture", "whole": True,
            "machine": machine}
    lines = json.dumps(head, indent=1)[:-2]
    return f"{lines},\n \"functions\": [\n  {rows}\n ]\n}}\n"


# ---- the machines

GEN3_16, GEN3_4, GEN4_16, GEN4_8, GEN4_4 = (80, 16), (80, 4), (160, 16), (160, 8), (160, 4)


def root_port(bdf, ids, secondary, subordinate, acs=None, link=GEN3_16, **more):
    return Function(bdf, ids, 0x060400, "root-port", secondary=secondary, subordinate=subordinate,
                    acs=acs, link=link, driver="pcieport", **more)


def port(bdf, ids, kind, secondary, subordinate, acs=None, link=GEN3_16, **more):
    return Function(bdf, ids, 0x060400, kind, secondary=secondary, subordinate=subordinate, acs=acs,
                    link=link, driver="pcieport", **more)


def server_8gpu():
    """Two sockets of Broadwell-EP, two switches a socket, on each 2 GPUs, a NIC and an NVMe drive."""
    functions = [Function("0000:00:00.0", "8086:6f00", 0x060000, "root-port", numa=0, group=0,
                          sub="15d9:0832")]
    functions[0].cls, functions[0].kind = 0x060000, "integrated"
    group = 1
    # The redirecting ports: by switch, which of the four downstream ports.
    redirect = {2: {8}, 3: {8, 9, 10, 11}}
    number = 0
    for switch, (root, device, ids, bus) in enumerate(((0x00, 2, "8086:6f04", 0x01),
                                                       (0x00, 3, "8086:6f08", 0x07),
                                                       (0x80, 2, "8086:6f04", 0x81),
                                                       (0x80, 3, "8086:6f08", 0x87)), 1):
        numa = 0 if root == 0 else 1
        functions.append(root_port(f"0000:{root:02x}:{device:02x}.0", ids, bus, bus + 5, 0x001d,
                                   acs_can=0x00ff & 0x5f, numa=numa, group=group))
        functions.append(port(f"0000:{bus:02x}:00.0", "10b5:8796", "upstream", bus + 1, bus + 5,
                              numa=numa, group=group + 1, bars=((0, 256 * KIB, "32"),),
                              revision=0xab))
        group += 2
        for n in range(4):
            acs = 0x001d if 8 + n in redirect.get(switch, ()) else 0x0000
            functions.append(port(f"0000:{bus + 1:02x}:{8 + n:02x}.0", "10b5:8796", "downstream",
                                  bus + 2 + n, bus + 2 + n, acs, numa=numa, group=group,
                                  link=GEN3_16 if n < 3 else GEN3_4, link_max=GEN3_16,
                                  revision=0xab))
            group += 1
        below_bus = bus + 2
        for n in range(2):
            functions.append(Function(
                f"0000:{below_bus + n:02x}:00.0", "10de:1db4", 0x030200, "endpoint", sub="10de:1214",
                bars=((0, 16 * MIB, "32"), (1, 16 * GIB, "64p"), (3, 32 * MIB, "64p")), link=GEN3_16,
                numa=numa, group=group, driver="nvidia", memory=16 * GIB, revision=0xa1))
            group += 1
            number += 1
        functions.append(Function(
            f"0000:{below_bus + 2:02x}:00.0", "15b3:1017", 0x020000, "endpoint", sub="15b3:0006",
            bars=((0, 32 * MIB, "64p"),), link=GEN3_16, numa=numa, group=group,
            driver="mlx5_core"))
        functions.append(Function(
            f"0000:{below_bus + 3:02x}:00.0", "144d:a822", 0x010802, "endpoint", sub="144d:a801",
            bars=((0, 16 * KIB, "64"),), link=GEN3_4, numa=numa, group=group + 1, driver="nvme"))
        group += 2
    functions.sort(key=lambda f: (f.domain, f.bus, f.device, f.function))
    deal(functions, {(0, 0): (0x92000000, 0x380000000000), (0, 0x80): (0xc8000000, 0x390000000000)})
    return functions


def desktop_amd():
    """A Ryzen 7000 desktop with two Radeon RX 7900 XTX, each behind the switch on its own card."""
    functions = [
        Function("0000:00:00.0", "1022:14d8", 0x060000, sub="1022:14d8", command=0),
        Function("0000:00:00.2", "1022:14d9", 0x080600, sub="1022:14d9", command=4),
        Function("0000:00:01.0", "1022:14da", 0x060000, command=0, group=0),
        root_port("0000:00:01.1", "1022:14db", 0x01, 0x03, 0x001d, GEN4_16, group=1),
        root_port("0000:00:01.2", "1022:14db", 0x04, 0x06, 0x001d, GEN4_4, group=2,
                  link_max=GEN4_4),
    ]
    for bus, group, bar, link in ((1, 3, 32 * GIB, GEN4_16), (4, 6, 256 * MIB, GEN4_4)):
        functions += [
            port(f"0000:{bus:02x}:00.0", "1002:1478", "upstream", bus + 1, bus + 2, None, link,
                 link_max=GEN4_16, group=group, bars=((0, 16 * KIB, "32"),), revision=0x10),
            port(f"0000:{bus + 1:02x}:00.0", "1002:1479", "downstream", bus + 2, bus + 2, 0x001d,
                 GEN4_16, group=group + 1, revision=0x10),
            Function(f"0000:{bus + 2:02x}:00.0", "1002:744c", 0x030000, "legacy", sub="1eae:7901",
                     bars=((0, bar, "64p"), (2, 2 * MIB, "64p"), (4, 256, "io"),
                           (5, 1 * MIB, "32")), link=GEN4_16, group=group + 2, driver="amdgpu",
                     rebar=(0, [256 * MIB << n for n in range(8)], bar), revision=0xc8,
                     memory=24 * GIB, multi=True),
            Function(f"0000:{bus + 2:02x}:00.1", "1002:ab30", 0x040300, "endpoint",
                     sub="1002:ab30", bars=((0, 16 * KIB, "32"),), link=GEN4_16, group=group + 2,
                     driver="snd_hda_intel", multi=True, acs=0, acs_can=0),
        ]
        functions[-1].acs = None
    functions.sort(key=lambda f: (f.domain, f.bus, f.device, f.function))
    deal(functions, {(0, 0): (0xfc000000, 0x7800000000)})
    return functions


def client_intel():
    """An Alder Lake desktop, two Arc cards behind one PLX switch whose ports redirect."""
    functions = [
        Function("0000:00:00.0", "8086:4660", 0x060000, sub="1043:8882", group=0),
        root_port("0000:00:01.0", "8086:460d", 0x01, 0x09, None, GEN3_16, link_max=(320, 16),
                  group=1),
        port("0000:01:00.0", "10b5:8747", "upstream", 0x02, 0x09, None, group=2,
             bars=((0, 256 * KIB, "32"),), revision=0xca),
        port("0000:02:08.0", "10b5:8747", "downstream", 0x03, 0x05, 0x001d, group=3, revision=0xca),
        port("0000:02:10.0", "10b5:8747", "downstream", 0x06, 0x08, 0x001d, group=4, revision=0xca),
    ]
    for bus, group in ((3, 5), (6, 8)):
        functions += [
            port(f"0000:{bus:02x}:00.0", "8086:4fa0", "upstream", bus + 1, bus + 2, None, GEN3_16,
                 link_max=GEN4_16, group=group, bars=((0, 8 * MIB, "64p"),), revision=1),
            port(f"0000:{bus + 1:02x}:01.0", "8086:4fa4", "downstream", bus + 2, bus + 2, 0x0000,
                 (25, 1), group=group + 1),
            Function(f"0000:{bus + 2:02x}:00.0", "8086:56a0", 0x030000, "endpoint",
                     sub="8086:1020", bars=((0, 16 * MIB, "64"), (2, 16 * GIB, "64p")),
                     link=(25, 1), group=group + 2, driver="i915", revision=8, memory=16 * GIB,
                     rebar=(2, [256 * MIB << n for n in range(7)], 16 * GIB)),
        ]
    functions.append(Function("0000:00:1f.0", "8086:7a84", 0x060100, sub="1043:8882", group=11,
                              revision=0x11))
    functions.sort(key=lambda f: (f.domain, f.bus, f.device, f.function))
    deal(functions, {(0, 0): (0x50000000, 0x4000000000)})
    return functions


def xeon_listed():
    """Two sockets of Sapphire Rapids: a GPU on each, an accelerator on a root bus of its own."""
    functions = [
        Function("0000:15:00.0", "8086:09a2", 0x088000, "integrated", sub="8086:0000", numa=0,
                 group=0),
        root_port("0000:15:01.0", "8086:352a", 0x16, 0x16, 0x001d, GEN4_16, numa=0, group=1),
        Function("0000:16:00.0", "10de:20b5", 0x030200, "endpoint", sub="10de:1533",
                 bars=((0, 16 * MIB, "32"), (1, 128 * GIB, "64p"), (3, 32 * MIB, "64p")),
                 link=GEN4_16, numa=0, group=2, driver="nvidia", memory=80 * GIB, revision=0xa1),
        Function("0000:97:00.0", "8086:09a2", 0x088000, "integrated", sub="8086:0000", numa=1,
                 group=3),
        root_port("0000:97:01.0", "8086:352a", 0x98, 0x98, 0x001d, GEN4_16, numa=1, group=4),
        Function("0000:98:00.0", "10de:20b5", 0x030200, "endpoint", sub="10de:1533",
                 bars=((0, 16 * MIB, "32"), (1, 128 * GIB, "64p"), (3, 32 * MIB, "64p")),
                 link=GEN4_16, numa=1, group=5, driver="nvidia", memory=80 * GIB, revision=0xa1),
        Function("0000:f3:00.0", "8086:4940", 0x0b4000, "integrated", sub="8086:0000",
                 bars=((0, 1 * MIB, "64p"), (2, 4 * MIB, "64")), numa=0, group=6,
                 driver="4xxx", revision=0x40),
    ]
    deal(functions, {(0, 0x15): (0x9f000000, 0x200000000000), (0, 0x97): (0xd1000000, 0x240000000000),
                     (0, 0xf3): (0xf0000000, 0x280000000000)})
    return functions


def arm64_two_domains():
    """An Altra board: a GPU and a NIC under one switch in domain 0, a second GPU in domain 4."""
    functions = [
        Function("0000:00:00.0", "1def:e100", 0x060000, sub="1def:e100", group=0, numa=0),
        root_port("0000:00:01.0", "1def:e101", 0x01, 0x04, 0x001d, GEN4_16, group=1, numa=0),
        port("0000:01:00.0", "10b5:9733", "upstream", 0x02, 0x04, None, GEN3_16, group=2, numa=0,
             bars=((0, 256 * KIB, "32"),), revision=0xaa),
        port("0000:02:01.0", "10b5:9733", "downstream", 0x03, 0x03, 0x0000, group=3, numa=0,
             revision=0xaa),
        port("0000:02:02.0", "10b5:9733", "downstream", 0x04, 0x04, 0x0000, group=4, numa=0,
             revision=0xaa),
        Function("0000:03:00.0", "10de:1eb8", 0x030200, "endpoint", sub="10de:12a2",
                 bars=((0, 16 * MIB, "32"), (1, 16 * GIB, "64p"), (3, 32 * MIB, "64p")),
                 link=GEN3_16, group=3, numa=0, driver="nvidia", memory=15 * GIB, revision=0xa1),
        Function("0000:04:00.0", "15b3:101d", 0x020000, "endpoint", sub="15b3:0012",
                 bars=((0, 32 * MIB, "64p"),), link=GEN3_16, group=4, numa=0, driver="mlx5_core"),
        Function("0004:00:00.0", "1def:e100", 0x060000, sub="1def:e100", group=5, numa=0),
        root_port("0004:00:01.0", "1def:e101", 0x01, 0x01, 0x001d, GEN4_16, group=6, numa=0),
        Function("0004:01:00.0", "10de:1eb8", 0x030200, "endpoint", sub="10de:12a2",
                 bars=((0, 16 * MIB, "32"), (1, 16 * GIB, "64p"), (3, 32 * MIB, "64p")),
                 link=GEN3_16, group=7, numa=0, driver="nvidia", memory=15 * GIB, revision=0xa1),
    ]
    deal(functions, {(0, 0): (0x40000000, 0x300000000000), (4, 0): (0x20000000, 0x2b0000000000)})
    return functions


def vmd():
    """An Ice Lake server: a GPU beside a VMD controller whose domain holds two NVMe drives."""
    functions = [
        Function("0000:16:00.0", "8086:09a2", 0x088000, sub="8086:0000", numa=0, group=0),
        root_port("0000:16:02.0", "8086:347a", 0x17, 0x17, 0x001d, GEN4_16, numa=0, group=1),
        Function("0000:17:00.0", "10de:20f1", 0x030200, "endpoint", sub="10de:145f",
                 bars=((0, 16 * MIB, "32"), (1, 64 * GIB, "64p"), (3, 32 * MIB, "64p")),
                 link=GEN4_16, numa=0, group=2, driver="nvidia", memory=40 * GIB, revision=0xa1),
        Function("0000:16:00.5", "8086:28c0", 0x010400, "integrated", sub="8086:0000",
                 bars=((0, 32 * MIB, "64p"), (2, 32 * MIB, "32"), (4, 1 * MIB, "64")), numa=0, group=3,
                 driver="vmd", revision=4),
        root_port("10000:00:02.0", "8086:347a", 0x01, 0x01, 0x001d, GEN4_4, numa=0, group=3),
        root_port("10000:00:03.0", "8086:347b", 0x02, 0x02, 0x001d, GEN4_4, numa=0, group=3),
        Function("10000:01:00.0", "144d:a80a", 0x010802, "endpoint", sub="144d:a801",
                 bars=((0, 16 * KIB, "64"),), link=GEN4_4, numa=0, group=3, driver="nvme"),
        Function("10000:02:00.0", "144d:a80a", 0x010802, "endpoint", sub="144d:a801",
                 bars=((0, 16 * KIB, "64"),), link=GEN4_4, numa=0, group=3, driver="nvme"),
    ]
    functions.sort(key=lambda f: (f.domain, f.bus, f.device, f.function))
    deal(functions, {(0, 0x16): (0xa0000000, 0x200000000000), (0x10000, 0): (0x9c000000, 0x210000000000)})
    return functions


def sriov():
    """A NIC with two virtual functions beside a GPU under one switch."""
    functions = [
        Function("0000:00:00.0", "8086:4660", 0x060000, sub="1043:8882"),
        root_port("0000:00:01.0", "8086:460d", 0x01, 0x05, 0x0000),
        port("0000:01:00.0", "10b5:8724", "upstream", 0x02, 0x05, None, bars=((0, 256 * KIB, "32"),),
             revision=0xca),
        port("0000:02:01.0", "10b5:8724", "downstream", 0x03, 0x04, 0x0000, revision=0xca),
        port("0000:02:02.0", "10b5:8724", "downstream", 0x05, 0x05, 0x0000, revision=0xca),
        Function("0000:03:00.0", "15b3:1017", 0x020000, "endpoint", sub="15b3:0006",
                 bars=((0, 32 * MIB, "64p"),), link=(80, 8), driver="mlx5_core",
                 sriov={"total": 2, "count": 2, "offset": 0x100, "stride": 1, "device": 0x1018, "bar": 0}),
        Function("0000:04:00.0", "15b3:1018", 0x020000, "endpoint", sub="15b3:0006",
                 bars=((0, 1 * MIB, "64p"),), link=(80, 8), driver="vfio-pci", virtual_of="0000:03:00.0"),
        Function("0000:04:00.1", "15b3:1018", 0x020000, "endpoint", sub="15b3:0006",
                 bars=((0, 1 * MIB, "64p"),), link=(80, 8), driver="vfio-pci", virtual_of="0000:03:00.0"),
        Function("0000:05:00.0", "10de:1eb8", 0x030200, "endpoint", sub="10de:12a2",
                 bars=((0, 16 * MIB, "32"), (1, 16 * GIB, "64p"), (3, 32 * MIB, "64p")),
                 link=(80, 8), link_max=GEN3_16, driver="nvidia", memory=15 * GIB, revision=0xa1),
    ]
    deal(functions, {(0, 0): (0x50000000, 0x4000000000)})
    # The virtual functions' memory lies behind the physical function's own, as its capability says.
    vf = functions[5].address[0] + 32 * MIB
    functions[5].sriov["bar"] = vf
    for n in (6, 7):
        functions[n].address[0] = vf + (n - 6) * MIB
    return functions


def conventional():
    """Two conventional cards on one bus behind a PCI Express to PCI bridge: a display and a NIC."""
    functions = [
        Function("0000:00:00.0", "8086:29b0", 0x060000, sub="8086:0001"),
        root_port("0000:00:1c.0", "8086:2940", 0x01, 0x02, None, (25, 1), revision=2),
        port("0000:01:00.0", "104c:8231", "to-pci", 0x02, 0x02, None, (25, 1), revision=3),
        Function("0000:02:00.0", "102b:0525", 0x030000, "pci", sub="102b:0338",
                 bars=((0, 32 * MIB, "32p"), (1, 16 * KIB, "32"), (2, 8 * MIB, "32")),
                 driver="mgag200", revision=0x82),
        Function("0000:02:01.0", "8086:1026", 0x020000, "pci", sub="8086:1000",
                 bars=((0, 128 * KIB, "32"),), driver="e1000", revision=4),
    ]
    deal(functions, {(0, 0): (0xd0000000, 0xd8000000)})
    return functions


def main():
    server = {"cpu_vendor": "GenuineIntel", "cpu_family": 6, "kernel": "6.1.0-31-lab", "p2pdma": "on",
              "host": "server-8gpu",
              "command_line": "intel_iommu=on iommu=pt "
                              "pci=disable_acs_redir=0000:02:08.0;0000:02:09.0;0000:02:0a.0;0000:02:0b.0"}
    files = {
        "server-8gpu.json": capture(server_8gpu(), server),
        "desktop-amd.txt": text(desktop_amd()),
        "client-intel.txt": text(client_intel()),
        "client-intel-unprivileged.txt": text(client_intel(), 64),
        "xeon-listed.json": capture(xeon_listed(), {
            "cpu_vendor": "GenuineIntel", "cpu_family": 6, "kernel": "6.1.0-31-lab", "p2pdma": "on",
            "host": "xeon-listed"}),
        "arm64.json": capture(arm64_two_domains(), {
            "cpu_family": False, "kernel": "6.1.0-31-lab", "p2pdma": "on", "host": "altra"},
            offset={4: 0x100000000000}),
        "vmd.json": capture(vmd(), {
            "cpu_vendor": "GenuineIntel", "cpu_family": 6, "kernel": "6.1.0-31-lab", "p2pdma": "on",
            "host": "vmd"}),
        "sriov.hex": lspci(sriov(), 4096, ("-nn", "-xxxx")),
        "conventional.txt": text(conventional()),
    }
    for name, content in files.items():
        (HERE / name).write_text(content)


main()
