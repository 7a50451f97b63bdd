/* Sizes and addresses at the edges of what they can be, in every request that takes one: each ends
   as the contract says, worked out here from the sizes of the machine, and what was not done holds
   nothing. */
#include "rigs.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define PAGE UINT64_C(4096)
#define GPU_BYTES MIB(64)
#define SYSTEM_BYTES MIB(64)

static const uint64_t edges[] = {
    0,
    1,
    PAGE - 1,
    PAGE,
    PAGE + 1,
    MIB(2) - 1,
    MIB(2),
    MIB(2) + 1,
    MIB(8) - PAGE - 1,
    MIB(8) - PAGE,
    MIB(8) - 1,
    MIB(8),
    MIB(8) + 1,
    GPU_BYTES - 1,
    GPU_BYTES,
    GPU_BYTES + 1,
    (UINT64_C(1) << 31) - 1,
    UINT64_C(1) << 31,
    (UINT64_C(1) << 32) - 1,
    UINT64_C(1) << 32,
    (UINT64_C(1) << 32) + 1,
    (UINT64_C(1) << 53) + 1,
    INT64_MAX,
    UINT64_C(1) << 63,
    (UINT64_C(1) << 63) + 1,
    0 - MIB(8),
    0 - MIB(2),
    0 - PAGE - 1,
    0 - PAGE,
    1 - PAGE,
    UINT64_MAX,
};
#define EDGES RIG_ARRAY_LENGTH(edges)

static void open_small(struct rig *r, const char *text)
{
    *r = (struct rig){.machine = NULL};
    struct rig_topology *t = build_machine(text, "GenuineIntel:6");
    t->machine.memory_base = fact_known(UINT64_C(4) << 30);
    t->machine.memory_bytes = fact_known(SYSTEM_BYTES);
    struct rig_gpus_options spaces = rig_space_options();
    assert_int_equal(rig_twin_open(t, NULL, &r->machine, &r->err), RIG_OK);
    assert_int_equal(rig_gpus_create(r->machine, &spaces, &r->gpus, &r->err), RIG_OK);
    rig_topology_free(t);
    rig_take(r, 0, NULL);
    rig_take(r, 1, NULL);
}

/* ---- alloc */

/* The size rounded up to the unit, in 128 bits: it never wraps. */
static unsigned __int128 rounded(uint64_t bytes, uint64_t unit)
{
    return ((unsigned __int128)bytes + unit - 1) / unit * unit;
}

static void check_alloc(struct rig *r, enum rig_kind kind, uint64_t bytes, bool uncached)
{
    struct rig_held before = rig_held(r);
    uint64_t unit = kind != RIG_KIND_HOST && bytes >= MIB(8) ? MIB(2) : PAGE;
    uint64_t most = kind == RIG_KIND_HOST ? before.system_free : before.pool_free[0];
    struct rig_region region = {.memory = NULL};
    rig_error_clear(&r->err);
    enum rig_status status = rig_memory_alloc(r->m[0], kind, bytes, uncached, &region, &r->err);
    if (bytes == 0) {
        rig_invalid(r, status, "0 bytes");
    } else if (rounded(bytes, unit) > most) {
        /* More system memory than the machine ever had may be refused; else freeing makes room. */
        if (!(kind == RIG_KIND_HOST && status == RIG_REFUSED))
            assert_int_equal(status, RIG_NO_ROOM);
        assert_true(r->err.why[0] != '\0');
        rig_error_clear(&r->err);
    } else {
        assert_int_equal(status, RIG_OK);
        assert_true(rig_info(region).bytes == rounded(bytes, unit));
        rig_free(r, region);
    }
    rig_same(before, rig_held(r));
}

