/* The session room's own shapes, shared by its files. Not for anything else. */
#ifndef RIG_SESSION_H
#define RIG_SESSION_H

#include "base/base.h"
#include "session/names.h"
#include "session/place.h"

#include <jansson.h>
#include <signal.h>

/* Where mapped files go in the process: below every vendor's space, above what programs and their
   sanitizers use. */
#define FILES_START UINT64_C(0x180000000000)
#define FILES_END UINT64_C(0x1f0000000000)

#define WARNINGS_MAX 32

/* A file that is mapped for a region that borrows it, from a page on. `there`: this process has it.
 */
struct mapped_file {
    char *path;
    uint64_t address; /* where the first of the bytes is; the page before it is mapped too */
    uint64_t bytes, offset;
    uint64_t id; /* the region; 0: not known, it is kept until the session ends */
    bool there;
};

/* A request, as it runs and as the intent file has it. Names are resolved. Shapes by verb, as in
   rigmem.h. */
enum verb {
    VERB_ALLOC,
    VERB_MAP_HOST,
    VERB_MAP_FILE,
    VERB_MAP_PEER,
    VERB_FREE,
    VERB_BUS,
    VERBS,
};

struct request {
    enum verb verb;
    int gpu; /* function number of the memory */
    enum rig_kind kind;
    uint64_t bytes;
    bool uncached;
    uint64_t address, offset;
    char *path;
    uint64_t id; /* of a region */
    char *client;
};

/* Invariants:
   - machine and gpus are both there (the session is open) or both not.
   - place.path is NULL for a session in this process. place.lock is held from begin to end of one
     on file, except where there was nothing to lock.
   - generation is that of the file that was loaded; a line of the intent file counts iff it has the
     same. */
struct rig_session {
    struct place place;
    enum rig_session_use use;
    bool changed;
    bool left;              /* files that could not be removed */
    struct rig_error stays; /* why what a killed command left stays; RIG_OK: nothing does */
    bool blocked;           /* signals, which `before` says how to let in again */
    sigset_t before;
    uint64_t generation;
    char boot[PLACE_BOOT]; /* of the machine now, of one on file; "": nothing tells */
    json_t *capture;
    char *source;
    struct rig_machine *machine;
    struct rig_gpus *gpus;
    uint64_t last; /* region of @last, or 0 */
    struct names names;
    struct mapped_file *file;
    size_t files;
    uint64_t next_file;
    char *warning[WARNINGS_MAX];
    size_t warnings;
};

/* session_warn notes a line for rig_session_warning. */
void session_warn(struct rig_session *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* session_drop makes s not open, touching no device. */
void session_drop(struct rig_session *s);

/* ---- the document (document.c) */

/* document_text makes *out_text the session as the next generation of its file. */
enum rig_status document_text(struct rig_session *s, char **out_text, struct rig_error *err);

/* document_read makes *out_document what the text of s's file holds: JSON, and an object. */
enum rig_status document_read(const struct rig_session *s, const char *text, size_t bytes,
                              json_t **out_document, struct rig_error *err);

/* document_open opens s, which is not open, from its document; `memory` is the directory of memory
   files, NULL for a trial. RIG_BAD_INPUT: it breaks a rule. */
enum rig_status document_open(struct rig_session *s, json_t *take_document, const char *memory,
                              struct rig_error *err);

/* ---- requests (request.c) */

/* request_recover begins again, as far as memory goes, what the lines of the intent file say was
   under way when a process was killed. RIG_FAILED: memory ran out; nothing may go on. */
enum rig_status request_recover(struct rig_session *s, const char *lines, struct rig_error *err);

/* session_finish_releases is rig_gpus_finish_releases, which no armed fault counts. */
void session_finish_releases(struct rig_session *s);

/* request_forget_names drops names and mapped files of regions that are gone. */
void request_forget_names(struct rig_session *s);

/* ---- mapped files (files.c) */

/* file_check_name is RIG_REFUSED where the state file could not hold the path. */
enum rig_status file_check_name(const struct rig_session *s, const char *path,
                                struct rig_error *err);

/* file_map maps the request's bytes of its file at the next free address, and makes r->address
   where they begin and r->bytes how many. The mapping is the session's last one then.
   file_unmap takes the last one back. */
enum rig_status file_map(struct rig_session *s, struct request *r, struct rig_error *err);
void file_unmap_last(struct rig_session *s);

/* files_again maps what the process before had mapped; what is not there any more is warned of. */
void files_again(struct rig_session *s);

/* files_drop unmaps all and forgets them. */
void files_drop(struct rig_session *s);

#endif
