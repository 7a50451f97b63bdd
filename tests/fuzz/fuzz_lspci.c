/* Text of any kind to the readers of lspci's output. Whatever they accept must be a topology whose
   links lead somewhere; whatever they refuse must say why. */
#include "topology/topology.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct rig_topology *t)
{
    for (int i = 0; i < rig_topology_count(t); i++) {
        int steps = 0;
        for (int at = i; at >= 0; at = rig_topology_function(t, at)->parent)
            if (at >= rig_topology_count(t) || steps++ > rig_topology_count(t))
                abort();
        if (rig_topology_function(t, i)->host_bridge >= rig_topology_host_bridges(t))
            abort();
    }
}

/* Reading pci.ids takes a hundred times longer than the text: mostly, no file may be opened. */
static void allow_files(bool allowed)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = allowed ? limit.rlim_max : 0;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    allow_files(size % 256 == 0);
    char *text = malloc(size ? size : 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    struct rig_topology *t = NULL;
    struct rig_error err = {.status = RIG_OK};
    enum rig_status status = read_lspci("input", text, size, &t, &err);
    if (status == RIG_OK)
        walk(t);
    else if (t || err.status != status || err.why[0] == '\0')
        abort();
    rig_topology_free(t);
    free(text);
    allow_files(true);
    return 0;
}
