/* Machines read from a /sys: this one, or one whose files somebody gathered. */
#ifndef RIG_LIVE_H
#define RIG_LIVE_H

#include "topology/sysfs.h"
#include "topology/topology.h"

struct libpci;

/* read_directory makes *out the machine whose /sys a directory holds: `path` is its root, its /sys,
   or a directory of functions' directories. RIG_BAD_INPUT: it holds no machine. RIG_REFUSED: it
   cannot be read. */
enum rig_status read_directory(const char *path, struct rig_topology **out, struct rig_error *err);

/* What one reading of a machine has seen. What a gathered tree has of no function at all was not
   gathered; on this machine it does not exist. */
struct live {
    struct rig_topology *t;
    struct sysfs fs;
    bool this_machine;
    struct libpci *pci;    /* lists functions and reads their spaces, if not NULL */
    const char *functions; /* the directory of functions: "sys/bus/pci/devices" or so */
    const char *tree;      /* the directory of the device tree */
    const char *groups;    /* the directory of IOMMU groups */
    bool seen_driver, seen_group;
};

/* A function's directory and what its path tells of its place. */
struct live_entry {
    struct rig_bdf bdf;
    enum place place;
    struct rig_bdf parent; /* as parent_bdf of struct node */
    char *path;            /* below the root */
    char *chain;           /* the path that tells its place, or NULL */
    bool bridge;           /* the list lacks it; the paths of others name it as a bridge above */
};

struct live_entries {
    struct live_entry *entry;
    int count, capacity;
};

/* live_find lists the functions of the machine, with their places: by the links in live->functions,
   else by the tree. Free the list with live_entries_free. */
enum rig_status live_find(struct live *live, struct live_entries *out, struct rig_error *err);
void live_entries_free(struct live_entries *list);

/* live_place reads the place of the function bdf off the path that its link leads along: what
   follows the last `pciDDDD:BB` is the chain of bridges. False where the path names no host bridge
   or another function. */
bool live_place(const char *path, struct rig_bdf bdf, enum place *out_place,
                struct rig_bdf *out_parent);

/* live_function adds a function and all that its directory says. */
enum rig_status live_function(struct live *live, const struct live_entry *entry,
                              struct rig_error *err);

/* live_complete fills in what follows from all functions together: what was gathered of none, and
   the bus addresses of virtual functions. */
void live_complete(struct live *live);

#endif
