/* rigmem: which PCI function reaches which GPU's memory, why not, and the memory itself.

   This is the library's one public header. What is always true:

   - No function prints, exits, or installs a handler that the caller did not ask for.
   - A function that can fail returns an enum rig_status and takes a caller-owned struct rig_error
   last (or just before nothing: out-parameters come before it). NULL is allowed for it. The first
   error written to it stays until rig_error_clear.
   - Out-parameters are named out_... and are written only when the outcome is RIG_OK.
   - A parameter named take_... passes ownership to the callee.
   - Different topologies may be used by different threads at once; one topology may be read by many
   threads as long as none changes it.
   - Addresses are in bytes. Sizes are in bytes. Function numbers are domain:bus:device.function.

   License: GPL-3.0-or-later. */
#ifndef RIGMEM_H
#define RIGMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RIG_VERSION "0.1.0"

/* ---------- outcomes */

/* The outcome of a library call. The numbers are the command line's exit codes (RIG_OK with the
 * answer "no" is exit 1). */
enum rig_status {
    RIG_OK = 0,
    RIG_INVALID = 2, /* misuse: a wrong argument or a broken rule; nothing was taken or changed */
    RIG_REFUSED = 3, /* the machine or the state of things says no; the error says what to change */
    RIG_NO_ROOM = 4, /* freeing memory makes room */
    RIG_BAD_INPUT = 5, /* a file does not parse or contradicts itself; the error says where */
    RIG_UNKNOWN = 6,   /* the facts given do not decide; the error names the fact */
    RIG_FAILED = 7,    /* the outside broke underneath */
};

/* What went wrong, in text fit for `THING: reason`: lower case, no full stop. Each member is a
   NUL-terminated string, empty where it does not apply. Text that came from input may hold control
   characters: escape it when it is shown. */
struct rig_error {
    enum rig_status status;
    char what[256];  /* the thing it is about: a file, a function, an option */
    char why[512];   /* the reason */
    char hint[512];  /* what to do about it */
    char where[256]; /* FILE:LINE:COLUMN of bad input */
};

/* rig_error_clear makes *err say that nothing went wrong. */
void rig_error_clear(struct rig_error *err);

/* rig_status_name is the stable short name of a status: "ok", "invalid", "refused", "no-room",
   "bad-input", "unknown", "failed". Never NULL. */
const char *rig_status_name(enum rig_status status);

/* Room for the system's reason, with its NUL. */
#define RIG_ERRNO_MAX 96

/* rig_errno_text is text, holding the system's reason for an errno value as an error's `why` has
   it: strerror's, its first letter lower case unless the next one is a capital, too. Any value and
   any thread may ask. */
const char *rig_errno_text(int error, char text[RIG_ERRNO_MAX]);

#ifndef __cplusplus
/* The same in room of the block it stands in, which C++ has no word for. */
#define RIG_ERRNO(error) rig_errno_text((error), (char[RIG_ERRNO_MAX]){0})
#endif

/* ---------- facts */

/* How much is known of a fact. Unknown is never read as zero or as off. */
enum rig_know {
    RIG_FACT_UNKNOWN = 0, /* the source cannot tell; `from` may say why */
    RIG_FACT_ABSENT,      /* known not to exist: no such capability, no such BAR, no IOMMU group */
    RIG_FACT_KNOWN,       /* `value` holds */
    RIG_FACT_ASSUMED, /* `value` is taken to hold, and decides like a known one; `from` says from
                         what. Never NULL then */
};

/* A number and how it is known. `value` is meaningful when known or assumed. `from` is NULL or text
 * the topology owns. */
struct rig_fact {
    uint64_t value;
    const char *from;
    enum rig_know know;
};

/* A text and how it is known; `value` is owned by the topology, and never NULL when known or
 * assumed. */
struct rig_text {
    const char *value;
    const char *from;
    enum rig_know know;
};

/* rig_fact_has is true iff the fact has a value to decide with: known or assumed. */
static inline bool rig_fact_has(struct rig_fact f)
{
    return f.know == RIG_FACT_KNOWN || f.know == RIG_FACT_ASSUMED;
}

/* rig_text_has is true iff the text has a value to decide with. */
static inline bool rig_text_has(struct rig_text f)
{
    return f.know == RIG_FACT_KNOWN || f.know == RIG_FACT_ASSUMED;
}

/* ---------- names of functions */

/* A PCI function's place. Domains go above 0xffff (Intel VMD: 0x10000 and up). */
struct rig_bdf {
    uint32_t domain;
    uint8_t bus;
    uint8_t device;   /* 0 to 31 */
    uint8_t function; /* 0 to 7 */
};

/* Room for any printed function name with its NUL. */
#define RIG_BDF_MAX 24

/* rig_bdf_format writes `0000:03:00.0` into text, which has RIG_BDF_MAX bytes, and returns text. */
char *rig_bdf_format(struct rig_bdf bdf, char text[RIG_BDF_MAX]);

/* rig_bdf_parse reads `DDDD:BB:DD.F` (4 to 8 domain digits) or `BB:DD.F` (domain 0) from the whole
   of text. True on success. Nothing else is accepted: no spaces, no signs, no missing digits;
   device at most 0x1f, function at most 7. */
bool rig_bdf_parse(const char *text, struct rig_bdf *out_bdf);

/* rig_bdf_compare is negative, zero or positive as a comes before, at or after b in bus order. */
int rig_bdf_compare(struct rig_bdf a, struct rig_bdf b);

/* ---------- sizes */

/* rig_size_parse reads a size as people write it: decimal or 0x hex digits, with `_` allowed
   between digits, and one of the suffixes B K KiB M MiB G GiB T TiB (all binary; none: bytes).
   RIG_INVALID, with a hint where one helps: KB, MB and the like, fractions, signs, trailing text,
   more than 64 bits. */
enum rig_status rig_size_parse(const char *text, uint64_t *out_bytes, struct rig_error *err);

/* Room for any printed size with its NUL. */
#define RIG_SIZE_MAX 32

/* rig_size_format writes bytes as the largest binary unit that divides it ("24 GiB", "4 KiB", "5
   B") into text, which has RIG_SIZE_MAX bytes, and returns text. */
char *rig_size_format(uint64_t bytes, char text[RIG_SIZE_MAX]);

/* ---------- topology: facts of a machine */

/* The facts of a machine. Opaque; made by rig_topology_load or rig_topology_parse, freed by
 * rig_topology_free. */
struct rig_topology;

/* PCIe device/port types: the PCI Express capability's flags, bits 7:4 (PCIe base
 * specification, 7.5.3.2). */
enum rig_pcie_type {
    RIG_PCIE_ENDPOINT = 0,
    RIG_PCIE_LEGACY_ENDPOINT = 1,
    RIG_PCIE_ROOT_PORT = 4,
    RIG_PCIE_UPSTREAM_PORT = 5,
    RIG_PCIE_DOWNSTREAM_PORT = 6,
    RIG_PCIE_TO_PCI_BRIDGE = 7,
    RIG_PCI_TO_PCIE_BRIDGE = 8,
    RIG_PCIE_INTEGRATED_ENDPOINT = 9, /* root complex integrated endpoint */
    RIG_PCIE_EVENT_COLLECTOR = 10,
};

/* ACS control bits that redirect peer requests in Linux's eyes (P2PDMA: pci_bridge_has_acs_redir).
 */
#define RIG_ACS_REQUEST_REDIRECT 0x04u
#define RIG_ACS_COMPLETION_REDIRECT 0x08u
#define RIG_ACS_EGRESS_CONTROL 0x20u
#define RIG_ACS_REDIRECTS 0x2cu

#define RIG_BAR_COUNT 6

/* Bits of struct rig_bar's `flags`. */
#define RIG_BAR_IO 0x1u
#define RIG_BAR_64BIT 0x2u
#define RIG_BAR_PREFETCHABLE 0x4u
#define RIG_BAR_VIRTUAL                                                                            \
    0x8u /* a virtual function's BAR: its register reads zero, the physical function places it */

/* One BAR. `flags` absent: there is no such BAR, nor is the upper half of a 64-bit BAR one. The bus
   address is what the register holds and what peers use; the CPU address is where the processor
   sees it; they differ by a host bridge's window offset on some machines. An address that is absent
   is known to be unassigned. */
struct rig_bar {
    struct rig_fact flags; /* RIG_BAR_... */
    struct rig_fact bus;   /* bus address; absent: unassigned */
    struct rig_fact cpu;   /* CPU physical address; absent: unassigned */
    struct rig_fact size;  /* bytes, a power of two */
    struct rig_fact
        resizable; /* bit n: can be 2^(20+n) bytes (Resizable BAR); absent: cannot be resized */
};

