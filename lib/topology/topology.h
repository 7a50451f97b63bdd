/* The topology room's own header: how readers build a topology, and the rooms within. Not public.

   A reader makes an empty topology (topology_new), adds functions in any order (topology_add),
   fills in what it knows and nothing else, and hands it to topology_finish, which sorts, finds
   parents and host bridges, and works out all that follows from the facts. A fact that nobody sets
   is unknown. */
#ifndef RIG_TOPOLOGY_H
#define RIG_TOPOLOGY_H

#include "base/base.h"

struct string_pool;

/* How a function's place in the tree is known before topology_finish. */
enum place {
    PLACE_BY_BUSES, /* worked out from bridges' bus numbers and port types */
    PLACE_ROOT,     /* the source says: on root bus `parent_bdf.domain:parent_bdf.bus` (sysfs, a
                       capture) */
    PLACE_UNDER,    /* the source says: under the bridge `parent_bdf` */
    PLACE_UNKNOWN,  /* the source says that what is above is not in it (a capture of a cut text) */
};

/* A function as it is kept: the public part and what the builder knows besides. */
struct node {
    struct rig_function f;
    enum place place;
    struct rig_bdf parent_bdf; /* by place */
    const char *place_from;    /* not NULL: the place is assumed, from this */
    bool physical_given;       /* the source names its physical function: physical_bdf */
    struct rig_bdf physical_bdf;
    bool iommu_derived;  /* f.iommu was worked out by topology_finish, which may do so again */
    bool memory_derived; /* the same for f.gpu_memory */
    bool name_found;     /* f.name was looked up, and is no fact of the source */
    bool linked;         /* direct links join it to the other GPUs of its fabric, whose number is */
    unsigned fabric;     /* this */
    bool tables_given;   /* what its page tables are was given, by nobody's ids: */
    int space;           /* enum gpu_space */
    unsigned bits_held;  /* address bits of its entries */
};

struct rig_topology {
    struct rig_machine_facts machine;
    struct node *node; /* in bus order once finished */
    int count, capacity;
    struct rig_host_bridge *host_bridge;
    int host_bridges;
    char **warning;
    int warnings;
    bool whole; /* the source lists every function of its machine, as far as it shows (live, sysfs,
                   a whole capture) */
    struct string_pool *pool;
};

/* No source holds more functions than this; more is bad input. */
#define TOPOLOGY_MAX_FUNCTIONS 65536

/* topology_new makes an empty topology of the kind given, or NULL when memory ran out. */
struct rig_topology *topology_new(enum rig_source source);

/* topology_add adds the function bdf with every fact unknown and makes *out_node point at it, valid
   until the next add. It does not look for duplicates (topology_finish refuses them).
   RIG_BAD_INPUT: too many functions. RIG_FAILED: memory. */
enum rig_status topology_add(struct rig_topology *t, struct rig_bdf bdf, struct node **out_node,
                             struct rig_error *err);

/* topology_intern keeps a copy of `bytes` bytes of text (up to its first NUL) as long as t lives,
   and returns it; equal texts may share. NULL when memory ran out. */
const char *topology_intern(struct rig_topology *t, const char *text, size_t bytes);

/* topology_text is a known rig_text of a NUL-terminated text kept by t; unknown when memory ran
 * out. */
struct rig_text topology_text(struct rig_topology *t, const char *text);

