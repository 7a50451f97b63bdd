/* The conditions of reach that hang on the two functions alone, not on the path between them. Not
   public. Each is RIG_ANSWER_YES when it lets requests through. */
#ifndef RIG_GATES_H
#define RIG_GATES_H

#include "topology/topology.h"

/* The address spaces that GPUs share: one a vendor (DESIGN: all of a vendor's GPUs on a machine).
 */
enum gpu_space {
    SPACE_UNKNOWN = -1,
    SPACE_PLAIN,
    SPACE_AMD,
    SPACE_NVIDIA,
    SPACE_INTEL,
};

/* What of a function the static gates look at. Two functions with equal facts have equal gates. */
struct side {
    enum rig_answer gpu;
    bool remote;              /* its machine is reached through a transport */
    int space;                /* enum gpu_space */
    enum rig_answer passes;   /* no IOMMU translates its requests */
    enum rig_answer assigned; /* its memory BAR has an address */
    enum rig_answer covers;   /* the BAR reaches all of its memory */
    unsigned bits_needed;     /* address bits of the BAR's last byte; 0 unknown */
    unsigned bits_held;       /* address bits that its page-table entries hold; 0 unknown */
    bool linked;              /* links join it to the GPUs of fabric number */
    unsigned fabric;          /* this */
};

/* What the static gates say of two functions. */
enum gates {
    GATES_OPEN = RIG_ANSWER_YES,
    GATES_CLOSED = RIG_ANSWER_NO,
    GATES_UNKNOWN = RIG_ANSWER_UNKNOWN,
    GATES_LINKED, /* links join them: the bus is not asked */
};
#define GATES_COUNT 4

/* space_named is the space of the vendor "amd", "nvidia", "intel" or "plain"; SPACE_UNKNOWN: none.
 */
int space_named(const char *vendor);

/* side_of is function i's side. */
struct side side_of(const struct rig_topology *t, int i);

/* bar_bound is the most bytes that BAR `bar` of function i can have where its size is not known: a
   BAR lies at a multiple of its size and within a window of the bridge above. 0: its address is not
   known. */
uint64_t bar_bound(const struct rig_topology *t, int i, int bar);

/* gate_space is that gate for requests of `from` to memory of `to`, if that is a GPU. */
enum rig_answer gate_space(const struct side *from, const struct side *to);

/* gate_mask is that gate for requests of `from` to memory of `to`, if both are GPUs. */
enum rig_answer gate_mask(const struct side *from, const struct side *to);

/* gate_link is true iff links of one fabric join the two, which share a space. */
bool gate_link(const struct side *from, const struct side *to);

/* gates_static is all of them together: closed if one is, unknown if one is not known, for two
   different functions of one machine. Memory of what is no GPU has no such gates: open. Of
   what may be one they are unknown; of a client that may be one what they are either way, or
   unknown. */
enum gates gates_static(const struct side *from, const struct side *to);

/* gates_self is the same of one function for requests to its own memory: a GPU maps that already.
 */
enum gates gates_self(const struct side *side);

/* answer_of joins the static gates with the set of verdicts that p2pdma leaves open. */
enum rig_answer answer_of(enum gates gates, unsigned possible);

#endif