/* A bridge's window; absent base: closed. Bounds are inclusive, as the registers have them: bus
 * addresses. */
struct rig_window {
    struct rig_fact base;
    struct rig_fact limit;
};

/* How an IOMMU treats a function's requests. */
enum rig_iommu {
    RIG_IOMMU_NONE,      /* no IOMMU on the way */
    RIG_IOMMU_IDENTITY,  /* there is one, and it passes addresses through */
    RIG_IOMMU_TRANSLATE, /* it translates (group types DMA and DMA-FQ), or blocks */
};

/* One PCI function and what is known of it. Indexes are into the topology; -1 is none. */
struct rig_function {
    struct rig_bdf bdf;
    const char *name;  /* its device's name as the source or pci.ids has it, or NULL; may hold
                          control characters */
    const char *alias; /* gpu0, nic0, nvme0 in bus order, or NULL */
    bool gpu; /* a GPU: display or accelerator with a prefetchable memory BAR, or named as one */
    bool gpu_unknown; /* whether it is one is not known (a tree shows no classes); gpu is false */
    bool gpu_named;   /* the caller or the capture named it as a GPU */

    struct rig_fact vendor, device;                     /* 16 bits; assumed when found by name */
    struct rig_fact subsystem_vendor, subsystem_device; /* 16 bits */
    struct rig_fact class_code;  /* 24 bits: base class, sub-class, interface */
    struct rig_fact revision;    /* 8 bits */
    struct rig_fact header_type; /* 0 endpoint, 1 bridge, 2 CardBus bridge */
    struct rig_fact command;     /* command register, 16 bits; a source may know some bits only */
    uint16_t command_mask;       /* which bits of `command` are meant */
    struct rig_fact
        config_bytes; /* how much configuration space the source read: 0, 64, 256, 4096 */

    struct rig_fact pcie_type; /* enum rig_pcie_type; absent: conventional PCI */
    struct rig_fact link_speed,
        link_width; /* now: speed in units of 100 MT/s (25, 50, 80, 160, 320, 640); lanes */
    struct rig_fact max_speed, max_width; /* what its link capability allows */

    struct rig_fact acs_capability, acs_control; /* words; absent: no ACS capability */
    struct rig_fact pasid_or_ats;                /* 1: an ATS capability exists; absent: none */

    int parent; /* the bridge above (a virtual function's: its physical function's); -1 at a root
                   bus or unknown */
    struct rig_fact parent_known; /* known: `parent` is right (-1 = on a root bus); unknown: the
                                     source does not show what is above */
    int host_bridge;              /* index of its host bridge, or -1 when unknown */
    int physical;                 /* a virtual function's physical function, or -1 */
    struct rig_fact virtual_of;   /* absent: it is no virtual function; known: it is one (of
                                     `physical`); unknown: it may be one */

    struct rig_fact primary, secondary, subordinate; /* a bridge's bus numbers, 8 bits */
    struct rig_window io, memory, prefetchable;      /* a bridge's windows */
    struct rig_fact vf_count, vf_offset,
        vf_stride; /* SR-IOV: enabled virtual functions, first offset, stride; absent: no SR-IOV */

    struct rig_bar bar[RIG_BAR_COUNT];

    struct rig_fact iommu_group; /* number; absent: not behind an IOMMU */
    struct rig_text iommu_type;  /* the group's type as Linux writes it: DMA, DMA-FQ, identity,
                                    blocked, unmanaged, unknown */
    struct rig_fact iommu;       /* enum rig_iommu: worked out from the two above, or given */
    struct rig_fact numa_node;   /* absent: none (-1 in sysfs) */
    struct rig_text driver;      /* absent: unbound */
    struct rig_fact dma_mask_bits;

    struct rig_fact gpu_memory; /* bytes of the GPU's own memory; absent for what is no GPU */
    int memory_bar;             /* which BAR shows that memory, or -1 */
};

/* A host bridge: the root bus it makes and the function Linux's list looks at. */
struct rig_host_bridge {
    uint32_t domain;
    uint8_t bus;
    int first;                   /* the function of lowest number on its root bus, or -1 */
    struct rig_fact first_known; /* unknown: a dump that was cut may lack the first function */
    struct rig_fact numa_node;
};

/* What the source is, in the words of CLI and of a capture. */
enum rig_source {
    RIG_SOURCE_LIVE,
    RIG_SOURCE_CAPTURE,
    RIG_SOURCE_LSPCI_HEX,
    RIG_SOURCE_LSPCI_TEXT, /* with or without hex beside it */
    RIG_SOURCE_LSPCI_TREE,
    RIG_SOURCE_SYSFS,
};

/* Facts of the machine as a whole. */
struct rig_machine_facts {
    enum rig_source source;
    struct rig_text host; /* its name */
    struct rig_text
        cpu_vendor; /* as /proc/cpuinfo writes it: AuthenticAMD, GenuineIntel, HygonGenuine, ... */
    struct rig_fact cpu_family; /* decimal there, a number here; absent: not an x86 machine */
    struct rig_text cpu_name;
    struct rig_text kernel; /* uname -r */
    struct rig_text command_line;
    struct rig_fact p2pdma; /* CONFIG_PCI_P2PDMA: 1 on, 0 off */
    struct rig_fact page_size;
    struct rig_fact memory_base, memory_bytes; /* system memory of a twin */
    struct rig_fact remote;                    /* 1: reached through a transport */
};

/* rig_topology_load makes *out_topology the facts of the machine that `source` names: "live",
   "live:ROOTDIR", "-" (standard input), or a file or directory whose kind is found by content
   (rigmem(1), SOURCES). The caller frees it.

   RIG_INVALID    source is empty
   RIG_REFUSED    the machine or file may not be read; err names the privilege or the errno
   RIG_BAD_INPUT  it holds no machine, contradicts itself, or names two machines; err says where and
   which command to run instead RIG_FAILED     reading broke on the way, or memory ran out */
enum rig_status rig_topology_load(const char *source, struct rig_topology **out_topology,
                                  struct rig_error *err);

/* rig_topology_parse is the same for a text in memory: `bytes` bytes at `data`, which may hold
   anything; `name` stands for it in messages. The kinds are those of a file. */
enum rig_status rig_topology_parse(const char *name, const void *data, size_t bytes,
                                   struct rig_topology **out_topology, struct rig_error *err);

/* rig_topology_copy makes *out_topology a copy that shares nothing with t. RIG_FAILED: memory ran
 * out. */
enum rig_status rig_topology_copy(const struct rig_topology *t, struct rig_topology **out_topology,
                                  struct rig_error *err);

/* rig_topology_free frees t and all that came from it. NULL is allowed. */
void rig_topology_free(struct rig_topology *t);

/* rig_topology_count is the number of functions; they are numbered from 0 in bus order. */
int rig_topology_count(const struct rig_topology *t);

/* rig_topology_function is function number i, 0 <= i < rig_topology_count(t). It stays valid until
 * t changes or is freed. */
const struct rig_function *rig_topology_function(const struct rig_topology *t, int i);

/* rig_topology_host_bridges is the number of host bridges; rig_topology_host_bridge the i-th, in
 * order of domain and bus. */
int rig_topology_host_bridges(const struct rig_topology *t);
const struct rig_host_bridge *rig_topology_host_bridge(const struct rig_topology *t, int i);

/* rig_topology_machine is the facts of the machine as a whole. */
const struct rig_machine_facts *rig_topology_machine(const struct rig_topology *t);

/* rig_topology_find is the number of the function named by bus address or alias, or -1. */
int rig_topology_find(const struct rig_topology *t, const char *name);

/* rig_topology_find_bdf is the number of the function at bdf, or -1. */
int rig_topology_find_bdf(const struct rig_topology *t, struct rig_bdf bdf);

/* rig_topology_name_functions gives every function with known ids and no name the one that libpci's
   database of ids (pci.ids) has for it, for people to read: decisions and captures stay as they
   were. Without the database, or without libpci, functions stay without a name. Loading it takes
   longer than reading a machine of a few hundred functions. */
void rig_topology_name_functions(struct rig_topology *t);

/* rig_topology_warnings is how many things the reader found odd and went on; rig_topology_warning
 * is the i-th, one line. */
int rig_topology_warnings(const struct rig_topology *t);
const char *rig_topology_warning(const struct rig_topology *t, int i);

