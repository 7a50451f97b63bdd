#include "topology/topology.h"

#include "topology/live.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static bool begins(const char *text, size_t bytes, const char *word)
{
    return bytes >= strlen(word) && strncasecmp(text, word, strlen(word)) == 0;
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
    const char *what = NULL;
    size_t window = bytes < 4096 ? bytes : 4096;
    for (size_t i = 0; !what && i < RIG_ARRAY_LENGTH(kinds); i++)
        for (size_t at = 0; !what && at < window; at++)
            if (begins(text + at, window - at, kinds[i].mark))
                what = kinds[i].what;
    rig_fail_at(err, name, 0, 0, "this is %s", what ? what : "XML of some other program");
    rig_hint(err, "%s", capture_hint);
    return RIG_BAD_INPUT;
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

/* Small enough to stay in a cache between the kernel's copy and the reader. */
#define WINDOW_BYTES ((size_t)128 << 10)

/* A piece of `bytes` bytes was read behind what was there. Binary data is refused at the first
   bytes that tell, so that a stream without end is. */
static enum rig_status look_at_piece(struct text_stream *s, size_t bytes, struct rig_error *err)
{
    const char *piece = s->data + s->bytes - bytes;
    if (!s->looked && s->bytes < 512 && !s->at_end)
        return RIG_OK;
    if (!s->looked) {
        s->looked = true;
        return refuse_binary(s->name, s->data, s->bytes, err);
    }
    const char *nul = bytes ? memchr(piece, '\0', bytes) : NULL;
    if (!nul)
        return RIG_OK;
    rig_fail_at(err, s->name, 0, 0, "this is binary, no text (a NUL byte at offset %zu)",
                s->taken - bytes + (size_t)(nul - piece));
    rig_hint(err, "%s", capture_hint);
    return RIG_BAD_INPUT;
}

static enum rig_status make_room(struct text_stream *s, struct rig_error *err)
{
    if (s->bytes <= s->room / 2 && s->room)
        return RIG_OK;
    size_t room = s->room ? s->room * 2 : WINDOW_BYTES;
    char *data = realloc(s->data, room);
    if (!data)
        return rig_fail_memory(err);
    s->data = data;
    s->room = room;
    return RIG_OK;
}

enum rig_status text_stream_more(struct text_stream *s, const char *keep, struct rig_error *err)
{
    if (keep) {
        s->bytes -= (size_t)(keep - s->data);
        memmove(s->data, keep, s->bytes);
    }
    enum rig_status status = make_room(s, err);
    while (status == RIG_OK && !s->at_end && s->bytes < s->room) {
        ssize_t n = read(s->fd, s->data + s->bytes, s->room - s->bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rig_fail(err, RIG_FAILED, s->name, "reading failed: %s", RIG_ERRNO(errno));
        s->at_end = n == 0;
        s->bytes += (size_t)n;
        s->taken += (size_t)n;
        if (s->taken > SOURCE_MAX_BYTES)
            return rig_fail(err, RIG_BAD_INPUT, s->name, "more than %zu MiB",
                            SOURCE_MAX_BYTES >> 20);
        status = look_at_piece(s, (size_t)n, err);
    }
    return status;
}

/* True iff the text begins as one of lspci's may and a capture or markup does not. */
static bool is_plain_text(const struct text_stream *s)
{
    size_t at = s->bytes >= 3 && memcmp(s->data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < s->bytes && isspace((unsigned char)s->data[at]))
        at++;
    return at < s->bytes && !strchr("{[<", s->data[at]);
}

/* Text of lspci is read through a window; what is not is small, or refused. */
static enum rig_status load_stream(const char *name, int fd, size_t expected,
                                   struct rig_topology **out, struct rig_error *err)
{
    if (expected > SOURCE_MAX_BYTES)
        return rig_fail(err, RIG_BAD_INPUT, name, "more than %zu MiB", SOURCE_MAX_BYTES >> 20);
    struct text_stream s = {.name = name, .fd = fd};
    enum rig_status status = text_stream_more(&s, NULL, err);
    if (status == RIG_OK && is_plain_text(&s)) {
        status = read_lspci_stream(&s, out, err);
    } else {
        while (status == RIG_OK && !s.at_end)
            status = text_stream_more(&s, s.data, err);
        if (status == RIG_OK)
            status = rig_topology_parse(name, s.data, s.bytes, out, err);
    }
    free(s.data);
    return status;
}

static enum rig_status refuse_open(const char *path, int error, struct rig_error *err)
{
    rig_fail(err, RIG_REFUSED, path, "%s", RIG_ERRNO(error));
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
        return rig_fail(err, RIG_REFUSED, path, "a block device or a socket, not a file");
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