/* topology_warn notes, once, something odd that reading went past. */
void topology_warn(struct rig_topology *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* topology_finish sorts t's functions, refuses the same function twice, finds parents, virtual
   functions, host bridges, the IOMMU's treatment, GPUs, their memory and aliases. It may be called
   again after facts changed. `name` stands for the source in messages. RIG_BAD_INPUT: a function
   twice, a loop of bridges, a parent that is missing or no bridge. RIG_FAILED: memory. */
enum rig_status topology_finish(struct rig_topology *t, const char *name, struct rig_error *err);

/* Shorthands for facts. */
static inline struct rig_fact fact_known(uint64_t value)
{
    return (struct rig_fact){.value = value, .know = RIG_FACT_KNOWN};
}

static inline struct rig_fact fact_absent(void)
{
    return (struct rig_fact){.know = RIG_FACT_ABSENT};
}

/* `from` must live as long as the topology: a literal or interned. */
static inline struct rig_fact fact_assumed(uint64_t value, const char *from)
{
    return (struct rig_fact){.value = value, .from = from, .know = RIG_FACT_ASSUMED};
}

static inline struct rig_fact fact_unknown(const char *from)
{
    return (struct rig_fact){.from = from, .know = RIG_FACT_UNKNOWN};
}

/* fact_is is true iff the fact has a value and it is `value`. */
static inline bool fact_is(struct rig_fact f, uint64_t value)
{
    return rig_fact_has(f) && f.value == value;
}

/* is_bridge is true iff the function is known to have a bridge's header. */
static inline bool is_bridge(const struct rig_function *f)
{
    return rig_fact_has(f->header_type) && (f->header_type.value == 1 || f->header_type.value == 2);
}

/* ---- one decoder of configuration space for every source that has its bytes */

/* config_decode fills in what `bytes` bytes of configuration space of a function say: ids, class,
   header, command, BAR registers (bus addresses, kinds; not sizes), bus numbers and windows, PCIe
   type and links, ACS, SR-IOV, Resizable BAR, ATS. What lies beyond `bytes` stays unknown with its
   reason, except that a source that reads all the space there is (`bytes` 256 of a function with no
   PCI Express capability) makes the extended capabilities absent. A capability list that loops or
   leaves the space ends there with a warning. All ones in the id: the function is not there; only
   bdf is kept and a warning given. `bytes` is at most 4096. */
void config_decode(struct rig_topology *t, struct node *node, const uint8_t *config, size_t bytes);

/* A text that is read piece by piece: `data` holds `bytes` of it. Its owner frees data. */
struct text_stream {
    const char *name;
    int fd;
    char *data;
    size_t bytes, room;
    size_t taken; /* read in all */
    bool at_end;  /* nothing follows data */
    bool looked;  /* it was asked whether the text is binary */
};

/* text_stream_more lets go of what lies before `keep`, which is in s->data, moves the rest to its
   front and reads on behind it until the room, which grows where the rest fills more than half of
   it, is full or the text ends. RIG_BAD_INPUT: the text is binary or too long. RIG_FAILED: reading
   failed, or memory ran out. */
enum rig_status text_stream_more(struct text_stream *s, const char *keep, struct rig_error *err);

/* ---- readers: `data` may hold anything. They return RIG_BAD_INPUT with where and a hint for what
   they do not accept. Each calls topology_finish. */
enum rig_status read_lspci(const char *name, const char *data, size_t bytes,
                           struct rig_topology **out, struct rig_error *err);
/* The same from a stream of which the first piece is read; what is left in it is of no use then. */
enum rig_status read_lspci_stream(struct text_stream *stream, struct rig_topology **out,
                                  struct rig_error *err);
enum rig_status read_capture(const char *name, const char *data, size_t bytes,
                             struct rig_topology **out, struct rig_error *err);
/* root: a directory that holds sys/, proc/, boot/ of a machine; "" or "/" is this machine (then
 * libpci enumerates it). */
enum rig_status read_live(const char *root, struct rig_topology **out, struct rig_error *err);

/* ---- ids by name, from libpci's database of ids */

/* pci.ids by name: opened once for a run of look-ups, used by one thread. */
struct ids_index;

/* ids_index_open reads the database of ids; NULL where there is none or memory ran out. */
struct ids_index *ids_index_open(void);

/* ids_index_read reads a database of ids in the form of pci.ids; NULL where `path` is no file of at
 * most 64 MiB that names a vendor, or memory ran out. */
struct ids_index *ids_index_read(const char *path);

/* ids_index_close frees the index. NULL is allowed. */
void ids_index_close(struct ids_index *ids);

/* ids_find_by_name looks "VENDOR NAME DEVICE NAME" up, as lspci prints them together, and makes
   *out_vendor and *out_device the ids. Where several devices of one vendor print so, they are those
   of the first, and *out_shared is true. False where the database has none that print so, or of
   several vendors. "VENDOR NAME Device 1234" and "Device 1234:5678", as lspci prints ids without a
   name, give those ids. Asking for the same name again is cheap. */
bool ids_find_by_name(struct ids_index *ids, const char *name, uint16_t *out_vendor,
                      uint16_t *out_device, bool *out_shared);

/* ---- the CPU by the functions that it brings along */

/* assume_cpu takes the CPU from the names or ids of t's functions, which need not be in order,
   where the source does not tell it: a strong hint, and no proof. */
void assume_cpu(struct rig_topology *t);

/* amd_family_named is the family of the AMD processor whose parts' names the text holds, or 0. */
unsigned amd_family_named(const char *text, size_t bytes);

/* ---- the id table of GPU memory sizes */

/* gpu_memory_by_id is the memory in bytes of the GPU with these ids, or 0 when the table has none.
 */
uint64_t gpu_memory_by_id(uint16_t vendor, uint16_t device, uint16_t subsystem_vendor,
                          uint16_t subsystem_device);

/* gpu_address_bits is how many address bits the page-table entries of the GPU with these ids hold
   for a peer's or system memory, or 0 when that is not known. */
unsigned gpu_address_bits(uint16_t vendor, uint16_t device);

#endif