/* ---- facts from outside: what a source lacks, or what is to be tried. Each changes t and works
   out again what follows. `function` is a bus address or an alias. All return RIG_OK, RIG_INVALID
   (no such function, a value out of range, a rule broken: err says which; t is unchanged) or
   RIG_FAILED (memory). `from` is NULL for a fact that is simply given (known), or says what an
   assumed fact is assumed from. */
enum rig_status rig_topology_set_cpu(struct rig_topology *t, const char *vendor, unsigned family,
                                     const char *from, struct rig_error *err);
enum rig_status rig_topology_set_kernel(struct rig_topology *t, const char *release,
                                        struct rig_error *err);
enum rig_status rig_topology_set_p2pdma(struct rig_topology *t, bool on, const char *from,
                                        struct rig_error *err);
/* function "all": every function. */
enum rig_status rig_topology_set_iommu(struct rig_topology *t, const char *function,
                                       enum rig_iommu iommu, const char *from,
                                       struct rig_error *err);
/* A function that may be a GPU is one once its memory is given. */
enum rig_status rig_topology_set_gpu(struct rig_topology *t, const char *function,
                                     struct rig_error *err);
enum rig_status rig_topology_set_gpu_memory(struct rig_topology *t, const char *function,
                                            uint64_t bytes, struct rig_error *err);

/* rig_topology_link says that direct links join the GPU to the others of fabric `fabric`, any
   number, instead of those of an earlier call: they reach each other's memory whatever the bus
   carries. RIG_INVALID: no such function, or it is no GPU; t is unchanged. (memory-module: link,
   reaches) */
enum rig_status rig_topology_link(struct rig_topology *t, const char *function, unsigned fabric,
                                  struct rig_error *err);

/* rig_topology_set_tables says what the GPU's page tables are, in place of what its ids tell: they
   take addresses from the space that GPUs of `space` share ("amd", "nvidia", "intel", "plain"), and
   their entries hold `address_bits` bits of addresses outside the GPU. RIG_INVALID: no such
   function, it is no GPU, or no such space; t is unchanged. (memory-module: reaches) */
enum rig_status rig_topology_set_tables(struct rig_topology *t, const char *function,
                                        const char *space, unsigned address_bits,
                                        struct rig_error *err);

/* The ACS control word of a function; RIG_INVALID where it is known to have no ACS capability. */
enum rig_status rig_topology_set_acs(struct rig_topology *t, const char *function, uint16_t word,
                                     const char *from, struct rig_error *err);
/* The size of the function's memory BAR (its largest prefetchable one): a power of two from 1 MiB.
 */
enum rig_status rig_topology_set_bar(struct rig_topology *t, const char *function, uint64_t bytes,
                                     const char *from, struct rig_error *err);
/* The function, with all below it, sits under `port` instead: a bridge of t that is neither it nor
 * below it. */
enum rig_status rig_topology_set_parent(struct rig_topology *t, const char *function,
                                        const char *port, const char *from, struct rig_error *err);

/* rig_topology_capture makes *out_text the capture of t: the JSON of rigmem-machine(5),
   NUL-terminated, *out_bytes long without the NUL; the caller frees it with free(). With `redact`,
   names, serial numbers and addresses that identify the owner are left out and BAR addresses are
   moved, keeping what reach depends on. RIG_FAILED: memory ran out. */
enum rig_status rig_topology_capture(const struct rig_topology *t, bool redact, char **out_text,
                                     size_t *out_bytes, struct rig_error *err);

/* ---------- Linux's p2pdma decision */

/* A rule set: what one range of kernels decides by. Opaque, constant, never freed. */
struct rig_rules;

/* rig_rules_count and rig_rules_at enumerate the rule sets, oldest first; the last is the newest.
 */
int rig_rules_count(void);
const struct rig_rules *rig_rules_at(int i);

/* rig_rules_name is the set's name: the first kernel version it is for, such as "6.1"; the newest
 * set's is "7.2". */
const char *rig_rules_name(const struct rig_rules *rules);

/* rig_rules_for is the rule set of the kernel release given ("6.1.0-18-amd64", "5.10"), or NULL if
   it does not begin with a version or is older than the oldest set. NULL release: the newest set.
 */
const struct rig_rules *rig_rules_for(const char *release);

/* rig_rules_default is the set for t's own kernel, else the newest. *out_from, if not NULL, says
 * why that one. */
const struct rig_rules *rig_rules_default(const struct rig_topology *t, const char **out_from);

/* Verdicts of p2pdma, as bits, so that a set of them says what the facts leave open. */
enum rig_verdict {
    RIG_BUS_ADDR = 1,         /* a bridge above both turns the request around */
    RIG_THRU_HOST_BRIDGE = 2, /* it goes up to the root complex, which carries it */
    RIG_NOT_SUPPORTED = 4,
};

/* Three-valued answers. */
enum rig_answer {
    RIG_ANSWER_NO,
    RIG_ANSWER_YES,
    RIG_ANSWER_UNKNOWN,
};

/* The names people know for paths (nvidia-smi topo -m). */
enum rig_path {
    RIG_PATH_UNKNOWN,
    RIG_PATH_SELF,
    RIG_PATH_PIX,  /* at most one switch or bridge between them */
    RIG_PATH_PXB,  /* several, but no host bridge */
    RIG_PATH_PHB,  /* through one host bridge */
    RIG_PATH_NODE, /* through two host bridges of one NUMA node */
    RIG_PATH_SYS,  /* across NUMA nodes */
};

/* rig_path_name is "PIX" and so on, "X" for one function, "?" for unknown. */
const char *rig_path_name(enum rig_path path);

/* What a host bridge's list says of it. */
enum rig_listed {
    RIG_LISTED_NO,
    RIG_LISTED_ANY,  /* also across host bridges */
    RIG_LISTED_SAME, /* only for two functions under this one */
    RIG_LISTED_NONE, /* no representative function: not listed */
    RIG_LISTED_UNKNOWN,
};

/* A host bridge in a decision. */
struct rig_bridge_answer {
    int host_bridge;    /* index, or -1 when it is not known which */
    int representative; /* function number, or -1 */
    enum rig_listed listed;
    struct rig_fact vendor, device; /* of the representative */
    char entry[16]; /* the list's entry that matched, "8086:09a2" or "1ae0:*", or empty */
};

/* Linux's decision for one pair. */
struct rig_p2pdma {
    unsigned possible; /* set of enum rig_verdict; one bit: decided */
    int distance; /* steps, as the kernel counts them; -1 when unknown. Kept also when not supported
                   */
    int common;   /* the first bridge above both (or the function itself), or -1 */
    enum rig_answer has_common; /* unknown: what is above one of them is not in the source */
    int *redirecting; /* functions of the path whose ACS control redirects, provider's path first,
                         then client's */
    int redirecting_count;
    int *unread; /* functions of the path whose ACS control is unknown */
    int unread_count;
    enum rig_answer redirects; /* does any function on the path redirect */
    enum rig_answer cpu_zen;   /* is the CPU AMD's from Zen on; no on machines that are not x86 */
    enum rig_answer host_carries;       /* the host-bridge question */
    struct rig_bridge_answer bridge[2]; /* the provider's, the client's */
};

/* rig_p2pdma_decide makes *out_decision Linux's decision for requests of function `client` to
   memory of function `provider`, by `rules`. Free it with rig_p2pdma_free. RIG_INVALID: a number
   out of range. RIG_FAILED: memory ran out. (Linux: drivers/pci/p2pdma.c, calc_map_type_and_dist)
 */
enum rig_status rig_p2pdma_decide(const struct rig_topology *t, const struct rig_rules *rules,
                                  int provider, int client, struct rig_p2pdma *out_decision,
                                  struct rig_error *err);
void rig_p2pdma_free(struct rig_p2pdma *decision);

/* rig_p2pdma_distance is what the kernel's pci_p2pdma_distance_many answers for several clients:
   the sum of the distances, or -1 if any is not supported or there is no client.
   *out_status_unknown, if not NULL, is set when the facts do not decide. */
int rig_p2pdma_distance(const struct rig_topology *t, const struct rig_rules *rules, int provider,
                        const int *clients, int count, bool *out_unknown);

/* ---------- reach */

/* Gates: conditions of reach, and the reasons that are printed for them. The names are
 * rig_gate_name's. */
