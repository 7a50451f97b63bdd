/* What the session's commands share. */
#ifndef CMD_SESSION_H
#define CMD_SESSION_H

#include "handlers.h"

/* session_path is the state file of -s, $RIGMEM_STATE or the default, in text of `bytes` bytes;
   NULL where the session is in this process, or (then the reply holds an error) there is no place.
 */
const char *session_path(const struct request *request, struct reply *reply, char *text,
                         size_t bytes);

/* session_in_memory is true iff the request's session is the one in this process. */
bool session_in_memory(const struct request *request);

/* session_make_directories makes the directories above the default state file, 0700, where the
   request is about that. What cannot be made is told by who opens the file. */
void session_make_directories(const struct request *request);

/* session_enter begins the request's transaction; `use` is that of a real run. NULL: the reply
   holds the error, such as that there is no session, unless may_start. -m and the facts must be
   those of the session's machine. */
struct rig_session *session_enter(const struct request *request, struct reply *reply,
                                  enum rig_session_use use, bool may_start);

/* session_missing makes the reply the error that no session is open. */
void session_missing(struct reply *reply);

/* session_leave commits what changed, whatever the reply holds, and ends the transaction. */
void session_leave(const struct request *request, struct reply *reply, struct rig_session *s);

/* session_drop ends the transaction without a commit. */
void session_abandon(const struct request *request, struct rig_session *s);

/* session_topology makes *out the machine of the request's open session, with its GPUs as they were
   opened; false, without an error, where the request is not about a session. `use` is LOOK or
   GLANCE. */
bool session_topology(const struct request *request, struct reply *reply, enum rig_session_use use,
                      struct rig_topology **out);

/* session_try runs the request of a dry run on a session in this process in a copy of the process,
   which makes the reply. */
void session_try(const struct request *request, struct reply *reply);

/* ---- results */

json_t *address_json(uint64_t address);
json_t *region_json(struct reply *reply, const struct rig_session *s, struct rig_region region);

/* session_json is what `open` and `show` tell; gpu and only limit it to one, NULL: all. */
json_t *session_json(const struct request *request, struct reply *reply,
                     const struct rig_session *s, struct rig_memory *gpu,
                     const struct rig_region *only);

/* region_made makes the reply's result that of a request that made a region. */
void region_made(struct reply *reply, const struct rig_session *s, struct rig_region region);

/* ---- arguments */

/* address_argument reads an address: 0x and hex digits, or decimal, `_` between digits.
   size_argument reads a size. False: the reply holds the error. */
bool address_argument(struct reply *reply, const char *text, uint64_t *out);
bool size_argument(struct reply *reply, const char *text, uint64_t *out);

/* access_arguments reads {REGION|GPU ADDRESS} [OFFSET] and --by; *out_rest is the number of the
   argument that follows, *out_bytes how much there is from there on of a region (else UINT64_MAX).
   False: the reply holds the error. */
bool access_arguments(const struct request *request, struct reply *reply,
                      const struct rig_session *s, struct rig_access *out, int *out_rest,
                      uint64_t *out_bytes);

#endif
