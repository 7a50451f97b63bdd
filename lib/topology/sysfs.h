/* Small files and links below a directory that stands for a machine's root, none of them trusted: a
   link that leads out of the directory is followed no further than its top. */
#ifndef RIG_SYSFS_H
#define RIG_SYSFS_H

#include "base/base.h"

#include <dirent.h>
#include <sys/types.h>

/* `root` is an open directory. `confined`: it is not this machine's own root, so no name may lead
   out of it. */
struct sysfs {
    int root;
    bool confined;
};

/* sysfs_open opens `path` below the root for reading, with `flags` besides (O_DIRECTORY, O_PATH);
   -1 and errno where it cannot. It never waits for a named pipe. */
int sysfs_open(const struct sysfs *fs, const char *path, int flags);

/* sysfs_directory opens the directory at `path` for its names, or is NULL, with errno ENOMEM where
   memory ran out. Close it with closedir. */
DIR *sysfs_directory(const struct sysfs *fs, const char *path, int flags);

/* sysfs_read reads at most `room` bytes of the regular file at `path`, and is how many; -1 and
   errno where there is none. */
ssize_t sysfs_read(const struct sysfs *fs, const char *path, void *data, size_t room);

/* sysfs_text reads the first line of a small text file, without the space around it, into text;
   false where there is none or it does not fit. */
bool sysfs_text(const struct sysfs *fs, const char *path, char *text, size_t room);

/* sysfs_number reads a number, decimal or 0x hex, that is all a small file holds. */
bool sysfs_number(const struct sysfs *fs, const char *path, uint64_t *out);

/* sysfs_link reads the text of the link at `path`; false where it is none or does not fit. */
bool sysfs_link(const struct sysfs *fs, const char *path, char *text, size_t room);

/* sysfs_base_name is what follows the last slash of a path. */
const char *sysfs_base_name(const char *path);

/* sysfs_parse_number reads a number, decimal or 0x hex, that is the whole text. */
bool sysfs_parse_number(const char *text, uint64_t *out);

/* ---- the text of `resource` (drivers/pci/pci-sysfs.c, resource_show; include/linux/ioport.h) */

#define RESOURCE_IO 0x100u
#define RESOURCE_MEMORY 0x200u
#define RESOURCE_PREFETCHABLE 0x2000u
#define RESOURCE_64BIT 0x100000u
#define RESOURCE_UNSET 0x20000000u

struct resource {
    uint64_t start, end, flags; /* all zero: there is none; `end` is inclusive */
};

/* resource_parse reads the first `count` lines of `bytes` bytes of text into `out`; lines that are
   missing become all zero. False where a line is not three hex numbers. */
bool resource_parse(const char *text, size_t bytes, struct resource *out, size_t count);

#endif