enum rig_gate_token {
    RIG_GATE_SELF,
    RIG_GATE_OTHER_MACHINE,
    RIG_GATE_REMOTE_MACHINE,
    RIG_GATE_OTHER_SPACE,
    RIG_GATE_LINK,
    RIG_GATE_IOMMU_TRANSLATES,
    RIG_GATE_BAR_UNASSIGNED,
    RIG_GATE_BAR_SMALL,
    RIG_GATE_BAR_ABOVE_MASK,
    RIG_GATE_SAME_BRIDGE,
    RIG_GATE_ACS_REDIRECT,
    RIG_GATE_ACS_UNREADABLE,
    RIG_GATE_CPU_AMD_ZEN,
    RIG_GATE_BRIDGE_LISTED,
    RIG_GATE_BRIDGE_UNLISTED,
    RIG_GATE_BRIDGE_SAME_ONLY,
    RIG_GATE_NO_REPRESENTATIVE,
    RIG_GATE_P2PDMA_OFF,
    RIG_GATE_COUNT,
};

/* rig_gate_name is the stable token of a gate: "iommu-translates", "bar-small", ... */
const char *rig_gate_name(enum rig_gate_token gate);

/* One gate of a pair. */
struct rig_gate {
    enum rig_gate_token gate;
    enum rig_answer open; /* yes: it lets the pair through; no: closed; unknown */
    bool decides;  /* it is one of those the answer hangs on (a closed gate that another way goes
                      around does not) */
    char why[320]; /* one line; may hold text of the source */
};

#define RIG_GATES_MAX 24

/* A fact that decided by assumption, or that is missing. */
struct rig_note {
    char field[64];
    char value[96]; /* of an assumed fact */
    char why[192];  /* from what it is assumed, or why it is unknown and how to give it */
};

#define RIG_NOTES_MAX 12

/* The whole answer for one pair. */
struct rig_reach {
    int from, to; /* `from` issues the requests, `to` owns the memory */
    enum rig_answer
        answer; /* this library's: does map_peer, or bus for a client that is no GPU, carry it */
    int gate;   /* enum rig_gate_token of the first closed gate that decides, or -1 */
    struct rig_gate gates[RIG_GATES_MAX];
    int gate_count;
    struct rig_p2pdma p2pdma; /* the kernel's, apart from ours */
    enum rig_answer
        kernel; /* does this kernel's own p2pdma carry it: no also where it is compiled out */
    enum rig_path path;
    struct rig_fact slowest_speed,
        slowest_width; /* of the links on the path; as in struct rig_function */
    int slowest;       /* the function at the lower end of that link, or -1 */
    struct rig_note assumed[RIG_NOTES_MAX];
    int assumed_count;
    struct rig_note unknown[RIG_NOTES_MAX];
    int unknown_count;
    char possibilities[512]; /* for an unknown answer: "yes on AMD family 23 or later, else no";
                                empty otherwise */
};

/* rig_reach_pair makes *out_reach the answer to: do requests of function `from` reach the memory of
   function `to`? Free it with rig_reach_free. It takes nothing and changes nothing. RIG_INVALID: a
   number out of range; RIG_FAILED: memory ran out. (memory-module: reaches, bus) */
enum rig_status rig_reach_pair(const struct rig_topology *t, const struct rig_rules *rules,
                               int from, int to, struct rig_reach *out_reach,
                               struct rig_error *err);
void rig_reach_free(struct rig_reach *reach);

/* What a step of a remedy changes. */
enum rig_remedy_kind {
    RIG_REMEDY_IOMMU,  /* let requests pass the IOMMU untranslated */
    RIG_REMEDY_BAR,    /* a larger BAR, or an address for it */
    RIG_REMEDY_ACS,    /* clear ACS redirects */
    RIG_REMEDY_KERNEL, /* a kernel whose list holds the host bridges */
    RIG_REMEDY_MOVE,   /* a card in another slot */
};

/* One step of a remedy. It was applied, after those before it, to a copy of the topology and
 * decided again. */
struct rig_remedy {
    enum rig_remedy_kind kind;
    char text[640];         /* what to do, one sentence */
    char command[1024];     /* commands to type, one a line; or empty */
    char parameter[1024];   /* a kernel parameter that does the same at boot; or empty */
    char warning[320];      /* what it costs; or empty */
    enum rig_answer answer; /* what this step and those before it lead to */
    unsigned possible;      /* and p2pdma's verdicts then */
};

#define RIG_REMEDY_STEPS 5

/* rig_reach_remedy makes out_steps (room for RIG_REMEDY_STEPS) the least list of steps found after
   which the answer for requests of `from` to memory of `to` is no longer no (what is then still
   open are facts that the source lacks), and *out_count its length: 0 where nothing that can be set
   or moved helps. Where the answer is not no, but ports redirect, the one step is what keeps
   requests below the common bridge, if that is so. Advice is about settings that exist; it never is
   to change the kernel's list. RIG_INVALID: a number out of range; RIG_FAILED: memory ran out. */
enum rig_status rig_reach_remedy(const struct rig_topology *t, const struct rig_rules *rules,
                                 int from, int to, struct rig_remedy out_steps[RIG_REMEDY_STEPS],
                                 int *out_count, struct rig_error *err);

/* A cell of the all-pairs table: what rig_reach_pair answers, in one byte: bits 1:0 the answer, 4:2
 * the set of verdicts, 7:5 the path. */
#define RIG_CELL_ANSWER(cell) ((enum rig_answer)((cell)&3u))   /* enum rig_answer */
#define RIG_CELL_POSSIBLE(cell) (((unsigned)(cell) >> 2) & 7u) /* set of enum rig_verdict */
#define RIG_CELL_PATH(cell) ((enum rig_path)(((unsigned)(cell) >> 5) & 7u)) /* enum rig_path */

/* All pairs at once, by depth-first spans instead of pair by pair. Opaque. The topology must stay
   as it is while the table is used, and one thread at a time may use a table. */
struct rig_reach_table;

/* rig_reach_table_make prepares the answers of all pairs of t's functions by `rules`. RIG_FAILED:
 * memory ran out. */
enum rig_status rig_reach_table_make(const struct rig_topology *t, const struct rig_rules *rules,
                                     struct rig_reach_table **out_table, struct rig_error *err);
void rig_reach_table_free(struct rig_reach_table *table);

/* rig_reach_table_order is t's function numbers depth first, each bridge before what is below it:
   rig_topology_count(t) of them, owned by the table. */
const int *rig_reach_table_order(const struct rig_reach_table *table);

/* rig_reach_table_row writes, for k from 0 to count-1, the cell of requests of `from` to the memory
   of targets[k] into out_cells[k], and p2pdma's distance (0xffff: unknown) into out_distances[k]
   unless that is NULL. Each cell equals what rig_reach_pair answers. With targets NULL it writes
   all, in rig_reach_table_order, which is fastest; count is then ignored. */
void rig_reach_table_row(struct rig_reach_table *table, int from, const int *targets, int count,
                         uint8_t *out_cells, uint16_t *out_distances);

/* ---------- machines: functions that are driven

   A machine is open from rig_twin_open on, by one process. Its functions are taken one by one; a
   device is a taken function. Different devices may be used by different threads at once; the calls
   on one device are one thread's at a time. */

/* An open machine, and a function of it that was taken. Opaque. */
struct rig_machine;
struct rig_device;

/* A bus address: what a function puts on the bus to reach memory. A physical address, or an address
   of the function's own where an IOMMU translates. */
typedef uint64_t rig_bus_address;

struct rig_bus_range {
    rig_bus_address address;
    uint64_t bytes;
};

/* An address of a GPU's work, which the GPU's page tables translate. Of host memory it is the
 * process's address too. */
typedef uint64_t rig_gpu_address;

/* How a function's requests are addressed. */
enum rig_addressing {
    RIG_PHYSICAL, /* by physical addresses */
    RIG_IOMMU,    /* by addresses that an IOMMU translates */
};

/* A taken function's life. */
enum rig_life {
    RIG_LIFE_TAKEN,
    RIG_LIFE_RELEASING, /* its release is not finished: a request that is under way ends first, or
                           what the function held did not all go back yet */
    RIG_LIFE_RELEASED,  /* it may still master the bus: it holds what it held */
    RIG_LIFE_KEPT, /* it masters the bus no more, and stays taken for those who reach its memory */
    RIG_LIFE_STOPPED, /* it was given back */
};

/* rig_life_name is "taken", "releasing", "released", "kept-taken" or "stopped". */
const char *rig_life_name(enum rig_life life);

/* rig_twin_open makes *out_machine a twin of the machine that t describes: simulated functions,
   memory, fabric and GPUs that behave as the facts say. Facts that t lacks are what firmware would
   set: bridges forward, BARs without an address get one, system memory is 8 GiB from 4 GiB up, in
   pages of 4 KiB. t is copied. Its memory lies in sparse files of `directory`, which exists, or in
   this process's memory where that is NULL; they hold zeros at first. The same calls give the same
   answers, in any process. Close it with rig_machine_close.
   RIG_REFUSED: the directory or a file of it cannot be used, or the facts give system memory that
   no twin can have. RIG_FAILED: memory ran out, I/O. */
