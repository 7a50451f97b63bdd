#include "topology/sysfs.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int sysfs_open(const struct sysfs *fs, const char *path, int flags)
{
    flags |= O_RDONLY | O_CLOEXEC;
    if (!(flags & O_PATH)) /* which openat2 takes with no other flag but these */
        flags |= O_NONBLOCK | O_NOCTTY;
    if (!fs->confined)
        return openat(fs->root, path, flags);
    struct open_how how = {.flags = (unsigned)flags,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, fs->root, path, &how, sizeof how);
}

DIR *sysfs_directory(const struct sysfs *fs, const char *path, int flags)
{
    int fd = sysfs_open(fs, path, O_DIRECTORY | flags);
    if (fd < 0)
        return NULL;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        errno = ENOMEM; /* all that a directory just opened can lack */
    }
    return dir;
}

ssize_t sysfs_read(const struct sysfs *fs, const char *path, void *data, size_t room)
{
    int fd = sysfs_open(fs, path, 0);
    if (fd < 0)
        return -1;
    struct stat st;
    size_t bytes = 0;
    ssize_t n = -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        do {
            n = read(fd, (char *)data + bytes, room - bytes);
            if (n > 0)
                bytes += (size_t)n;
        } while ((n > 0 && bytes < room) || (n < 0 && errno == EINTR));
    } else {
        errno = EINVAL;
    }
    int error = errno;
    close(fd);
    errno = error;
    return n < 0 && bytes == 0 ? -1 : (ssize_t)bytes;
}

bool sysfs_text(const struct sysfs *fs, const char *path, char *text, size_t room)
{
    ssize_t n = sysfs_read(fs, path, text, room);
    if (n < 0 || (size_t)n >= room)
        return false;
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    size_t bytes = strlen(text);
    while (bytes > 0 && isspace((unsigned char)text[bytes - 1]))
        text[--bytes] = '\0';
    size_t lead = 0;
    while (isspace((unsigned char)text[lead]))
        lead++;
    memmove(text, text + lead, bytes - lead + 1);
    return true;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

bool sysfs_parse_number(const char *text, uint64_t *out)
{
    uint64_t base = 10, value = 0;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        base = 16;
        text += 2;
    }
    if (!*text)
        return false;
    for (; *text; text++) {
        int digit = digit_of(*text);
        if ((uint64_t)digit >= base || !rig_multiply(value, base, &value) ||
            !rig_add(value, (uint64_t)digit, &value))
            return false;
    }
    *out = value;
    return true;
}

bool sysfs_number(const struct sysfs *fs, const char *path, uint64_t *out)
{
    char text[64];
    return sysfs_text(fs, path, text, sizeof text) && sysfs_parse_number(text, out);
}

bool sysfs_link(const struct sysfs *fs, const char *path, char *text, size_t room)
{
    int fd = sysfs_open(fs, path, O_PATH | O_NOFOLLOW);
    if (fd < 0)
        return false;
    ssize_t n = readlinkat(fd, "", text, room);
    close(fd);
    if (n < 0 || (size_t)n >= room)
        return false;
    text[n] = '\0';
    return true;
}

const char *sysfs_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Reads the hex number at *at, which spaces and `0x` may go before. */
static bool next_hex(const char **at, const char *end, uint64_t *out)
{
    const char *p = *at;
    while (p < end && *p == ' ')
        p++;
    if (end - p < 3 || p[0] != '0' || p[1] != 'x')
        return false;
    p += 2;
    uint64_t value = 0;
    int digits = 0;
    for (; p < end && digit_of(*p) < 16; p++, digits++)
        value = value << 4 | (uint64_t)digit_of(*p);
    if (digits == 0 || digits > 16)
        return false;
    *at = p;
    *out = value;
    return true;
}

bool resource_parse(const char *text, size_t bytes, struct resource *out, size_t count)
{
    const char *at = text, *end = text + bytes;
    memset(out, 0, count * sizeof *out);
    for (size_t i = 0; i < count && at < end; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        struct resource r;
        if (!next_hex(&at, stop, &r.start) || !next_hex(&at, stop, &r.end) ||
            !next_hex(&at, stop, &r.flags) || at != stop)
            return false;
        out[i] = r;
        at = newline ? newline + 1 : end;
    }
    return true;
}
