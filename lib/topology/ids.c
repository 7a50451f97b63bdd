#include "topology/topology.h"

#include "topology/libpci.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Longer than any file of ids: Debian's has 1.3 MB. */
#define IDS_MAX_BYTES ((size_t)64 << 20)
/* Longer than any pair of names. */
#define NAME_MAX_BYTES 512

void rig_topology_name_functions(struct rig_topology *t)
{
    struct libpci *pci = NULL;
    for (int i = 0; i < t->count; i++) {
        struct rig_function *f = &t->node[i].f;
        /* a virtual function's id reads ffff:ffff (PCIe 6.0, 9.3.4.1.1) */
        if (f->name || !rig_fact_has(f->vendor) || !rig_fact_has(f->device) ||
            fact_is(f->vendor, 0xffff))
            continue;
        if (!pci && !libpci_names(&pci))
            return;
        char text[NAME_MAX_BYTES];
        if (libpci_name(pci, (uint16_t)f->vendor.value, (uint16_t)f->device.value, text,
                        sizeof text)) {
            f->name = topology_intern(t, text, sizeof text);
            t->node[i].name_found = f->name != NULL;
        }
    }
    libpci_close(pci);
}

/* A vendor's line in the file, and the lines of its devices below it, up to `end`. */
struct vendor {
    const char *name;
    size_t bytes;
    const char *devices, *end;
    uint16_t id;
};

/* An answer given before. */
struct answer {
    char *name;
    bool found, shared;
    uint16_t vendor, device;
};

#define ANSWERS 256u

struct ids_index {
    char *text;
    size_t bytes;
    struct vendor *vendor; /* by name */
    size_t vendors;
    struct answer answer[ANSWERS];
};

static bool read_whole(const char *path, char **out_text, size_t *out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    struct stat st;
    char *text = NULL;
    size_t bytes = 0;
    size_t size = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
    if (size > 0 && size <= IDS_MAX_BYTES)
        text = malloc(size);
    while (text && bytes < size) {
        ssize_t n = read(fd, text + bytes, size - bytes);
        if (n <= 0)
            break;
        bytes += (size_t)n;
    }
    close(fd);
    if (!text)
        return false;
    *out_text = text;
    *out_bytes = bytes;
    return true;
}

/* Reads four hex digits, as pci.ids has them. */
static bool hex4(const char *text, uint16_t *out)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9')
            value = value << 4 | (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (unsigned)(c - 'a' + 10);
        else
            return false;
    }
    *out = (uint16_t)value;
    return true;
}

/* The end of the line that begins at `line`, before `end`. */
static const char *line_end(const char *line, const char *end)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    return newline ? newline : end;
}

/* The line behind one that ends at `stop`, or `end`. */
static const char *next_line(const char *stop, const char *end)
{
    return stop < end ? stop + 1 : end;
}

/* Splits `ID  Name`; false for a line of another form. */
static bool split_line(const char *line, const char *end, uint16_t *out_id, const char **out_name)
{
    if (end - line < 7 || !hex4(line, out_id) || line[4] != ' ' || line[5] != ' ')
        return false;
    *out_name = line + 6;
    return true;
}

static bool add_vendor(struct ids_index *ids, size_t *capacity, struct vendor vendor)
{
    if (ids->vendors == *capacity) {
        size_t grown = *capacity ? *capacity * 2 : 4096;
        struct vendor *more = realloc(ids->vendor, grown * sizeof *more);
        if (!more)
            return false;
        ids->vendor = more;
        *capacity = grown;
    }
    ids->vendor[ids->vendors++] = vendor;
    return true;
}

static int compare_names(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t common = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = memcmp(a, b, common);
    if (order != 0 || a_bytes == b_bytes)
        return order;
    return a_bytes < b_bytes ? -1 : 1;
}

static int by_name(const void *a, const void *b)
{
    const struct vendor *x = a, *y = b;
    return compare_names(x->name, x->bytes, y->name, y->bytes);
}

static bool index_vendors(struct ids_index *ids)
{
    size_t capacity = 0;
    const char *end = ids->text + ids->bytes;
    for (const char *line = ids->text, *stop; line < end; line = next_line(stop, end)) {
        stop = line_end(line, end);
        if (stop - line > 2 && line[0] == 'C' && line[1] == ' ')
            break; /* classes follow, whose lines look like vendors' */
        struct vendor v = {.end = end};
        if (split_line(line, stop, &v.id, &v.name)) {
            v.bytes = (size_t)(stop - v.name);
            v.devices = next_line(stop, end);
            if (ids->vendors)
                ids->vendor[ids->vendors - 1].end = line;
            if (!add_vendor(ids, &capacity, v))
                return false;
        }
    }
    if (ids->vendors == 0)
        return false;
    qsort(ids->vendor, ids->vendors, sizeof *ids->vendor, by_name);
    return true;
}