enum rig_status rig_twin_open(const struct rig_topology *t, const char *directory,
                              struct rig_machine **out_machine, struct rig_error *err);

/* rig_machine_close ends m: it turns every function's bus mastering off, then gives all back, and
   frees m and its devices. What still uses m must be gone: regions' memories, views. Where a
   function cannot be shown to master no more, RIG_FAILED names it; m is closed all the same. */
enum rig_status rig_machine_close(struct rig_machine *take_machine, struct rig_error *err);

/* rig_machine_topology is the topology of m: t with what the twin's firmware added. */
const struct rig_topology *rig_machine_topology(const struct rig_machine *m);

/* rig_device_take makes *out_device the function named by bus address or alias, taken for this
   machine's session, exclusively, with bus mastering off. A release of it that can be finished is
   finished first. The device stays valid until m is closed.
   RIG_INVALID  m has no such function
   RIG_REFUSED  it is a bridge, a driver or a session has it, this one included, it may still master
                the bus after its release, or it is kept taken: err says who and what to do
   RIG_FAILED   it reads all ones; memory ran out */
enum rig_status rig_device_take(struct rig_machine *m, const char *function,
                                struct rig_device **out_device, struct rig_error *err);

/* rig_device_set_master turns the function's bus mastering on or off and reads it back.
   RIG_INVALID: the function is not taken. RIG_FAILED: it did not read back so. */
enum rig_status rig_device_set_master(struct rig_device *dev, bool on, struct rig_error *err);

/* rig_device_release turns the function's bus mastering off, reads it back, and gives back all that
   the function holds: at once, or when a request that is under way ends, or when nobody keeps it.
   Releasing again does only what an earlier release did not. RIG_FAILED: it may still master the
   bus or the give-back was cut short; what is left is left to the next release. */
enum rig_status rig_device_release(struct rig_device *dev, struct rig_error *err);

/* rig_device_life is where the function is in its life. */
enum rig_life rig_device_life(const struct rig_device *dev);

/* rig_twin_read and rig_twin_write have function `function` of a twin, taken or not, read `bytes`
   bytes at bus address `at` into data, or write them from it, hop by hop through the fabric.
   RIG_REFUSED: the fabric does not carry it; err->what is the function or host bridge where it
   ended and err->why the reason; what was read there is all ones, what was written before it stays.
   RIG_INVALID: m is no twin or has no such function. RIG_FAILED: the function or the machine is
   gone, I/O. */
enum rig_status rig_twin_read(struct rig_machine *m, const char *function, rig_bus_address at,
                              void *out_data, size_t bytes, struct rig_error *err);
enum rig_status rig_twin_write(struct rig_machine *m, const char *function, rig_bus_address at,
                               const void *data, size_t bytes, struct rig_error *err);

/* rig_twin_gpu_read and rig_twin_gpu_write have the GPU's engine do the same at the GPU's own
   addresses, through its translation cache and its page tables as they lie in its memory.
   RIG_REFUSED: a table, or the fabric behind it, does not carry it; err names the level or hop. */
enum rig_status rig_twin_gpu_read(struct rig_machine *m, const char *gpu, rig_gpu_address at,
                                  void *out_data, size_t bytes, struct rig_error *err);
enum rig_status rig_twin_gpu_write(struct rig_machine *m, const char *gpu, rig_gpu_address at,
                                   const void *data, size_t bytes, struct rig_error *err);

/* rig_twin_fault makes the twin behave badly, as `spec` says: `[GPU:]flush=late|never|ok` (of one
   GPU, or of all), `gone=FUNCTION`, `failed`; or armed, for the operations that follow: `refuse=N`,
   `noroom=N`, `cut=N` at the N-th, counted from 1, each operation of the machine and each flush
   being one; `ok` disarms those. An operation that cannot end so (a free is never refused) does
   not. RIG_INVALID: m is no twin, or no such fault, function or number. */
enum rig_status rig_twin_fault(struct rig_machine *m, const char *spec, struct rig_error *err);

/* ---------- GPU memory

   The memory that GPUs of one machine address, placed by hand. A GPU's work addresses memory
   through the GPU's page tables, which this library writes into the GPU's own memory. It reaches
   its own memory, system memory that was allocated for it (at one address for the process and the
   GPU), memory of the process that it borrows, and another GPU's memory, through that GPU's memory
   BAR or over a link.

   What is always true:

   - Each rig_memory_alloc, rig_memory_map_host and rig_memory_map_peer makes a region, and
   rig_memory_free ends any region. Several regions may lie over one mapping; the last one's free
   ends the mapping.
   - What a GPU's regions take (GPU memory, addresses, system memory, pins) is held by the GPU's
   function, each thing from the step that takes it. Another GPU that maps it holds the addresses
   and a pin of its own, so memory goes back only when nobody reaches it, whichever frees first.
   - Nothing is given out again while a device may reach it: not after a free whose flush the GPU
   did not confirm, not while a peer maps it, not once a bus client was given it.
   - Everything goes back with the function: when it was released and is known to master the bus no
   more.
   - After RIG_INVALID nothing was taken or changed. After RIG_NO_ROOM and RIG_REFUSED nothing that
   the call took is still held. After RIG_FAILED the request was cut short: what it took is the
   function's until its give-back.

   The calls that name one struct rig_memory are one thread's at a time; those on different GPUs'
   memory may run at once, whatever they map of each other. Questions about regions may come from
   any thread. */

/* The GPUs of one machine, as far as they share something: address spaces and links. There is one
   for a machine. Opaque. */
struct rig_gpus;

/* The memory of one GPU. Opaque; it stays valid, also after its release, until rig_gpus_free. */
struct rig_memory;

/* What rig_gpus_create may be told. All zero: the default. */
struct rig_gpus_options {
    rig_gpu_address space_base; /* where the first vendor's space begins, the others' after it, a
                                   multiple of 1 GiB; 0: 0x200000000000 (AMD's, then NVIDIA's,
                                   Intel's, the plain format's) */
    uint64_t space_bytes;       /* of each, a multiple of 1 GiB; 0: 16 TiB, the plain one's 4 TiB */
    bool unreserved; /* the process's addresses are not reserved, and host memory is misuse */
};

/* rig_gpus_create makes *out_gpus the GPUs of m, none of which has memory yet. A vendor's addresses
   are reserved when its first GPU's memory is created. `options` may be NULL. Free it with
   rig_gpus_free, before m is closed.
   RIG_INVALID  the spaces are not multiples of 1 GiB or end above the 47 bits a process has
   RIG_FAILED   memory ran out */
enum rig_status rig_gpus_create(struct rig_machine *m, const struct rig_gpus_options *options,
                                struct rig_gpus **out_gpus, struct rig_error *err);

/* rig_gpus_free frees the process's memory of all GPUs' memories, their regions included, and
   touches no device: what functions hold stays theirs until rig_machine_close. NULL is allowed. */
void rig_gpus_free(struct rig_gpus *take_gpus);

/* rig_gpus_finish_releases finishes every release of the machine that can be finished now. */
void rig_gpus_finish_releases(struct rig_gpus *gpus);

/* rig_gpus_count and rig_gpus_memory enumerate the memories in the order in which they were
   created, also those whose functions were given back. */
size_t rig_gpus_count(const struct rig_gpus *gpus);
struct rig_memory *rig_gpus_memory(const struct rig_gpus *gpus, size_t i);

/* A GPU's place in a fabric of GPUs that reach each other's memory over direct links. Two GPUs of
   one machine are joined iff their fabrics are equal. */
struct rig_link {
    unsigned fabric; /* which one */
    unsigned place;  /* the GPU's number in it, by which the others' entries name it */
};

/* rig_gpus_link makes out_links[i] the place of the GPU functions[i] (a bus address or alias) in
   fabric number `fabric`, for rig_memory_create of each. On a twin it puts the links there.
   RIG_INVALID  no such function or no GPU, the same twice, fewer than 2 or more than 256, or one
   has memory already RIG_REFUSED  a twin that has another fabric: it can have one RIG_FAILED memory
   ran out */
enum rig_status rig_gpus_link(struct rig_gpus *gpus, unsigned fabric, const char *const *functions,
                              int count, struct rig_link *out_links, struct rig_error *err);

