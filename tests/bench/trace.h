/* The trace format that tracegen writes and bench_ranges reads. */
#ifndef TRACE_H
#define TRACE_H
#include <stdint.h>

#define TRACE_MAGIC UINT64_C(0x3145434152544752) /* "RGTRACE1" */

enum { TRACE_ALLOC, TRACE_FREE };

struct trace_head {
    uint64_t magic, capacity, ops, ids;
};

struct trace_op {
    uint32_t id;
    uint8_t op, align_log2;
    uint16_t zero;
    uint64_t size;
};
#endif
