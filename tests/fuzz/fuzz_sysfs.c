/* What /sys and /proc hold: the text of `resource`, of links, of numbers, of /proc/cpuinfo. The
   first byte chooses which of them the rest is. */
#include "topology/live.h"
#include "topology/live_machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What was read, printed as the kernel prints it, reads the same. */
static void try_resource(const char *text, size_t bytes)
{
    struct resource r[17], again[17];
    char printed[17 * 60];
    size_t used = 0;
    if (!resource_parse(text, bytes, r, RIG_ARRAY_LENGTH(r)))
        return;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(r); i++)
        used += (size_t)snprintf(printed + used, sizeof printed - used,
                                 "0x%016" PRIx64 " 0x%016" PRIx64 " 0x%016" PRIx64 "\n", r[i].start,
                                 r[i].end, r[i].flags);
    if (!resource_parse(printed, used, again, RIG_ARRAY_LENGTH(again)) ||
        memcmp(r, again, sizeof r) != 0)
        abort();
}

static void try_place(const char *text)
{
    enum place place = PLACE_UNKNOWN;
    struct rig_bdf bdf, parent = {0};
    const char *name = sysfs_base_name(text);
    if (!rig_bdf_parse(name, &bdf) || !live_place(text, bdf, &place, &parent))
        return;
    if (place != PLACE_ROOT && place != PLACE_UNDER)
        abort();
}

static void try_cpu(const char *text)
{
    struct rig_topology *t = topology_new(RIG_SOURCE_SYSFS);
    if (!t)
        return;
    cpu_facts(t, text);
    if (rig_fact_has(t->machine.cpu_family) && t->machine.cpu_family.value > 0xffff)
        abort();
    rig_topology_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    char *text = malloc(bytes);
    if (!text)
        return 0;
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = '\0';
    uint64_t number;
    switch (data[0]) {
    case 'r':
        try_resource(text, bytes - 1);
        break;
    case 'p':
        try_place(text);
        break;
    case 'c':
        try_cpu(text);
        break;
    default:
        sysfs_parse_number(text, &number);
    }
    free(text);
    return 0;
}