/* What rig_memory_create may be told. */
struct rig_memory_options {
    const char *format; /* of the page tables, "amd-gfx10"; NULL: by the function's ids, on a twin
                           the plain one where they do not tell */
    bool other_bar;     /* `bar` shows the memory, not the BAR that the topology says */
    int bar;            /* 0 to 5 */
    uint64_t bytes;     /* of the GPU's memory; 0: as the GPU or the topology says */
    bool combining;     /* the process's windows on the BAR combine writes; else uncached */
    const struct rig_link *link; /* its place in a fabric; NULL: none */
};

/* rig_memory_create makes *out_memory the memory of the GPU `dev`, which was taken: an empty page
   table with its root in the GPU's memory, and the GPU told of it where this library can. From then
   on system memory for the function lies at addresses that the format's entries hold. `options` may
   be NULL: a GPU as its ids and the topology say, uncached, without a link.
   RIG_INVALID  dev is not taken or has a memory already; it has no such memory BAR; no such format;
                bytes is no multiple of 4 KiB, less than 1 MiB or more than the format's entries can
                address; the format cannot name the link's place, or another GPU has it
   RIG_UNKNOWN  its format, the size of its memory, or what its BAR shows, is not known: err says
                how to give it
   RIG_REFUSED  the machine refuses a window on the BAR, or the vendor's addresses are in use
   RIG_NO_ROOM  the memory, or the part the BAR shows, has no page for the root table
   RIG_FAILED   the function left the bus, a step was cut short, memory ran out
   (memory-module: create) */
enum rig_status rig_memory_create(struct rig_gpus *gpus, struct rig_device *dev,
                                  const struct rig_memory_options *options,
                                  struct rig_memory **out_memory, struct rig_error *err);

/* rig_memory_release releases the GPU's function, then drops its page tables and ends its mappings
   of other GPUs' memory as their frees would, so that those GPUs' functions go back once released.
   While another GPU maps its memory, or a bus client was given some, the function stays taken.
   Releasing again does only what an earlier release did not.
   RIG_FAILED: the function may still master the bus, or a step was cut short; the rest is left to
   the next release. (memory-module: release) */
enum rig_status rig_memory_release(struct rig_memory *m, struct rig_error *err);

/* What a memory is, for people and programs to look at. */
struct rig_memory_info {
    struct rig_device *device; /* NULL once it was given back in an earlier process */
    struct rig_bdf function;
    int number; /* the function's number in the topology */
    enum rig_life life;
    const char *format, *variant; /* "nv-mmu-v2", "turing"; variant may be empty */
    const char *space;            /* the vendor whose space it is: "amd" */
    unsigned address_bits;        /* that its entries hold of memory outside the GPU */
    rig_gpu_address space_base;
    uint64_t space_bytes;
    uint64_t bytes; /* of the GPU's memory */
    int bar;
    uint64_t bar_bytes;
    bool linked;
    struct rig_link link;
    uint64_t free_bytes; /* of the main pool; 0 once it was given back */
    uint64_t root;       /* offset of the root table in the GPU's memory */
    bool flushes;        /* this library can ask the GPU for a flush */
    bool reserved;       /* a bus client was given some of its memory */
};

/* rig_memory_info makes *out_info what m is now. */
void rig_memory_info(struct rig_memory *m, struct rig_memory_info *out_info);

/* The facts that decide whose GPU memory a GPU maps, the same at every open of the GPU: a value, to
   compare (rig_reach_facts_equal), copy, and keep past the GPU's release. */
struct rig_reach_facts {
    uint64_t machine; /* which open machine: equal iff it is the same */
    int function;     /* its number in that machine's topology */
    bool remote;      /* the machine is reached through a transport */
    enum rig_addressing addressing;
    rig_gpu_address space; /* where its space begins: equal iff it is the same */
    bool linked;
    struct rig_link link;
    uint64_t memory_bytes, bar_bytes;
    bool bar_assigned; /* the memory BAR has a bus address */
};

/* rig_memory_reach is the facts of m's GPU. (memory-module: reach) */
struct rig_reach_facts rig_memory_reach(const struct rig_memory *m);

/* rig_reach_facts_equal is true iff they are the same facts. */
bool rig_reach_facts_equal(const struct rig_reach_facts *a, const struct rig_reach_facts *b);

/* rig_reaches is true iff rig_memory_map_peer on the GPU of `by` maps GPU memory of the GPU of
   `to`, given room: another GPU of the same machine and space, and either linked to it, or neither
   behind an IOMMU, all of its memory in its BAR, the machine not remote, and the bus known to carry
   the requests as Linux's p2pdma decides for t, the machine's topology, by its kernel's rules.
   False for two facts of one GPU. It takes no lock. (memory-module: reaches) */
bool rig_reaches(const struct rig_topology *t, const struct rig_reach_facts *by,
                 const struct rig_reach_facts *to);

/* ---- regions */

/* A region: a value that names it. Never an address, and never used again for another region, so a
   region that was freed is known as such as long as its memory lives. */
struct rig_region {
    struct rig_memory *memory; /* of the GPU that addresses it */
    uint64_t id;               /* unique among the regions of a struct rig_gpus; never 0 */
};

/* Where new memory is and who reaches it. */
enum rig_kind {
    RIG_KIND_GPU,  /* the GPU's memory, which the process does not reach */
    RIG_KIND_BAR,  /* the GPU's memory, one block that the process reaches through the memory BAR */
    RIG_KIND_HOST, /* system memory, which the GPU reaches snooped and past its caches */
};

/* rig_kind_name is "gpu", "bar" or "host". */
const char *rig_kind_name(enum rig_kind kind);

/* rig_memory_alloc makes *out_region a new region of `bytes` bytes of `kind` on m's GPU. Host
   memory is rounded up to the machine's page, holds zeros, and lies at one address for the process
   and the GPU. GPU memory is rounded up to 4 KiB, or to 2 MiB from 8 MiB on, and holds what it
   held. With `uncached` the GPU bypasses its caches for it; host memory is always uncached.
   RIG_INVALID  bytes is 0, m's function was released, or the process's addresses were not reserved
   RIG_NO_ROOM  the GPU's memory, the space, a page table or the machine's memory has no room, or
   the BAR reaches no free block for RIG_KIND_BAR RIG_REFUSED  the machine refuses system memory or
   a window on the BAR; err names what is missing RIG_FAILED   cut short (memory-module: alloc) */
enum rig_status rig_memory_alloc(struct rig_memory *m, enum rig_kind kind, uint64_t bytes,
                                 bool uncached, struct rig_region *out_region,
                                 struct rig_error *err);

/* rig_memory_map_host makes *out_region the `bytes` bytes of the process at `address`, pinned and
   mapped for m's GPU, snooped and uncached, at addresses of its space. The region's address is
   where the GPU reaches the first of them. Each call maps and pins anew. RIG_INVALID  bytes is 0,
   the range wraps, or m's function was released RIG_NO_ROOM  no room to pin, in the space or in a
   page table RIG_REFUSED  the pages cannot be pinned, such as the process's own for a GPU that is
   addressed physically; err says why RIG_FAILED   cut short (memory-module: map_host) */
enum rig_status rig_memory_map_host(struct rig_memory *m, const void *address, uint64_t bytes,
                                    struct rig_region *out_region, struct rig_error *err);

/* rig_memory_map_peer makes *out_region the memory of `region`, of any GPU, m's own included,
   mapped for m's GPU at the address it has there; of a region that map_peer gave, the memory of the
   region that it maps. GPU memory is reached by its owner's BAR or a link, system memory at its
   pages, which are pinned for m's GPU. Where m's GPU maps that memory already, *out_region is a new
   region over the same mapping, and nothing is written or pinned. A mapping that an earlier call
   left when it was cut short is taken over where it is whole, else cleared and written again.
   RIG_INVALID  region, or the one it maps, was freed; m's function was released; m's GPU maps other
                memory at those addresses
   RIG_NO_ROOM  a page table, or the IOMMU's for the pin, has no room
   RIG_REFUSED  other machines, other spaces, GPU memory that is not reached (rig_reaches) or whose
                addresses m's entries cannot hold, the owner was released, the pages cannot be
                pinned; err names them
   RIG_FAILED   cut short
   (memory-module: map_peer) */
enum rig_status rig_memory_map_peer(struct rig_memory *m, struct rig_region region,
                                    struct rig_region *out_region, struct rig_error *err);

