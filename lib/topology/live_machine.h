/* The facts of a machine as a whole, from /proc and /boot. */
#ifndef RIG_LIVE_MACHINE_H
#define RIG_LIVE_MACHINE_H

#include "topology/sysfs.h"
#include "topology/topology.h"

/* live_machine_facts fills in t's facts of the machine whose root fs is: the CPU, the kernel and
   its configuration and command line, the host's name. What is missing stays unknown.
   `this_machine`: the root is that of the running system. */
void live_machine_facts(struct rig_topology *t, const struct sysfs *fs, bool this_machine);

/* cpu_facts reads the first processor of the text of /proc/cpuinfo, NUL-terminated. */
void cpu_facts(struct rig_topology *t, const char *text);

#endif
