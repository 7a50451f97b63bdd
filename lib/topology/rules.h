/* Linux's p2pdma rules as data, and the questions whose answers they and the machine's facts give.
   Not public.

   Everything is three-valued: RIG_ANSWER_UNKNOWN where the facts do not decide. */
#ifndef RIG_RULES_H
#define RIG_RULES_H

#include "topology/topology.h"

/* One entry of Linux's list of host bridges (pci_p2pdma_whitelist in drivers/pci/p2pdma.c). */
struct listed_bridge {
    uint16_t vendor;
    uint16_t device; /* ANY_DEVICE: all of the vendor's */
    bool same_only;  /* only for functions under one host bridge (REQ_SAME_HOST_BRIDGE) */
};

#define ANY_DEVICE 0xffffu

/* Which function of a root bus stands for its host bridge (pci_host_bridge_dev). */
enum representative {
    REPRESENTATIVE_00,              /* the first, if it is device 0 function 0 */
    REPRESENTATIVE_00_OR_ROOT_PORT, /* the same, or a root port in any slot */
};

struct rig_rules {
    const char *name;
    unsigned major, minor; /* the first kernel it is for */
    enum representative representative;
    int entries; /* how many of the list's entries, which only ever grew, it has */
};

/* rules_entry is entry i of the list, 0 <= i < rules->entries. */
const struct listed_bridge *rules_entry(int i);

/* kernel_version reads the version that a kernel's release begins with; false where it begins with
 * none. */
bool kernel_version(const char *release, unsigned *out_major, unsigned *out_minor);

/* cpu_is_zen: is the CPU AMD's, family 23 or later (cpu_supports_p2pdma). */
enum rig_answer cpu_is_zen(const struct rig_topology *t);

/* function_redirects: does the function's ACS control redirect peer requests. A function known to
   have no ACS capability, or to be no PCI Express function, does not (pci_bridge_has_acs_redir). */
enum rig_answer function_redirects(const struct rig_function *f);

/* ask_bridge fills in what the rules say of host bridge number `host_bridge` (-1: not known which).
 */
void ask_bridge(const struct rig_topology *t, const struct rig_rules *rules, int host_bridge,
                struct rig_bridge_answer *out);

/* host_carries: does the root complex carry requests between functions under bridges a and b. `a`
   and `b` are one bridge iff they have the same host_bridge number that is not -1; -1 may be any
   (host_bridge_whitelist). */
enum rig_answer host_carries(enum rig_answer zen, const struct rig_bridge_answer *a,
                             const struct rig_bridge_answer *b);

/* verdicts is the set of enum rig_verdict that is left open. */
unsigned verdicts(enum rig_answer has_common, enum rig_answer redirects, enum rig_answer carries);

#endif
