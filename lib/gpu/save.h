/* The memories of a machine's GPUs as a state document, between the processes of a session, and
   requests that another process began.

   A process restores the machine first (machine_restore, twin_reopen), then the GPUs, acts, saves
   the GPUs, then the machine. What was restored goes on exactly as it would have in the process
   that saved it: the same calls give the same addresses and ids. Not public. */
#ifndef RIG_SAVE_H
#define RIG_SAVE_H

#include "rigmem.h"

#include <jansson.h>

/* gpus_save makes *out_state a new JSON object. No request is under way. RIG_FAILED: memory. */
enum rig_status gpus_save(struct rig_gpus *g, json_t **out_state, struct rig_error *err);

/* gpus_restore makes *out_gpus the GPUs that `state`, from gpus_save, holds, on the machine that
   holds what their functions have. It takes no step of the machine that counts, writes no table,
   and flushes nothing. RIG_BAD_INPUT: state breaks a rule or is not of this machine. RIG_REFUSED,
   RIG_FAILED: a window on a BAR cannot be had again; memory ran out. */
enum rig_status gpus_restore(struct rig_machine *m, const json_t *state, struct rig_gpus **out_gpus,
                             struct rig_error *err);

/* gpus_restore_anew is gpus_restore where the GPUs' memories may hold anything, as after the
   machine went down: tables are written again from what is known. RIG_FAILED also: a write failed.
 */
enum rig_status gpus_restore_anew(struct rig_machine *m, const json_t *state,
                                  struct rig_gpus **out_gpus, struct rig_error *err);

/* With gpus_suppose on, requests are those that another process began and that ended at a point
   nobody knows: they take what the other took, write no table and flush nothing, and end as
   requests that were cut short do, with RIG_FAILED: what an alloc or a map took is the function's,
   a free's region is freed and what it held kept. A later map_peer of the same memory takes over.
   Outcomes other than RIG_FAILED (misuse, refusals, no room) mean that the other process wrote
   nothing. */
void gpus_suppose(struct rig_gpus *g, bool on);

/* gpus_memory_of is the memory of the function, by number, that is not stopped, or NULL. */
struct rig_memory *gpus_memory_of(const struct rig_gpus *g, int function);

/* gpus_region_named is true, and *out_region the region with that id, iff it is out or kept. */
bool gpus_region_named(const struct rig_gpus *g, uint64_t id, struct rig_region *out_region);

/* gpus_region_host tells what rig_region_host does and maps nothing: the process may not see
   out_host->memory yet, where a state document brought it back. rig_region_read and
   rig_region_write do in any case. */
bool gpus_region_host(struct rig_region region, struct rig_host *out_host);

#endif