/* rig_memory_free ends the region. With the last region over a mapping it clears the mapping, asks
   for a flush, and gives back the memory, or the pin, and the addresses, unless something may still
   reach them: then they are kept (struct rig_region_info, kept) until that ends, or until the
   function is given back. Memory that another GPU maps goes back at the first rig_memory_alloc,
   map_host, map_peer, free or release of m after the last of its regions ended. After the
   function's release no table is written and nothing goes back twice. Never refused. RIG_INVALID
   region is not m's, or was freed RIG_FAILED   cut short: the region is freed, and what it held is
   kept until the give-back (memory-module: free) */
enum rig_status rig_memory_free(struct rig_memory *m, struct rig_region region,
                                struct rig_error *err);

/* rig_memory_bus makes *out_ranges where the function at bus address `client` reaches the region's
   memory by DMA: multiples of 4 KiB in order from its first byte, *out_count of them, which the
   caller frees. From then on, until the machine is closed, that memory and m's GPU are reserved for
   the client, whatever is freed or released. Asking again reserves nothing more.
   RIG_INVALID  region is none that rig_memory_alloc gave m, or was freed; m's function was released
   RIG_REFUSED  client is no bus address or no function of the machine; the machine is remote; the
                GPU or the client is behind an IOMMU that translates; for GPU memory, the BAR does
                not show all of it or the bus does not carry the requests. Nothing is reserved
   RIG_FAILED   memory ran out; nothing is reserved
   (memory-module: bus) */
enum rig_status rig_memory_bus(struct rig_memory *m, struct rig_region region, const char *client,
                               struct rig_bus_range **out_ranges, size_t *out_count,
                               struct rig_error *err);

/* rig_region_address is the GPU address of the region's first byte, 0 where it was freed and
   nothing of it is kept. (memory-module: address) */
rig_gpu_address rig_region_address(struct rig_region region);

/* What memory a region's bytes are in. */
enum rig_target_kind {
    RIG_TARGET_GPU,    /* the GPU's own; addresses are offsets in it */
    RIG_TARGET_SYSTEM, /* system memory; addresses are bus addresses of the GPU */
    RIG_TARGET_PEER,   /* another GPU's; addresses are offsets in that one's memory */
};

/* rig_target_name is "gpu", "system" or "peer". */
const char *rig_target_name(enum rig_target_kind target);

/* Where a region's bytes are, in order from its first byte. */
struct rig_pages {
    enum rig_target_kind target;
    struct rig_bus_range *ranges; /* an address's meaning is the target's */
    size_t count;
};

/* rig_region_pages makes *out_pages where the bytes of the region are; free it with rig_pages_free.
   RIG_INVALID: it was freed. RIG_FAILED: memory ran out. (memory-module: pages) */
enum rig_status rig_region_pages(struct rig_region region, struct rig_pages *out_pages,
                                 struct rig_error *err);
void rig_pages_free(struct rig_pages *pages);

/* The process's window on a region's bytes. */
struct rig_host {
    void *memory; /* where the process sees the first byte, or NULL: only rig_region_read and
                     rig_region_write reach it */
    uint64_t bytes;
    const char *path; /* a file that other programs can map instead, or NULL; the machine's own */
    uint64_t offset;  /* of the first byte in it */
};

/* rig_region_host is true, and makes *out_host the process's window, iff there is one: on system
   memory that rig_memory_alloc gave, on RIG_KIND_BAR memory, on what rig_memory_map_host borrowed,
   and on what a region of rig_memory_map_peer maps, if that has one; none where the process cannot
   map memory that a saved session brought back. Windows go with the owner's give-back.
   (memory-module: host) */
bool rig_region_host(struct rig_region region, struct rig_host *out_host);

/* rig_region_read and rig_region_write move bytes through the process's window.
   RIG_INVALID: the region was freed, has no window, or the bytes are not within it. RIG_REFUSED:
   the process cannot map memory that a saved session brought back. RIG_FAILED: the GPU whose BAR it
   is left the bus, or that memory's file cannot be had. */
enum rig_status rig_region_read(struct rig_region region, uint64_t offset, void *out_data,
                                size_t bytes, struct rig_error *err);
enum rig_status rig_region_write(struct rig_region region, uint64_t offset, const void *data,
                                 size_t bytes, struct rig_error *err);

/* Where a region comes from. */
enum rig_origin {
    RIG_ORIGIN_ALLOCATED, /* rig_memory_alloc */
    RIG_ORIGIN_BORROWED,  /* rig_memory_map_host */
    RIG_ORIGIN_PEER,      /* rig_memory_map_peer */
};

/* rig_origin_name is "allocated", "borrowed" or "peer". */
const char *rig_origin_name(enum rig_origin origin);

/* A region, for people and programs to look at. */
struct rig_region_info {
    enum rig_origin origin;
    bool has_kind; /* false: borrowed memory, or a peer's mapping of such */
    enum rig_kind kind;
    uint64_t of; /* the region that a region of map_peer maps; else 0 */
    rig_gpu_address address;
    uint64_t bytes; /* as rounded; of borrowed memory those asked for */
    bool uncached;  /* the GPU bypasses its caches */
    enum rig_target_kind target;
    bool out;       /* it was not freed; else nothing, or not all, of it went back yet */
    char kept[192]; /* why, where not out: "0000:41:00.0 maps it", "reserved for 0000:81:00.0", "the
                       GPU did not confirm the flush", ... */
};

/* rig_region_info makes *out_info what the region is now. RIG_INVALID: it was freed and nothing of
   it is kept. */
enum rig_status rig_region_info(struct rig_region region, struct rig_region_info *out_info,
                                struct rig_error *err);

/* rig_gpus_next_region is true, and *out_region the region with the lowest id above `after` that is
   out or kept; false where there is none. Looking changes nothing. */
bool rig_gpus_next_region(const struct rig_gpus *gpus, uint64_t after,
                          struct rig_region *out_region);

/* rig_region_client is true, and *out_client the function that the region's memory is reserved for,
   the i-th from 0; false where there are no more. It tells of kept regions too. */
bool rig_region_client(struct rig_region region, size_t i, struct rig_bdf *out_client);

/* ---------- sessions

   A session is what the memory commands act on between one and the next: a machine, the functions
   it took, its GPUs' memory, and names for regions. It lives in a file (rigmem-state(5)), with a
   directory FILE.d of a twin's memory, FILE.intent and FILE.lock beside it, or in this process.

   Of a session on file each use is one transaction: rig_session_begin locks and loads it (but for
   a glance, which locks nothing and makes nothing), requests act, rig_session_commit writes it
   whole, rig_session_end lets go. Killed at any point, the next transaction finds the session as it
   was before or as it is after, and takes what a request that was cut short had begun as the
   specification says: held until its GPU is given back. SIGINT, SIGTERM, SIGHUP and SIGQUIT wait
   from begin to end. One thread uses a session. */

struct rig_session;

/* What a transaction is for. */
enum rig_session_use {
    RIG_SESSION_CHANGE, /* to change the session */
    RIG_SESSION_LOOK,   /* to look; it is not committed */
    RIG_SESSION_TRY,    /* to see what a change would do: on a copy, which is not committed */
    RIG_SESSION_GLANCE, /* to see what was last committed, without waiting for who changes it */
};

/* rig_session_begin makes *out_session the session of `path`, for one transaction: open, or not
   open where there is no such file, and then as it was never begun unless rig_session_start starts
   it. path NULL: a new session in this process, not open, for as many requests as there are.
   Releases that can finish are finished. Where the machine was started since the file was written,
   or nothing tells, the GPUs' tables are written again. To change, what a command that was killed
   left where no session is open is removed. Each of these that people should know of is a warning:
   rig_session_warning. End it with rig_session_end.
   RIG_REFUSED    the file, its directory or its lock could be another user's doing: not a regular
                  file of the user's or of root, more than one link, writable by others, below a
                  directory that others may change (sticky ones are allowed); or cannot be locked
   RIG_BAD_INPUT  the file is no session of this version, or breaks a rule; err says where
   RIG_FAILED     I/O, memory ran out */
enum rig_status rig_session_begin(const char *path, enum rig_session_use use,
                                  struct rig_session **out_session, struct rig_error *err);

/* rig_session_end lets go of the session: what was not committed is as if it had not been asked
   for, except that devices may have been written. A session in this process ends: every function is
   released. NULL is allowed. */
void rig_session_end(struct rig_session *take_session);

/* rig_session_commit writes the session, if anything changed: one fsync of the file, one of its
   directory. RIG_FAILED: the file is as it was; the next transaction finds what was begun. */
enum rig_status rig_session_commit(struct rig_session *s, struct rig_error *err);

/* rig_session_turn begins the next request of a session in this process. */
void rig_session_turn(struct rig_session *s);