static void alloc_at_every_edge(void **state)
{
    (void)state;
    struct rig r;
    open_small(&r, RIG_SWITCH RIG_GPUS);
    for (size_t i = 0; i < EDGES; i++)
        for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++)
            check_alloc(&r, (enum rig_kind)kind, edges[i], i % 2);
    /* All that there is, and a page more. */
    uint64_t all = rig_held(&r).pool_free[0];
    check_alloc(&r, RIG_KIND_HOST, SYSTEM_BYTES, false);
    check_alloc(&r, RIG_KIND_HOST, SYSTEM_BYTES + 1, false);
    check_alloc(&r, RIG_KIND_GPU, all + 1, false);
    struct rig_region region;
    rig_invalid(&r, rig_memory_alloc(r.m[0], (enum rig_kind)3, PAGE, false, &region, &r.err),
                "no such kind");
    rig_close(&r);
}

/* ---- map_host */

/* The request is of whole pages [first, end), of which [start, start + bytes) are there. */
static void check_map_host(struct rig *r, uint64_t at, uint64_t bytes, uint64_t start,
                           uint64_t there)
{
    struct rig_held before = rig_held(r);
    struct rig_region region;
    unsigned __int128 end = rounded(0, 1) + at + bytes;
    end = (end + PAGE - 1) / PAGE * PAGE;
    rig_error_clear(&r->err);
    enum rig_status status =
        rig_memory_map_host(r->m[0], (void *)(uintptr_t)at, bytes, &region, &r->err);
    if (bytes == 0) {
        rig_invalid(r, status, "0 bytes");
    } else if (end > UINT64_MAX) {
        rig_invalid(r, status, "no range of addresses");
    } else if (at / PAGE * PAGE >= start && end <= start + there) {
        assert_int_equal(status, RIG_OK);
        assert_true(rig_info(region).bytes == bytes);
        assert_true(rig_region_address(region) % PAGE == at % PAGE);
        rig_free(r, region);
    } else {
        rig_refused(r, status, "", NULL);
    }
    rig_same(before, rig_held(r));
}

static void map_host_at_every_edge_of_size_and_address(void **state)
{
    (void)state;
    struct rig r;
    open_small(&r, RIG_SWITCH RIG_GPUS);
    struct rig_region h = rig_alloc(&r, 0, RIG_KIND_HOST, MIB(8));
    rig_gpu_address at = rig_region_address(h);
    const uint64_t bases[] = {at, at + 1, at + PAGE - 1, at + MIB(8) - 1, at + MIB(8), at - 1,
                              0,  1};
    for (size_t i = 0; i < EDGES; i++) {
        for (size_t k = 0; k < RIG_ARRAY_LENGTH(bases); k++)
            check_map_host(&r, bases[k], edges[i], at, MIB(8));
        for (size_t k = 0; k < EDGES; k++)
            check_map_host(&r, edges[k], edges[i], at, MIB(8));
    }
    rig_close(&r);
}

