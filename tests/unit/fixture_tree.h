/* A directory tree of a machine's /sys, made by a test in a directory of its own. */
#ifndef RIG_FIXTURE_TREE_H
#define RIG_FIXTURE_TREE_H

#include <stddef.h>
#include <stdint.h>

struct fixture {
    char root[64];
};

/* fixture_make makes an empty directory; fixture_remove removes it with all in it. */
void fixture_make(struct fixture *f);
void fixture_remove(struct fixture *f);

/* fixture_remove_path removes a directory with all in it. */
void fixture_remove_path(const char *path);

/* The same as the first two for cmocka: *state becomes a struct fixture. */
int fixture_set_up(void **state);
int fixture_tear_down(void **state);

/* fixture_read is the machine that the tree holds; the test fails where it is refused. */
struct rig_topology *fixture_read(const struct fixture *f);

/* fixture_bytes writes a file below the root, with the directories above it. */
void fixture_bytes(const struct fixture *f, const char *path, const void *data, size_t bytes);
void fixture_file(const struct fixture *f, const char *path, const char *text);
void fixture_link(const struct fixture *f, const char *path, const char *target);

/* fixture_function makes /sys/devices/CHAIN, the last part of which is the function, and the link
   to it in /sys/bus/pci/devices. */
void fixture_function(const struct fixture *f, const char *chain);

/* fixture_put writes a file of the function. */
void fixture_put(const struct fixture *f, const char *chain, const char *file, const char *text);

/* A configuration space being filled in, little-endian (PCI local bus specification, 6.1). */
struct config_space {
    uint8_t byte[4096];
};
void config_16(struct config_space *c, size_t at, unsigned value);
void config_32(struct config_space *c, size_t at, uint32_t value);

/* config_header fills in ids, class, header type and a capability list that begins with PCI Express
   at 0x40, of this port type. */
void config_header(struct config_space *c, unsigned vendor, unsigned device, unsigned class_code,
                   unsigned header, unsigned port_type);

/* config_acs puts an ACS capability at 0x100. */
void config_acs(struct config_space *c, unsigned capability, unsigned control);

#endif