bool rig_session_is_open(const struct rig_session *s);

/* rig_session_warning is the i-th thing that the loading found, or NULL: requests that were cut
   short, mapped files that are gone, another boot, what was left and removed, or cannot be. */
const char *rig_session_warning(const struct rig_session *s, size_t i);

/* rig_session_left is RIG_OK, or, with the reason, RIG_REFUSED or RIG_FAILED where a command that
   was killed as it opened or closed a session left what the loading could not remove. */
enum rig_status rig_session_left(const struct rig_session *s, struct rig_error *err);

/* rig_session_start makes a session that is not open one of a twin of t, which `source` named, with
   nothing taken. `options` may be NULL. RIG_INVALID: it is open, or on file and `source` is no
   UTF-8. RIG_REFUSED: its directory cannot
   be used. RIG_FAILED: I/O, memory ran out. */
enum rig_status rig_session_start(struct rig_session *s, const struct rig_topology *t,
                                  const char *source, const struct rig_gpus_options *options,
                                  struct rig_error *err);

/* Of an open session: its machine, its GPUs, the source that named the machine, and the machine's
   capture as it was when the session started (NUL-terminated, to be freed; NULL: memory). */
struct rig_machine *rig_session_machine(const struct rig_session *s);
struct rig_gpus *rig_session_gpus(const struct rig_session *s);
const char *rig_session_source(const struct rig_session *s);
char *rig_session_capture(const struct rig_session *s);

/* rig_session_take takes the GPU named by bus address or alias and creates its memory; master: bus
   mastering goes on then. After a failure the function is released.
   As rig_device_take and rig_memory_create. */
enum rig_status rig_session_take(struct rig_session *s, const char *gpu,
                                 const struct rig_memory_options *options, bool master,
                                 struct rig_memory **out_memory, struct rig_error *err);

/* rig_session_link joins GPUs by links before they are taken: rig_gpus_link. */
enum rig_status rig_session_link(struct rig_session *s, unsigned fabric,
                                 const char *const *functions, int count,
                                 struct rig_link *out_links, struct rig_error *err);

/* rig_session_release releases a GPU: rig_memory_release. */
enum rig_status rig_session_release(struct rig_session *s, struct rig_memory *m,
                                    struct rig_error *err);

/* rig_session_close releases every GPU, gives all back, and removes the session's files; it is not
   open then. In a trial nothing is removed.
   RIG_REFUSED  a function that was given memory by `bus` may still master the bus, unless `force`;
                nothing is released
   RIG_FAILED   and it is still open: a GPU could not be released, unless `force`, or the session's
                file could not be removed; the rest is released. Or it is not: a function may still
                master the bus, unless `force`, or not all that stood beside its file could be
                removed, which the next transaction that changes tries again */
enum rig_status rig_session_close(struct rig_session *s, bool force, struct rig_error *err);

/* rig_session_gpu is the memory of the GPU named by bus address or alias that the session has.
   RIG_INVALID: no such function, or the session does not have it. */
enum rig_status rig_session_gpu(const struct rig_session *s, const char *name,
                                struct rig_memory **out_memory, struct rig_error *err);

/* rig_session_region is the region that is out and is called `name`: r1, a name given to it, or
   @last. RIG_INVALID: none is, or it was freed. */
enum rig_status rig_session_region(const struct rig_session *s, const char *name,
                                   struct rig_region *out_region, struct rig_error *err);

/* rig_session_region_name is the name given to the region with that id, or NULL. */
const char *rig_session_region_name(const struct rig_session *s, uint64_t id);

/* The requests: those of GPU memory, with names. `name` may be NULL; one that is in use, or could
   be taken for something else, is misuse. Outcomes are those of rig_memory_alloc and so on. */
enum rig_status rig_session_alloc(struct rig_session *s, const char *gpu, enum rig_kind kind,
                                  uint64_t bytes, bool uncached, const char *name,
                                  struct rig_region *out_region, struct rig_error *err);
enum rig_status rig_session_map_peer(struct rig_session *s, const char *gpu, const char *region,
                                     const char *name, struct rig_region *out_region,
                                     struct rig_error *err);
enum rig_status rig_session_free(struct rig_session *s, const char *region,
                                 struct rig_region *out_region, struct rig_error *err);
enum rig_status rig_session_bus(struct rig_session *s, const char *region, const char *client,
                                struct rig_bus_range **out_ranges, size_t *out_count,
                                struct rig_error *err);

/* rig_session_map_host borrows `bytes` bytes at `address` of what the session's process sees, host
   regions and mapped files. */
enum rig_status rig_session_map_host(struct rig_session *s, const char *gpu, uint64_t address,
                                     uint64_t bytes, const char *name,
                                     struct rig_region *out_region, struct rig_error *err);

/* rig_session_map_file maps `bytes` bytes at `offset` of a regular file into the process, where
   they stay in every later transaction, and borrows them. bytes 0: up to its end. RIG_REFUSED: the
   file cannot be read and written, or is shorter, or its name is no UTF-8 and the session on file.
 */
enum rig_status rig_session_map_file(struct rig_session *s, const char *gpu, const char *path,
                                     uint64_t offset, uint64_t bytes, const char *name,
                                     struct rig_region *out_region, struct rig_error *err);

/* Where in the process a region's bytes are to be seen, and in which file they are. */
struct rig_host_place {
    uint64_t address, bytes;
    const char *path; /* NULL: in none; the session's own, until its next request */
    uint64_t offset;  /* of the first byte in it */
};

/* rig_session_region_place is true, and makes *out_place where the region's window is, iff
   rig_region_host has one with an address. It looks through none and maps nothing. */
bool rig_session_region_place(const struct rig_session *s, struct rig_region region,
                              struct rig_host_place *out_place);

/* rig_session_fault is rig_twin_fault for the requests that follow: an armed fault counts the steps
   of the next of the five requests above that is no misuse, and is disarmed after it. */
enum rig_status rig_session_fault(struct rig_session *s, const char *spec, struct rig_error *err);

/* What is read or written, and who does it. Shapes: a region (region.memory is not NULL), from byte
   `at` of it on; or, of GPU `gpu`, the GPU address `at`. By NULL: the process, which sees all
   memory of the twin that the GPU's tables lead to. By a GPU of the session: its work, through its
   translation cache and tables. By another function: a DMA to where a region's or a GPU address's
   bytes are on the bus; an address outside the GPU's space is a bus address. */
struct rig_access {
    struct rig_region region;
    const char *gpu;
    uint64_t at;
    const char *by;
};

/* rig_session_read and rig_session_write move bytes. RIG_INVALID: not within the region, or its
   memory went back with its GPU; no such function. RIG_REFUSED: a table or the fabric does not
   carry it; err names the level or hop. RIG_FAILED: the device left the bus, I/O. */
enum rig_status rig_session_read(struct rig_session *s, const struct rig_access *access,
                                 void *out_data, size_t bytes, struct rig_error *err);
enum rig_status rig_session_write(struct rig_session *s, const struct rig_access *access,
                                  const void *data, size_t bytes, struct rig_error *err);

/* One entry of a walk, as it stands in the GPU's memory. */
struct rig_walk_level {
    const char *name; /* of the level in the format: "PDB2" */
    uint64_t table;   /* where its table begins */
    uint64_t index;
    uint64_t entry[2];
    unsigned entry_bytes; /* 8 or 16: entry[1] is the upper half */
    const char *kind;     /* "invalid", "sparse", "hides", "directory", "leaf", "lost" */
    const char *memory;   /* of a leaf or the first child: "own", "system", "link" */
    uint64_t address;     /* in the entry's terms */
    uint64_t bytes;       /* a leaf's span */
    unsigned peer, fragment, type;
    bool snooped, uncached, readable, writable, executable;
};

#define RIG_WALK_LEVELS 9

/* A walk of a GPU's tables, from the root down. `mapped`: it ends in memory: address is the exact
   byte, in the entry's terms, and bytes what is left of its page. */
struct rig_walk {
    int count;
    struct rig_walk_level level[RIG_WALK_LEVELS];
    bool mapped;
    enum rig_target_kind target;
    uint64_t address, bytes;
};

/* rig_session_walk makes *out_walk the walk for GPU address `at` of a GPU of the session, by its
   tables alone. RIG_FAILED: the GPU left the bus, a table could not be read. */
enum rig_status rig_session_walk(struct rig_session *s, const char *gpu, rig_gpu_address at,
                                 struct rig_walk *out_walk, struct rig_error *err);

#ifdef __cplusplus
}
#endif

#endif