static void the_processs_own_pages_at_every_edge(void **state)
{
    (void)state;
    struct rig r;
    open_small(&r, RIG_SWITCH RIG_GPUS_IOMMU);
    /* Four pages with nothing on either side. */
    unsigned char *own =
        mmap(NULL, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(own != MAP_FAILED);
    munmap(own, PAGE);
    munmap(own + 5 * PAGE, PAGE);
    uint64_t start = (uint64_t)(uintptr_t)own + PAGE;
    const uint64_t bases[] = {
        start, start + 1, start + PAGE - 1, start + 4 * PAGE - 1, start + 4 * PAGE, start - 1};
    for (size_t i = 0; i < EDGES; i++)
        for (size_t k = 0; k < RIG_ARRAY_LENGTH(bases); k++)
            check_map_host(&r, bases[k], edges[i], start, 4 * PAGE);
    munmap(own + PAGE, 4 * PAGE);
    rig_close(&r);
}

/* ---- windows */

static void check_access(struct rig *r, struct rig_region region, uint64_t bytes, uint64_t offset,
                         uint64_t count)
{
    unsigned char *data = count <= bytes ? calloc(1, bytes) : NULL;
    unsigned char byte = 0x11;
    bool fits = (unsigned __int128)offset + count <= bytes;
    rig_error_clear(&r->err);
    enum rig_status read =
        rig_region_read(region, offset, data ? data : &byte, (size_t)count, &r->err);
    assert_int_equal(read, fits ? RIG_OK : RIG_INVALID);
    rig_error_clear(&r->err);
    enum rig_status written =
        rig_region_write(region, offset, data ? data : &byte, (size_t)count, &r->err);
    assert_int_equal(written, fits ? RIG_OK : RIG_INVALID);
    rig_error_clear(&r->err);
    free(data);
}

static void windows_at_every_edge_of_offset_and_size(void **state)
{
    (void)state;
    struct rig r;
    open_small(&r, RIG_SWITCH RIG_GPUS);
    struct rig_region h = rig_alloc(&r, 0, RIG_KIND_HOST, 3 * PAGE), b;
    assert_int_equal(rig_memory_map_host(r.m[0], (void *)(uintptr_t)(rig_region_address(h) + 100),
                                         PAGE, &b, &r.err),
                     RIG_OK);
    const struct {
        struct rig_region region;
        uint64_t bytes;
    } of[] = {
        {h, 3 * PAGE},
        {b, PAGE},
        {rig_alloc(&r, 0, RIG_KIND_BAR, 3 * PAGE), 3 * PAGE},
        {rig_map_peer(&r, 1, b), PAGE},
    };
    for (size_t k = 0; k < RIG_ARRAY_LENGTH(of); k++)
        for (size_t i = 0; i < EDGES; i++)
            for (size_t n = 0; n < EDGES; n++) {
                check_access(&r, of[k].region, of[k].bytes, edges[i], edges[n]);
                check_access(&r, of[k].region, of[k].bytes, of[k].bytes - 1, edges[n]);
                check_access(&r, of[k].region, of[k].bytes, of[k].bytes, edges[n]);
                check_access(&r, of[k].region, of[k].bytes, edges[i], of[k].bytes);
            }
    /* GPU memory has none, whatever is asked for. */
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_GPU, PAGE);
    unsigned char byte;
    for (size_t i = 0; i < EDGES; i++)
        rig_invalid(&r, rig_region_read(g, edges[i], &byte, 1, &r.err), "no window");
    rig_close(&r);
}

/* ---- what memories are made of */

static void create_at_every_edge_of_its_size(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL, 0);
    struct rig_device *dev;
    struct rig_memory *m;
    for (size_t i = 0; i < EDGES; i++) {
        assert_int_equal(rig_device_take(r.machine, rig_gpu_names[0], &dev, &r.err), RIG_OK);
        struct rig_memory_options options = {.bytes = edges[i]};
        enum rig_status status = rig_memory_create(r.gpus, dev, &options, &m, &r.err);
        if (edges[i] == 0 || (edges[i] % PAGE == 0 && edges[i] >= MIB(1) && edges[i] <= GPU_BYTES))
            assert_int_equal(status, RIG_OK);
        else
            rig_invalid(&r, status, "of memory");
        assert_int_equal(rig_device_release(dev, &r.err), RIG_OK);
    }
    rig_close(&r);
}

static void spaces_at_every_edge(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL, 0);
    const uint64_t gib = UINT64_C(1) << 30, end = UINT64_C(1) << 47;
    const uint64_t more[] = {gib - 1, gib, gib + 1, 4 * gib, end - 4 * gib, end - gib, end};
    uint64_t all[EDGES + RIG_ARRAY_LENGTH(more)];
    memcpy(all, edges, sizeof edges);
    memcpy(all + EDGES, more, sizeof more);
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(all); i++)
        for (size_t k = 0; k < RIG_ARRAY_LENGTH(all); k++) {
            struct rig_gpus_options options = {.space_base = all[i], .space_bytes = all[k]};
            struct rig_gpus *g = NULL;
            /* Where one is not given it is 0x200000000000, or 16 TiB. */
            unsigned __int128 base = all[i] ? all[i] : UINT64_C(0x200000000000);
            unsigned __int128 bytes = all[k] ? all[k] : UINT64_C(16) << 40;
            bool sane = all[i] % gib == 0 && all[k] % gib == 0 && base + 4 * bytes <= end;
            enum rig_status status = rig_gpus_create(r.machine, &options, &g, &r.err);
            if (sane)
                assert_int_equal(status, RIG_OK);
            else
                rig_invalid(&r, status, "address spaces are multiples of 1 GiB");
            rig_gpus_free(g);
        }
    rig_close(&r);
}

