/* Configuration spaces of any content and length to their decoder. */
#include "topology/topology.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t bytes = size > 4096 ? 4096 : size;
    struct rig_topology *t = topology_new(RIG_SOURCE_LSPCI_HEX);
    uint8_t *config = malloc(bytes ? bytes : 1);
    struct node *node;
    if (!t || !config || topology_add(t, (struct rig_bdf){.bus = 1}, &node, NULL) != RIG_OK)
        abort();
    memcpy(config, data, bytes);
    config_decode(t, node, config, bytes);
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        if (rig_fact_has(node->f.bar[i].size) && !rig_power_of_two(node->f.bar[i].size.value))
            abort();
    topology_finish(t, "input", NULL); /* may refuse a bridge that is its own parent */
    free(config);
    rig_topology_free(t);
    return 0;
}