struct ids_index *ids_index_read(const char *path)
{
    struct ids_index *ids = calloc(1, sizeof *ids);
    if (!ids)
        return NULL;
    if (!read_whole(path, &ids->text, &ids->bytes) || !index_vendors(ids)) {
        ids_index_close(ids);
        return NULL;
    }
    return ids;
}

/* A libpci that reads its database by zlib names the packed one. */
struct ids_index *ids_index_open(void)
{
    char path[4096];
    if (!libpci_ids_path(path, sizeof path))
        return NULL;
    char *packed = strrchr(path, '.');
    if (packed && strcmp(packed, ".gz") == 0)
        *packed = '\0';
    return ids_index_read(path);
}

void ids_index_close(struct ids_index *ids)
{
    if (!ids)
        return;
    for (size_t i = 0; i < ANSWERS; i++)
        free(ids->answer[i].name);
    free(ids->vendor);
    free(ids->text);
    free(ids);
}

/* Counts the devices of v that are called `name`; *out_device is the first one's id. */
static int count_devices(const struct vendor *v, const char *name, size_t bytes,
                         uint16_t *out_device)
{
    int found = 0;
    for (const char *line = v->devices, *stop; line < v->end; line = next_line(stop, v->end)) {
        stop = line_end(line, v->end);
        uint16_t id;
        const char *device;
        if (*line == '\t' && split_line(line + 1, stop, &id, &device) &&
            (size_t)(stop - device) == bytes && memcmp(device, name, bytes) == 0) {
            if (found++ == 0)
                *out_device = id;
        }
    }
    return found;
}

/* lspci prints `Device 1234` for an id that its database lacks. */
static int count_numbered(const char *name, size_t bytes, uint16_t *out_device)
{
    static const char word[] = "Device ";
    size_t length = sizeof word - 1;
    return bytes == length + 4 && memcmp(name, word, length) == 0 &&
           hex4(name + length, out_device);
}

/* Counts the devices of one vendor that print as `name` when its first `split` bytes are the
 * vendor. */
#define SEVERAL_VENDORS (-1)

static int count_split(const struct ids_index *ids, const char *name, size_t bytes, size_t split,
                       uint16_t *out_vendor, uint16_t *out_device)
{
    size_t low = 0, high = ids->vendors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_names(ids->vendor[middle].name, ids->vendor[middle].bytes, name, split) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const char *device = name + split + 1;
    size_t device_bytes = bytes - split - 1;
    int found = 0;
    for (; low < ids->vendors; low++) {
        const struct vendor *v = &ids->vendor[low];
        if (compare_names(v->name, v->bytes, name, split) != 0)
            break;
        int here = count_devices(v, device, device_bytes, out_device);
        if (here == 0)
            here = count_numbered(device, device_bytes, out_device);
        if (here == 0)
            continue;
        if (found)
            return SEVERAL_VENDORS;
        *out_vendor = v->id;
        found = here;
    }
    return found;
}

/* How many devices print as `name`; 0 also where they are of several vendors. */
static int search(const struct ids_index *ids, const char *name, uint16_t *out_vendor,
                  uint16_t *out_device)
{
    size_t bytes = strlen(name);
    if (bytes >= NAME_MAX_BYTES)
        return 0;
    if (bytes == 16 && memcmp(name, "Device ", 7) == 0 && name[11] == ':')
        return hex4(name + 7, out_vendor) && hex4(name + 12, out_device);
    int found = 0;
    for (size_t split = 1; split + 1 < bytes; split++) {
        uint16_t vendor, device;
        int here = name[split] == ' ' ? count_split(ids, name, bytes, split, &vendor, &device) : 0;
        if (here == 0)
            continue;
        if (here == SEVERAL_VENDORS || found)
            return 0;
        found = here;
        *out_vendor = vendor;
        *out_device = device;
    }
    return found;
}

bool ids_find_by_name(struct ids_index *ids, const char *name, uint16_t *out_vendor,
                      uint16_t *out_device, bool *out_shared)
{
    size_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    struct answer *a = &ids->answer[(hash ^ hash >> 16) % ANSWERS];
    if (!a->name || strcmp(a->name, name) != 0) {
        struct answer fresh = {.name = strdup(name)};
        int found = search(ids, name, &fresh.vendor, &fresh.device);
        fresh.found = found > 0;
        fresh.shared = found > 1;
        free(a->name);
        *a = fresh;
    }
    if (!a->found)
        return false;
    *out_vendor = a->vendor;
    *out_device = a->device;
    *out_shared = a->shared;
    return true;
}
