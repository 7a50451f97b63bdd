/* What a command asks of the system and of memory, counted, and made to go wrong on purpose.

   Programs here are linked with --wrap for each function that shim.c lists, in the command's code,
   in the library's and in jansson's. Outside shim_begin and shim_end every call goes through as it
   is. Between them each is counted; the one that the plan names ends as the plan says; with
   `record` what changes a file is written down, in order. */
#ifndef RIG_CRASH_SHIM_H
#define RIG_CRASH_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Calls, by the name of the function. CALL_MEMORY is every function that takes memory. */
enum shim_call {
    CALL_OPEN, /* openat, too */
    CALL_CLOSE,
    CALL_READ,  /* pread, too */
    CALL_WRITE, /* pwrite, too */
    CALL_FSYNC,
    CALL_FTRUNCATE,
    CALL_FALLOCATE,
    CALL_FLOCK,
    CALL_STAT, /* stat, lstat, fstat, fstatat */
    CALL_MMAP,
    CALL_MKDIR,  /* mkdirat, too */
    CALL_UNLINK, /* unlinkat, too */
    CALL_RENAME, /* renameat, too */
    CALL_FCHMOD,
    CALL_DUP,
    CALL_ACCESS,
    CALL_READDIR,
    CALL_READLINK,
    CALL_MEMORY,
    SHIM_CALLS,
};

const char *shim_name(enum shim_call call);

enum shim_act {
    SHIM_WATCH, /* nothing goes wrong */
    SHIM_FAIL,  /* the call does nothing and fails with `error` */
    SHIM_SHORT, /* a read or write moves half of the bytes */
    SHIM_KILL,  /* the process is killed before the call */
    SHIM_TEAR,  /* a write moves half of the bytes, then the process is killed */
};

struct shim_plan {
    enum shim_act act;
    enum shim_call call;
    long n;  /* the n-th of these calls, from 1 */
    bool on; /* and every later one */
    int error;
    bool record;
};

/* What changed, as `record` has it. Paths are whole; `bytes` bytes of data follow `to`. */
enum shim_kind {
    OP_CREATE,
    OP_WRITE,
    OP_TRUNCATE, /* to `at` bytes */
    OP_PUNCH,    /* `count` bytes at `at` become zeros */
    OP_RENAME,
    OP_UNLINK, /* of a directory too */
    OP_MKDIR,
    OP_SYNC, /* of a file or a directory */
};

struct shim_op {
    enum shim_kind kind;
    char path[160], to[160];
    uint64_t at, count; /* of OP_WRITE: count bytes at `data` of the log */
    size_t data;
};

#define SHIM_OPS 2048
#define SHIM_DATA ((size_t)8 << 20)

/* In memory that the processes share. */
struct shim {
    struct shim_plan plan;
    long seen[SHIM_CALLS];
    bool fired;
    long held; /* blocks of memory that were taken and not freed */
    int ops;
    size_t used;
    struct shim_op op[SHIM_OPS];
    uint8_t data[SHIM_DATA];
};

/* shim_new makes *out_shim memory that this process and its children share. */
struct shim *shim_new(void);

/* shim_begin: what this process does from now on is watched by s. shim_end ends that. */
void shim_begin(struct shim *s);
void shim_end(void);

/* shim_boot makes `id` what the commands that follow read as the boot's id; NULL: the true one. */
void shim_boot(const char *id);

#endif
