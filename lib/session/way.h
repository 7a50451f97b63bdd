/* The way to a session's directory: it is walked a name at a time, so that nobody can put another
   directory in between, and no part of it may be another user's. Not public. */
#ifndef RIG_WAY_H
#define RIG_WAY_H

#include "base/base.h"

#include <sys/types.h>

/* way_is_ours is true iff the owner is the user or root. */
bool way_is_ours(uid_t owner);

/* way_broke says what errno means of `what`: RIG_REFUSED where it is not there, or may not be used;
   RIG_FAILED where the outside broke. */
enum rig_status way_broke(const char *what, struct rig_error *err);

/* way_walk makes *out_fd the directory that `directory` names, -1 where it does not exist; messages
   name `path`. RIG_REFUSED: a directory on the way, or above it, belongs to neither the user nor
   root, or others may write it and it is not sticky; a link on the way is another user's. */
enum rig_status way_walk(const char *path, const char *directory, int *out_fd,
                         struct rig_error *err);

#endif
