/* Where a session's files are, and who may have touched them. Everything is done relative to one
   open directory, so that no path is looked up twice. Not public. */
#ifndef RIG_PLACE_H
#define RIG_PLACE_H

#include "base/base.h"

/* No file of a session is larger. */
#define PLACE_MAX ((size_t)64 << 20)

/* A session's place: `name` in the directory, and what stands beside it: name.lock, name.intent,
   name.d, name.tmp. directory is -1 where the directory does not exist. */
struct place {
    char *path;
    const char *name; /* in path */
    int directory;
    int lock;
    bool used; /* the lock file was there before: an earlier command's, or one's that waits */
};

/* place_boot makes boot the id of the machine's present boot, which no other boot has; empty where
   the system does not tell. RIG_FAILED: I/O. (Linux: drivers/char/random.c, boot_id) */
#define PLACE_BOOT 40
enum rig_status place_boot(char boot[PLACE_BOOT], struct rig_error *err);

/* place_open makes *out_place the place that `path` names, with nothing locked. RIG_REFUSED: a
   directory on the way belongs to neither the user nor root, or others may write it and it is not
   sticky; a link on the way is another user's. RIG_INVALID: it names no file. */
enum rig_status place_open(const char *path, struct place *out_place, struct rig_error *err);

/* place_close lets go of the lock and the directory. */
void place_close(struct place *p);

/* place_exists is true iff something stands at the session's name. */
bool place_exists(const struct place *p);

/* place_lock waits for the lock file and makes it if it is not there. RIG_REFUSED: it is not the
   user's own regular file, or the file system has no locks. */
enum rig_status place_lock(struct place *p, struct rig_error *err);

/* place_read makes *out_text the bytes of name + suffix, NUL-terminated, to be freed; NULL where
   there is no such file. */
enum rig_status place_read(const struct place *p, const char *suffix, char **out_text,
                           size_t *out_bytes, struct rig_error *err);

/* place_write replaces the session's file by `bytes` bytes: a temporary file, fsync, rename.
   place_sync is the directory's fsync after it. */
enum rig_status place_write(const struct place *p, const char *text, size_t bytes,
                            struct rig_error *err);
enum rig_status place_sync(const struct place *p, struct rig_error *err);

/* place_append adds a line to name.intent; *out_before is how long it was. place_cut cuts it to
   that again, and removes it at 0. */
enum rig_status place_append(const struct place *p, const char *line, size_t bytes,
                             uint64_t *out_before, struct rig_error *err);
void place_cut(const struct place *p, uint64_t bytes);

/* place_memory makes *out_path, to be freed, a path of the directory name.d, made if it is not
   there; *out_fd keeps that path good until it is closed. */
enum rig_status place_memory(const struct place *p, char **out_path, int *out_fd,
                             struct rig_error *err);

/* place_has_memory is true iff something stands at name.d. place_check_memory is RIG_REFUSED,
   naming it, where a twin's file in that directory, which `fd` is, is not the user's own regular
   file with one name. */
bool place_has_memory(const struct place *p);
enum rig_status place_check_memory(const struct place *p, int fd, struct rig_error *err);

/* place_remove removes name + suffix, which need not be there. RIG_FAILED, RIG_REFUSED: it stays.
 */
enum rig_status place_remove(const struct place *p, const char *suffix, struct rig_error *err);

/* place_remove_memory removes a twin's files in name.d, and name.d if nothing else is in it.
   RIG_FAILED, RIG_REFUSED: some may be left. */
enum rig_status place_remove_memory(const struct place *p, struct rig_error *err);

/* place_remove_rest removes all that stands beside the session's file, but the lock: name.tmp,
   name.intent, name.d. RIG_FAILED, RIG_REFUSED: some may be left. */
enum rig_status place_remove_rest(const struct place *p, struct rig_error *err);

/* place_clean is place_remove_rest for what a command that was killed as it opened or closed a
   session left beside the session's file, which is not there. *out_any: something was. Where the
   lock file was not there before, nothing is an earlier command's, and it does nothing. */
enum rig_status place_clean(const struct place *p, bool *out_any, struct rig_error *err);

#endif
