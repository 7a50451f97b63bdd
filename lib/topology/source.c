#include "topology/topology.h"

#include "topology/live.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A dump of every function that a source may hold, 4096 bytes each, has 0.9 GB of text. */
#define SOURCE_MAX_BYTES ((size_t)1 << 30)

static const char capture_hint[] =
    "give a capture ('rigmem capture'), the text of 'sudo lspci -D -vvv -nn -xxxx', or a "
    "directory that holds a machine's /sys";

/* ---- the kind of a text */

/* Files that people give by mistake, by their first bytes. */
static const struct {
    const char *magic, *what;
} binaries[] = {
    {"\x1f\x8b", "a gzip archive: unpack it first"},
    {"BZh", "a bzip2 archive: unpack it first"},
    {"\xfd"
     "7zXZ",
     "an xz archive: unpack it first"},
    {"\x28\xb5\x2f\xfd", "a zstd archive: unpack it first"},
    {"PK\x03\x04", "a zip archive: unpack it first"},
    {"\x7f"
     "ELF",
     "a program"},
    {"%PDF", "a PDF: copy its text out"},
    {"\x89PNG", "a picture: the text itself is needed"},
    {"\xff\xd8\xff", "a picture: the text itself is needed"},
    {"\xff\xfe", "text in UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)"},
    {"\xfe\xff", "text in UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)"},
};

static enum rig_status refuse_binary(const char *name, const char *data, size_t bytes,
                                     struct rig_error *err)
{
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(binaries); i++) {
        size_t length = strlen(binaries[i].magic);
        if (bytes >= length && memcmp(data, binaries[i].magic, length) == 0) {
            rig_fail_at(err, name, 0, 0, "this is %s", binaries[i].what);
            rig_hint(err, "%s", capture_hint);
            return RIG_BAD_INPUT;
        }
    }
    const char *nul = memchr(data, '\0', bytes);
    if (!nul)
        return RIG_OK;
    if (bytes > 262 && memcmp(data + 257, "ustar", 5) == 0)
        rig_fail_at(err, name, 0, 0, "this is a tar archive: unpack it first");
    else
        rig_fail_at(err, name, 0, 0, "this is binary, no text (a NUL byte at offset %zu)",
                    (size_t)(nul - data));
    rig_hint(err, "%s", capture_hint);
    return RIG_BAD_INPUT;
}

/* XML that people give because it holds a topology of sorts. */
static enum rig_status refuse_markup(const char *name, const char *text, size_t bytes,
                                     struct rig_error *err)
{
    static const struct {
        const char *mark, *what;
    } kinds[] = {
        {"<topology", "hwloc's XML, which has no access control facts"},
        {"<system", "NCCL's topology XML, which has no access control facts"},
        {"<html", "a web page: save the text itself"},
        {"<!DOCTYPE html", "a web page: save the text itself"},
        {"<node", "lshw's XML"},
    };
    const char *what = "XML of some other program";
    size_t window = bytes < 4096 ? bytes : 4096;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(kinds); i++)
        if (memmem(text, window, kinds[i].mark, strlen(kinds[i].mark))) {
            what = kinds[i].what;
            break;
        }
    rig_fail_at(err, name, 0, 0, "this is %s", what);
    rig_hint(err, "%s", capture_hint);
    return RIG_BAD_INPUT;
}

static bool begins(const char *text, size_t bytes, const char *word)
{
    return bytes >= strlen(word) && strncasecmp(text, word, strlen(word)) == 0;
}

enum rig_status rig_topology_parse(const char *name, const void *data, size_t bytes,
                                   struct rig_topology **out_topology, struct rig_error *err)
{
    const char *text = data;
    if (bytes > SOURCE_MAX_BYTES)
        return rig_fail_at(err, name, 0, 0, "more than %zu MiB", SOURCE_MAX_BYTES >> 20);
    enum rig_status status = bytes ? refuse_binary(name, text, bytes, err) : RIG_OK;
    if (status != RIG_OK)
        return status;
    size_t skip = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (skip < bytes && isspace((unsigned char)text[skip]))
        skip++;
    if (skip == bytes) {
        rig_fail_at(err, name, 0, 0, "it is empty");
        rig_hint(err, "%s", capture_hint);
        return RIG_BAD_INPUT;
    }
    if (text[skip] == '{' || text[skip] == '[')
        return read_capture(name, text, bytes, out_topology, err);
    if (begins(text + skip, bytes - skip, "<?xml") ||
        begins(text + skip, bytes - skip, "<!doctype") ||
        begins(text + skip, bytes - skip, "<html") ||
        begins(text + skip, bytes - skip, "<system") ||
        begins(text + skip, bytes - skip, "<topology"))
        return refuse_markup(name, text + skip, bytes - skip, err);
    return read_lspci(name, text, bytes, out_topology, err);
}