static void fabrics_of_too_few_and_too_many(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, RIG_SWITCH RIG_GPUS, 0);
    static const int counts[] = {INT_MIN, -1, 0, 1, 257, INT_MAX};
    const char *names[257];
    struct rig_link links[257];
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(names); i++)
        names[i] = rig_gpu_names[i % 4];
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(counts); i++)
        rig_invalid(&r, rig_gpus_link(r.gpus, 1, names, counts[i], links, &r.err), "2 to 256");
    rig_invalid(&r, rig_gpus_link(r.gpus, 1, names, 256, links, &r.err), "twice");
    names[1] = NIC;
    rig_invalid(&r, rig_gpus_link(r.gpus, 1, names, 2, links, &r.err), "no GPU");
    names[1] = "0000:7f:00.0";
    rig_invalid(&r, rig_gpus_link(r.gpus, 1, names, 2, links, &r.err), "no such function");
    assert_int_equal(rig_gpus_link(r.gpus, 1, rig_gpu_names, 2, links, &r.err), RIG_OK);
    rig_refused(&r, rig_gpus_link(r.gpus, 2, rig_gpu_names + 2, 2, links, &r.err), "one fabric",
                NULL);
    rig_close(&r);
}

/* ---- what entries hold */

static void check_fits(const struct rig_format *f, struct rig_target target, unsigned bits,
                       uint64_t address, uint64_t bytes)
{
    struct rig_range range = {address, bytes};
    unsigned __int128 end = (unsigned __int128)address + bytes;
    enum rig_status status = rig_page_table_fits(f, 0, target, &range, 1, NULL);
    if (bytes == 0 || (address | bytes) % PAGE != 0 || end > (unsigned __int128)1 << 64)
        assert_int_equal(status, RIG_INVALID);
    else
        assert_int_equal(status, (end - 1) >> bits == 0 ? RIG_OK : RIG_REFUSED);
}

static void entries_of_every_format_hold_addresses_up_to_their_last_bit(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        const struct {
            enum rig_memory_kind memory;
            unsigned bits;
        } kind[] = {{RIG_MEMORY_OWN, f->own_bits},
                    {RIG_MEMORY_SYSTEM, f->system_bits},
                    {RIG_MEMORY_LINK, f->link_bits}};
        for (size_t k = 0; k < RIG_ARRAY_LENGTH(kind); k++) {
            struct rig_target target = {.memory = kind[k].memory};
            if (kind[k].memory == RIG_MEMORY_LINK && f->link == RIG_LINK_NONE)
                continue;
            uint64_t end = kind[k].bits < 64 ? UINT64_C(1) << kind[k].bits : 0;
            const uint64_t at[] = {0, end - PAGE, end, end + PAGE, end - MIB(2), end - PAGE - 1};
            for (size_t a = 0; a < RIG_ARRAY_LENGTH(at); a++)
                for (size_t n = 0; n < EDGES; n++)
                    check_fits(f, target, kind[k].bits, at[a], edges[n]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc_at_every_edge),
        cmocka_unit_test(map_host_at_every_edge_of_size_and_address),
        cmocka_unit_test(the_processs_own_pages_at_every_edge),
        cmocka_unit_test(windows_at_every_edge_of_offset_and_size),
        cmocka_unit_test(create_at_every_edge_of_its_size),
        cmocka_unit_test(spaces_at_every_edge),
        cmocka_unit_test(fabrics_of_too_few_and_too_many),
        cmocka_unit_test(entries_of_every_format_hold_addresses_up_to_their_last_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
