/* A twin of two functions under a switch, for tests of the function layer: each of these ends the
   test at once where it fails. */
#ifndef RIG_TEST_FUNCTIONS_H
#define RIG_TEST_FUNCTIONS_H

#include "space.h"

#include "machine/functions.h"
#include "machine/twin.h"

#define ONE "0000:03:00.0" /* its memory is 64 MiB behind a BAR of 32 */
#define TWO "0000:04:00.0" /* 16 MiB */
#define SYSTEM (UINT64_C(8) << 30)
#define SPACE TEST_SPACE

struct rig_machine *functions_open(void);
void functions_close(struct rig_machine *m);

struct rig_device *functions_take(struct rig_machine *m, const char *name);

/* functions_alloc is system memory anywhere; functions_pin pins so many bytes of the process's. */
struct device_hold *functions_alloc(struct rig_device *dev, uint64_t bytes);
struct device_hold *functions_pin(struct rig_device *dev, const void *memory, uint64_t bytes);

struct twin_audit functions_audit(struct rig_machine *m);

#endif
