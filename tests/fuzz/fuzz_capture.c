/* Captures: any bytes are read or refused, and what is read is written and read again the same. */
#include "topology/topology.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct rig_topology *t, *again;
    char *first, *second;
    size_t first_bytes, second_bytes;
    struct rig_error err;
    rig_error_clear(&err);
    if (read_capture("fuzz", (const char *)data, bytes, &t, &err) != RIG_OK) {
        if (err.status != RIG_BAD_INPUT || !err.why[0] || !err.where[0])
            abort();
        return 0;
    }
    if (rig_topology_capture(t, false, &first, &first_bytes, NULL) != RIG_OK ||
        read_capture("again", first, first_bytes, &again, NULL) != RIG_OK ||
        rig_topology_capture(again, false, &second, &second_bytes, NULL) != RIG_OK)
        abort();
    if (first_bytes != second_bytes || memcmp(first, second, first_bytes) != 0)
        abort();
    free(second);
    if (rig_topology_capture(t, true, &second, &second_bytes, NULL) != RIG_OK)
        abort();
    rig_topology_free(t);
    rig_topology_free(again);
    free(first);
    free(second);
    return 0;
}
