/* Sparse memory of a twin: as large as the real one, as small as what was written. It holds zeros
   at first. Not public. */
#ifndef RIG_SPARSE_H
#define RIG_SPARSE_H

#include "base/base.h"

/* Two shapes:
   - in the process: `directory` is -1, `chunk` holds pieces of SPARSE_CHUNK bytes, NULL where
     nothing was touched;
   - in a file `name` of `directory`, opened at first use: `file` is -1 until then.
   All access is by sparse_read and sparse_write; one thread at a time. */
struct sparse {
    uint64_t bytes;
    int directory;
    int file;
    char name[40];
    uint8_t **chunk;
};

#define SPARSE_CHUNK (UINT64_C(64) << 20)

/* sparse_init makes s memory of `bytes` bytes, in the process or in the file `name` of the open
   directory. Nothing is taken until it is used. */
void sparse_init(struct sparse *s, uint64_t bytes, int directory, const char *name);

/* sparse_drop frees what the process has of it; a file stays. */
void sparse_drop(struct sparse *s);

/* sparse_file is the file, made if it is not there, or -1 with errno. */
int sparse_file(struct sparse *s);

/* sparse_read and sparse_write copy `bytes` bytes at `offset`, which lie within it. RIG_FAILED: the
   file cannot be used, or memory ran out. */
enum rig_status sparse_read(struct sparse *s, uint64_t offset, void *out_data, size_t bytes,
                            struct rig_error *err);
enum rig_status sparse_write(struct sparse *s, uint64_t offset, const void *data, size_t bytes,
                             struct rig_error *err);

#endif