/* ---- files */

struct contents {
    char *data;
    size_t bytes, room;
};

static enum rig_status grow(const char *name, struct contents *c, struct rig_error *err)
{
    if (c->bytes < c->room)
        return RIG_OK;
    if (c->room > SOURCE_MAX_BYTES)
        return rig_fail(err, RIG_BAD_INPUT, name, "more than %zu MiB", SOURCE_MAX_BYTES >> 20);
    size_t room = c->room * 2;
    char *data = realloc(c->data, room);
    if (!data)
        return rig_fail_memory(err);
    c->data = data;
    c->room = room;
    return RIG_OK;
}

/* Touching a large dump's memory page by page takes longer than reading it. Only a request: where
   the kernel does not heed it nothing is lost. */
static void ask_for_large_pages(char *data, size_t bytes)
{
    size_t large = (size_t)2 << 20;
    size_t skip = (large - (uintptr_t)data % large) % large;
    if (bytes >= 4 * large)
        madvise(data + skip, (bytes - skip) / large * large, MADV_HUGEPAGE);
}

/* Reads fd to its end. A stream without end is refused at the first bytes that are no text, or at
   the limit. */
static enum rig_status read_all(const char *name, int fd, size_t expected, struct contents *c,
                                struct rig_error *err)
{
    c->room = expected < 65536 ? 65536 : expected + 1;
    c->data = malloc(c->room);
    if (!c->data)
        return rig_fail_memory(err);
    ask_for_large_pages(c->data, c->room);
    bool looked = false;
    for (;;) {
        enum rig_status status = grow(name, c, err);
        if (status != RIG_OK)
            return status;
        ssize_t n = read(fd, c->data + c->bytes, c->room - c->bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rig_fail(err, RIG_FAILED, name, "reading failed: %s", strerror(errno));
        if (n == 0)
            return RIG_OK;
        c->bytes += (size_t)n;
        if (!looked && c->bytes >= 512) {
            looked = true;
            status = refuse_binary(name, c->data, c->bytes, err);
            if (status != RIG_OK)
                return status;
        }
    }
}

static enum rig_status load_stream(const char *name, int fd, size_t expected,
                                   struct rig_topology **out, struct rig_error *err)
{
    if (expected > SOURCE_MAX_BYTES)
        return rig_fail(err, RIG_BAD_INPUT, name, "more than %zu MiB", SOURCE_MAX_BYTES >> 20);
    struct contents c = {.data = NULL};
    enum rig_status status = read_all(name, fd, expected, &c, err);
    if (status == RIG_OK)
        status = rig_topology_parse(name, c.data, c.bytes, out, err);
    free(c.data);
    return status;
}

static enum rig_status refuse_open(const char *path, int error, struct rig_error *err)
{
    rig_fail(err, RIG_REFUSED, path, "%s", strerror(error));
    if (error == ENOENT)
        rig_hint(err, "a source is 'live', 'live:ROOTDIR', '-', or a file or directory");
    return RIG_REFUSED;
}

/* A named pipe waits for its writer, as everywhere; a device that stores data is not read. */
static enum rig_status load_file(const char *path, struct rig_topology **out, struct rig_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return refuse_open(path, errno, err);
    if (S_ISDIR(st.st_mode))
        return read_directory(path, out, err);
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
        return rig_fail(err, RIG_REFUSED, path, "%s, not a file",
                        S_ISBLK(st.st_mode) ? "a block device" : "a socket");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return refuse_open(path, errno, err);
    size_t expected = S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size : 0;
    enum rig_status status = load_stream(path, fd, expected, out, err);
    close(fd);
    return status;
}

enum rig_status rig_topology_load(const char *source, struct rig_topology **out_topology,
                                  struct rig_error *err)
{
    static const char root[] = "live:";
    if (!source || !*source) {
        rig_fail(err, RIG_INVALID, "machine", "the source is empty");
        rig_hint(err, "a source is 'live', 'live:ROOTDIR', '-', or a file or directory");
        return RIG_INVALID;
    }
    if (strcmp(source, "live") == 0)
        return read_live("", out_topology, err);
    if (strncmp(source, root, sizeof root - 1) == 0) {
        if (source[sizeof root - 1])
            return read_live(source + sizeof root - 1, out_topology, err);
        rig_fail(err, RIG_INVALID, source, "no directory follows the colon");
        rig_hint(err, "'live' alone is this machine");
        return RIG_INVALID;
    }
    if (strcmp(source, "-") == 0)
        return load_stream("standard input", STDIN_FILENO, 0, out_topology, err);
    return load_file(source, out_topology, err);
}
