/* What follows from a machine's facts once its tree stands: the IOMMU's treatment of each function,
   which functions are GPUs, how much memory they have and which BAR shows it, and the short names
   of GPUs, NICs and NVMe drives. Not public. */
#ifndef RIG_DERIVE_H
#define RIG_DERIVE_H

#include "topology/topology.h"

/* derive_facts works all of that out; calling it again after facts changed is right. RIG_FAILED:
 * memory ran out. */
enum rig_status derive_facts(struct rig_topology *t, struct rig_error *err);

/* base_class is the function's base class, or -1 when it is not known. */
int base_class(const struct rig_function *f);

#endif
