/* Memories that go on from process to process, for tests: a twin in files, and the states between.
 */
#ifndef RIG_TEST_SESSIONS_H
#define RIG_TEST_SESSIONS_H

#include "rigs.h"

#include "gpu/save.h"

/* A session: a machine in files, whose process may end at any time. */
struct session {
    struct rig_topology *t;
    char directory[64];
    struct rig_machine *machine;
    struct rig_gpus *gpus;
};

/* session_open opens the twin of RIG_SWITCH RIG_GPUS, with three memories; session_close takes its
   files away. Each of these fails the test where something does not end as wanted. */
void session_open(struct session *s);
void session_close(struct session *s);

/* session_save is the memories' state, for the caller to drop. */
json_t *session_save(struct session *s);

/* session_next ends the process's part and takes it up again, after which the state is the same. */
void session_next(struct session *s);

/* By GPU and by region's id. */
struct rig_memory *session_memory(struct session *s, int gpu);
struct rig_region session_region(struct session *s, uint64_t id);
rig_gpu_address session_address(struct session *s, uint64_t id);

void session_release(struct session *s, int gpu, enum rig_status wanted);
uint64_t session_alloc(struct session *s, int gpu, enum rig_kind kind, uint64_t bytes);
uint64_t session_map_host(struct session *s, int gpu, rig_gpu_address at, uint64_t bytes);
uint64_t session_map_peer(struct session *s, int gpu, uint64_t of);
void session_free(struct session *s, uint64_t id);

struct twin_audit session_held(struct session *s);

#endif
