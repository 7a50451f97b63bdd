#include "topology/live_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

/* More than a kernel's configuration or one processor's block ever has. */
#define CONFIG_MAX_BYTES ((size_t)4 << 20)
#define BLOCK_MAX_BYTES 65536u

/* ---- /proc/cpuinfo */

/* Copies the value of the line `key : value` in a block that ends at an empty line. */
static bool block_value(const char *text, const char *key, char *value, size_t room)
{
    size_t length = strlen(key);
    for (const char *line = text; *line && *line != '\n';) {
        size_t bytes = strcspn(line, "\n");
        if (bytes > length && memcmp(line, key, length) == 0) {
            size_t at = length + strspn(line + length, " \t");
            if (line[at] == ':') {
                at++;
                at += strspn(line + at, " \t");
                snprintf(value, room, "%.*s", (int)(bytes - at), line + at);
                return true;
            }
        }
        line += bytes;
        line += *line == '\n';
    }
    return false;
}

void cpu_facts(struct rig_topology *t, const char *text)
{
    struct rig_machine_facts *m = &t->machine;
    char value[256];
    uint64_t family;
    if (block_value(text, "vendor_id", value, sizeof value))
        m->cpu_vendor = topology_text(t, value);
    else if (block_value(text, "CPU implementer", value, sizeof value) ||
             block_value(text, "cpu", value, sizeof value) ||
             block_value(text, "isa", value, sizeof value) ||
             block_value(text, "hart", value, sizeof value))
        m->cpu_vendor.know = m->cpu_family.know = RIG_FACT_ABSENT;
    if (block_value(text, "cpu family", value, sizeof value) &&
        sysfs_parse_number(value, &family) && family <= 0xffff)
        m->cpu_family = fact_known(family);
    if (block_value(text, "model name", value, sizeof value) ||
        block_value(text, "cpu", value, sizeof value))
        m->cpu_name = topology_text(t, value);
}

static void read_cpu(struct rig_topology *t, const struct sysfs *fs)
{
    char text[BLOCK_MAX_BYTES];
    ssize_t n = sysfs_read(fs, "proc/cpuinfo", text, sizeof text - 1);
    if (n <= 0)
        return;
    text[n] = '\0';
    cpu_facts(t, text);
}

/* ---- the kernel */

static void read_text(struct rig_topology *t, const struct sysfs *fs, const char *path,
                      struct rig_text *out)
{
    char text[8192];
    if (out->know == RIG_FACT_UNKNOWN && sysfs_text(fs, path, text, sizeof text) && text[0])
        *out = topology_text(t, text);
}

/* "Linux version 6.1.0-18-amd64 (...)", "Linux host 6.1.0-18-amd64 #1 ...": the word that begins
   with a digit. */
static void read_release(struct rig_topology *t, const struct sysfs *fs, const char *path)
{
    char text[8192];
    if (t->machine.kernel.know != RIG_FACT_UNKNOWN || !sysfs_text(fs, path, text, sizeof text))
        return;
    for (char *p = text; *p;) {
        size_t bytes = strcspn(p, " \t");
        if (*p >= '0' && *p <= '9') {
            p[bytes] = '\0';
            t->machine.kernel = topology_text(t, p);
            return;
        }
        p += bytes + strspn(p + bytes, " \t");
    }
}

static void read_kernel(struct rig_topology *t, const struct sysfs *fs, bool this_machine)
{
    struct utsname name;
    if (this_machine && uname(&name) == 0) {
        t->machine.kernel = topology_text(t, name.release);
        t->machine.host = topology_text(t, name.nodename);
    }
    read_text(t, fs, "proc/sys/kernel/osrelease", &t->machine.kernel);
    read_release(t, fs, "proc/version");
    read_release(t, fs, "sos_commands/kernel/uname_-a");
    read_text(t, fs, "proc/sys/kernel/hostname", &t->machine.host);
    read_text(t, fs, "sos_commands/host/hostname", &t->machine.host);
    read_text(t, fs, "etc/hostname", &t->machine.host);
    read_text(t, fs, "proc/cmdline", &t->machine.command_line);
}

/* ---- its configuration */

/* A symbol that a whole configuration leaves out is off. */
static void p2pdma_from(struct rig_topology *t, const char *config)
{
    if (strstr(config, "\nCONFIG_PCI=y"))
        t->machine.p2pdma = fact_known(strstr(config, "\nCONFIG_PCI_P2PDMA=y") != NULL);
}

/* gzread reads a plain file as it is. */
static bool read_config(struct rig_topology *t, const struct sysfs *fs, const char *path)
{
    int fd = sysfs_open(fs, path, 0);
    if (fd < 0)
        return false;
    gzFile file = gzdopen(fd, "rb");
    if (!file) {
        close(fd);
        return false;
    }
    char *text = malloc(CONFIG_MAX_BYTES + 1);
    int n = text ? gzread(file, text, (unsigned)CONFIG_MAX_BYTES) : -1;
    gzclose(file);
    if (n > 0) {
        text[n] = '\0';
        p2pdma_from(t, text);
    }
    free(text);
    return t->machine.p2pdma.know != RIG_FACT_UNKNOWN;
}

static void read_p2pdma(struct rig_topology *t, const struct sysfs *fs)
{
    if (read_config(t, fs, "proc/config.gz") || !rig_text_has(t->machine.kernel))
        return;
    const char *release = t->machine.kernel.value;
    char path[512];
    if (strchr(release, '/') || strlen(release) > 400)
        return;
    snprintf(path, sizeof path, "boot/config-%s", release);
    if (read_config(t, fs, path))
        return;
    snprintf(path, sizeof path, "lib/modules/%s/config", release);
    read_config(t, fs, path);
}

void live_machine_facts(struct rig_topology *t, const struct sysfs *fs, bool this_machine)
{
    read_cpu(t, fs);
    read_kernel(t, fs, this_machine);
    read_p2pdma(t, fs);
    long page = this_machine ? sysconf(_SC_PAGESIZE) : 0;
    if (page > 0)
        t->machine.page_size = fact_known((uint64_t)page);
}
