#include "fixture_tree.h"

#include "topology/live.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

void fixture_make(struct fixture *f)
{
    strcpy(f->root, "/tmp/rigmem-test-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    assert_int_equal(chmod(f->root, 0755), 0);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void fixture_remove_path(const char *path)
{
    assert_int_equal(nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void fixture_remove(struct fixture *f)
{
    fixture_remove_path(f->root);
}

int fixture_set_up(void **state)
{
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_make(f);
    *state = f;
    return 0;
}

int fixture_tear_down(void **state)
{
    fixture_remove(*state);
    free(*state);
    return 0;
}

struct rig_topology *fixture_read(const struct fixture *f)
{
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    if (read_live(f->root, &t, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    return t;
}

static void make_above(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
}

static void full_path(const struct fixture *f, const char *path, char out[4096])
{
    assert_true(snprintf(out, 4096, "%s/%s", f->root, path) < 4096);
    make_above(out);
}

void fixture_bytes(const struct fixture *f, const char *path, const void *data, size_t bytes)
{
    char full[4096];
    full_path(f, path, full);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

void fixture_file(const struct fixture *f, const char *path, const char *text)
{
    fixture_bytes(f, path, text, strlen(text));
}

void fixture_link(const struct fixture *f, const char *path, const char *target)
{
    char full[4096];
    full_path(f, path, full);
    assert_int_equal(symlink(target, full), 0);
}

void fixture_function(const struct fixture *f, const char *chain)
{
    char path[4096], target[4096];
    const char *name = strrchr(chain, '/') + 1;
    snprintf(path, sizeof path, "sys/devices/%s/enable", chain);
    fixture_file(f, path, "1\n");
    snprintf(path, sizeof path, "sys/bus/pci/devices/%s", name);
    snprintf(target, sizeof target, "../../../devices/%s", chain);
    fixture_link(f, path, target);
}

void fixture_put(const struct fixture *f, const char *chain, const char *file, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "sys/devices/%s/%s", chain, file);
    fixture_file(f, path, text);
}

void config_16(struct config_space *c, size_t at, unsigned value)
{
    c->byte[at] = (uint8_t)value;
    c->byte[at + 1] = (uint8_t)(value >> 8);
}

void config_32(struct config_space *c, size_t at, uint32_t value)
{
    config_16(c, at, value & 0xffff);
    config_16(c, at + 2, value >> 16);
}

void config_header(struct config_space *c, unsigned vendor, unsigned device, unsigned class_code,
                   unsigned header, unsigned port_type)
{
    memset(c, 0, sizeof *c);
    config_16(c, 0, vendor);
    config_16(c, 2, device);
    config_16(c, 4, 0x0006);
    config_16(c, 6, 0x0010); /* a capability list */
    config_32(c, 8, (uint32_t)class_code << 8 | 0xa1);
    c->byte[0x0e] = (uint8_t)header;
    c->byte[0x34] = 0x40;
    c->byte[0x40] = 0x10;
    config_16(c, 0x42, port_type << 4 | 2);
    config_32(c, 0x4c, 0x00000104); /* 16 lanes, 16 GT/s */
    config_16(c, 0x52, 0x0083);     /* 8 lanes, 8 GT/s */
}

void config_acs(struct config_space *c, unsigned capability, unsigned control)
{
    config_32(c, 0x100, 0x0001000d); /* version 1, the last of the list */
    config_16(c, 0x104, capability);
    config_16(c, 0x106, control);
}
