/* Builds small machines for tests from a line a function:

       0000:00:01.0 rp 01-05 acs=001d id=8086:2030

   The address (domain 0000 if left out), what it is (host, rp, up, down, ep, rciep, pci, p2pci: a
   PCIe-to-PCI bridge, pcibr: a conventional bridge), for bridges the secondary and subordinate bus,
   then any of acs=WORD|none|unknown (without: none), id=VVVV:DDDD, class=CCCCCC, root=BB (on that
   root bus), under=BDF, pf=BDF, gpu=MEMORY/BAR in MiB at an address of its own,
   iommu=none|identity|translate, numa=N, type=unknown. */
#ifndef RIG_TEST_BUILDER_H
#define RIG_TEST_BUILDER_H

#include "topology/topology.h"

/* build_machine makes the machine of `text`; a bad line or an unfinished machine fails the running
   test. cpu: "AMD:25", or NULL for unknown. */
struct rig_topology *build_machine(const char *text, const char *cpu);

/* function_at is the number of the function at that address, which must be there. */
int function_at(const struct rig_topology *t, const char *bdf);

#endif
