/* What allocations and borrowed memory are: kinds, rounding, addresses, windows, and outcomes. */
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* ---- the kinds */

static void gpu_memory_is_reached_by_its_gpu_and_not_by_the_process(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(8));
    struct rig_host host;
    assert_int_equal(rig_info(g).target, RIG_TARGET_GPU);
    assert_false(rig_region_host(g, &host));
    uint8_t byte = 0x5a;
    assert_int_equal(rig_region_read(g, 0, &byte, 1, NULL), RIG_INVALID);
    assert_int_equal(twin_memory_write(r->machine, rig_number(r, rig_gpu_names[0]),
                                       rig_page_of(g, KIB(4)), &byte, 1, NULL),
                     RIG_OK);
    assert_true(rig_reads(r, 0, rig_region_address(g) + KIB(4), 0x5a));
    assert_true(rig_faults(r, 1, rig_region_address(g)));
    rig_free(r, g);
    assert_true(rig_faults(r, 0, rig_region_address(g)));
}

static void bar_memory_is_one_block_that_the_process_reaches_through_the_bar(void **state)
{
    struct rig *r = *state;
    struct rig_region b = rig_alloc(r, 0, RIG_KIND_BAR, KIB(20));
    struct rig_pages pages;
    struct rig_host host;
    assert_int_equal(rig_region_pages(b, &pages, NULL), RIG_OK);
    assert_int_equal(pages.target, RIG_TARGET_GPU);
    assert_int_equal(pages.count, 1);
    assert_true(rig_region_host(b, &host));
    assert_int_equal(host.bytes, KIB(20));
    uint8_t byte = 0x77, back = 0;
    assert_int_equal(rig_region_write(b, KIB(20) - 1, &byte, 1, NULL), RIG_OK);
    assert_int_equal(twin_memory_read(r->machine, rig_number(r, rig_gpu_names[0]),
                                      pages.ranges[0].address + KIB(20) - 1, &back, 1, NULL),
                     RIG_OK);
    assert_int_equal(back, 0x77);
    assert_true(rig_reads(r, 0, rig_region_address(b) + KIB(20) - 1, 0x77));
    assert_int_equal(rig_region_write(b, KIB(20), &byte, 1, NULL), RIG_INVALID);
    rig_pages_free(&pages);
}

static void host_memory_is_system_memory_at_one_address_zeroed(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(12));
    struct rig_host host;
    assert_true(rig_region_host(h, &host));
    assert_int_equal((uint64_t)(uintptr_t)host.memory, rig_region_address(h));
    unsigned char *bytes = host.memory;
    for (size_t i = 0; i < KIB(12); i++)
        assert_int_equal(bytes[i], 0);
    bytes[5000] = 0x31;
    assert_true(rig_reads(r, 0, rig_region_address(h) + 5000, 0x31));
    rig_gpu_write(r, 0, rig_region_address(h) + 9000, 0x32);
    assert_int_equal(bytes[9000], 0x32);
    assert_int_equal(rig_info(h).target, RIG_TARGET_SYSTEM);
    assert_true(twin_page_held_for(r->machine, rig_number(r, rig_gpu_names[0]), rig_page_of(h, 0)));
}

/* How the page table has the region's first byte. */
static struct rig_mapping mapped(struct rig *r, int gpu, struct rig_region region)
{
    return rig_page_table_at(r->m[gpu]->tables, rig_region_address(region));
}

static void host_memory_is_reached_snooped_and_uncached(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    assert_true(mapped(r, 0, h).target.snooped);
    assert_true(mapped(r, 0, h).target.uncached);
    assert_true(rig_info(h).uncached);
}

static void uncached_gpu_memory_bypasses_the_gpus_caches(void **state)
{
    struct rig *r = *state;
    struct rig_region cached = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)), uncached;
    assert_int_equal(rig_memory_alloc(r->m[0], RIG_KIND_BAR, KIB(4), true, &uncached, NULL),
                     RIG_OK);
    assert_false(mapped(r, 0, cached).target.uncached);
    assert_false(rig_info(cached).uncached);
    assert_true(mapped(r, 0, uncached).target.uncached);
    assert_true(rig_info(uncached).uncached);
    struct rig_region peer = rig_map_peer(r, 1, uncached);
    assert_true(mapped(r, 1, peer).target.uncached);
}

/* ---- sizes and addresses */

static void gpu_memory_is_rounded_to_4_kib_and_from_8_mib_on_to_2_mib(void **state)
{
    struct rig *r = *state;
    static const struct {
        uint64_t asked, given;
    } cases[] = {
        {1, KIB(4)},           {KIB(4), KIB(4)},
        {KIB(4) + 1, KIB(8)},  {MIB(8) - KIB(4), MIB(8) - KIB(4)},
        {MIB(8) - 1, MIB(8)},  {MIB(8), MIB(8)},
        {MIB(8) + 1, MIB(10)}, {MIB(10) + KIB(4), MIB(12)},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(cases); i++)
        for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_BAR; kind++) {
            struct rig_region g = rig_alloc(r, 0, (enum rig_kind)kind, cases[i].asked);
            assert_int_equal(rig_info(g).bytes, cases[i].given);
            rig_free(r, g);
        }
}

static void large_allocations_map_with_large_pages(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, MIB(8));
    for (uint64_t at = 0; at < MIB(8); at += MIB(2)) {
        struct rig_mapping m = rig_page_table_at(r->m[0]->tables, rig_region_address(g) + at);
        assert_int_equal(m.page, MIB(2));
    }
}

static void host_memory_is_rounded_to_the_machines_page(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, 5000);
    assert_int_equal(rig_info(h).bytes, KIB(8));
    assert_int_equal(rig_info(rig_alloc(r, 0, RIG_KIND_HOST, MIB(8) + 1)).bytes, MIB(8) + KIB(4));
}

static void an_allocation_is_aligned_to_the_largest_power_of_two_not_above_its_size(void **state)
{
    struct rig *r = *state;
    static const uint64_t sizes[] = {KIB(4), KIB(12), KIB(20), MIB(1), MIB(6), MIB(10), MIB(16)};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(sizes); i++) {
        uint64_t align = KIB(4);
        while (align * 2 <= sizes[i])
            align *= 2;
        struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, sizes[i]);
        assert_int_equal(rig_region_address(g) % align, 0);
        struct rig_region h = rig_alloc(r, 1, RIG_KIND_HOST, sizes[i]);
        assert_int_equal(rig_region_address(h) % align, 0);
        rig_free(r, g);
        rig_free(r, h);
    }
}

static void an_address_means_the_same_memory_on_each_gpu_of_a_vendor(void **state)
{
    struct rig *r = *state;
    /* Never two regions at one address, whichever GPU they are of. */
    struct rig_region all[16];
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(all); i++)
        all[i] = rig_alloc(r, (int)(i % 2), (enum rig_kind)(i % 3), KIB(4) * (1 + i));
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(all); i++)
        for (size_t k = 0; k < i; k++) {
            uint64_t a = rig_region_address(all[i]), b = rig_region_address(all[k]);
            assert_true(a + rig_info(all[i]).bytes <= b || b + rig_info(all[k]).bytes <= a);
        }
}

static void pages_are_in_order_and_hold_all_bytes(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, MIB(1));
    struct rig_pages pages;
    struct rig_host host;
    assert_true(rig_region_host(h, &host));
    assert_int_equal(rig_region_pages(h, &pages, NULL), RIG_OK);
    uint64_t sum = 0;
    for (size_t i = 0; i < pages.count; i++) {
        /* Each range's first byte is the one that the process sees at that place. */
        uint8_t mark = (uint8_t)(i + 1), back = 0;
        ((uint8_t *)host.memory)[sum] = mark;
        assert_int_equal(rig_twin_read(r->machine, NIC, pages.ranges[i].address, &back, 1, NULL),
                         RIG_OK);
        assert_int_equal(back, mark);
        sum += pages.ranges[i].bytes;
    }
    assert_int_equal(sum, MIB(1));
    rig_pages_free(&pages);
}

/* ---- outcomes */

static void the_memory_given_as_several_ranges_is_full_only_when_bytes_are_too_few(void **state)
{
    struct rig *r = *state;
    struct rig_memory_info info;
    struct rig_region hole[2048], big;
    size_t count = 0;
    while (count < RIG_ARRAY_LENGTH(hole) &&
           rig_memory_alloc(r->m[0], RIG_KIND_GPU, KIB(64), false, &hole[count], NULL) == RIG_OK)
        count++;
    for (size_t i = 0; i < count; i += 2)
        rig_free(r, hole[i]);
    rig_memory_info(r->m[0], &info);
    /* Every hole is 64 KiB, what is asked for is many of them. */
    assert_int_equal(rig_memory_alloc(r->m[0], RIG_KIND_BAR, MIB(4), false, &big, NULL),
                     RIG_NO_ROOM);
    assert_int_equal(rig_memory_alloc(r->m[0], RIG_KIND_GPU, MIB(16), false, &big, &r->err),
                     RIG_OK);
    struct rig_pages pages;
    assert_int_equal(rig_region_pages(big, &pages, NULL), RIG_OK);
    assert_true(pages.count > 1);
    rig_pages_free(&pages);
    for (uint64_t at = 0; at < MIB(16); at += KIB(64)) {
        uint8_t mark = (uint8_t)(at >> 16);
        assert_int_equal(twin_memory_write(r->machine, rig_number(r, rig_gpu_names[0]),
                                           rig_page_of(big, at), &mark, 1, NULL),
                         RIG_OK);
    }
    for (uint64_t at = 0; at < MIB(16); at += KIB(64))
        assert_true(rig_reads(r, 0, rig_region_address(big) + at, (uint8_t)(at >> 16)));
}

static void no_room_comes_back_with_nothing_held_and_goes_when_memory_is_freed(void **state)
{
    struct rig *r = *state;
    static const enum rig_kind kinds[] = {RIG_KIND_GPU, RIG_KIND_BAR};
    for (size_t k = 0; k < RIG_ARRAY_LENGTH(kinds); k++) {
        struct rig_region a = rig_alloc(r, 0, kinds[k], MIB(32)), b;
        struct rig_held before = rig_held(r);
        assert_int_equal(rig_memory_alloc(r->m[0], kinds[k], MIB(32), false, &b, &r->err),
                         RIG_NO_ROOM);
        rig_error_clear(&r->err);
        rig_same(before, rig_held(r));
        rig_free(r, a);
        rig_free(r, rig_alloc(r, 0, kinds[k], MIB(32)));
    }
}

static void more_than_a_gpu_ever_had_is_no_room_and_says_so(void **state)
{
    struct rig *r = *state;
    struct rig_region g;
    assert_int_equal(rig_memory_alloc(r->m[0], RIG_KIND_GPU, MIB(65), false, &g, &r->err),
                     RIG_NO_ROOM);
    assert_non_null(strstr(r->err.why, "more than the GPU has"));
    static const uint64_t huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(huge); i++)
        for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
            struct rig_held before = rig_held(r);
            enum rig_status status =
                rig_memory_alloc(r->m[0], (enum rig_kind)kind, huge[i], false, &g, NULL);
            assert_int_equal(status, RIG_NO_ROOM);
            rig_same(before, rig_held(r));
        }
}

static void no_system_memory_now_is_no_room(void **state)
{
    struct rig *r = *state;
    struct rig_region h, most;
    most = rig_alloc(r, 0, RIG_KIND_HOST, UINT64_C(5) << 30);
    assert_int_equal(rig_memory_alloc(r->m[0], RIG_KIND_HOST, UINT64_C(5) << 30, false, &h, NULL),
                     RIG_NO_ROOM);
    rig_free(r, most);
}

static void a_small_bar_bounds_bar_memory_and_page_tables_but_not_gpu_memory(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, RIG_SWITCH "03:00.0 ep gpu=256/32\n", 1);
    struct rig_region b, c;
    struct rig_memory_info info;
    rig_memory_info(r.m[0], &info);
    assert_int_equal(info.bar_bytes, MIB(32));
    assert_int_equal(info.bytes, MIB(256));
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_GPU, MIB(200));
    b = rig_alloc(&r, 0, RIG_KIND_BAR, MIB(16));
    assert_true(rig_page_of(b, MIB(16) - 1) < MIB(32));
    assert_int_equal(rig_memory_alloc(r.m[0], RIG_KIND_BAR, MIB(16), false, &c, &r.err),
                     RIG_NO_ROOM);
    assert_non_null(strstr(r.err.why, "BAR"));
    assert_true(rig_reads(&r, 0, rig_region_address(g) + MIB(199), 0));
    rig_close(&r);
}

static void what_the_machine_refuses_is_refused_by_name_with_nothing_held(void **state)
{
    struct rig *r = *state;
    struct rig_region g;
    struct rig_held before = rig_held(r);
    twin_arm(r->machine, TWIN_FAULT_REFUSE, TWIN_STEP_ALLOC, 1);
    rig_refused(r, rig_memory_alloc(r->m[0], RIG_KIND_HOST, KIB(4), false, &g, &r->err),
                rig_gpu_names[0], "refuses");
    twin_arm(r->machine, TWIN_FAULT_REFUSE, TWIN_STEP_MAP, 1);
    rig_refused(r, rig_memory_alloc(r->m[0], RIG_KIND_BAR, KIB(4), false, &g, &r->err),
                rig_gpu_names[0], "refuses");
    rig_same(before, rig_held(r));
}

static void a_wrong_size_is_misuse_having_taken_nothing(void **state)
{
    struct rig *r = *state;
    struct rig_region g;
    struct rig_held before = rig_held(r);
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++)
        rig_invalid(r, rig_memory_alloc(r->m[0], (enum rig_kind)kind, 0, false, &g, &r->err),
                    "0 bytes");
    rig_same(before, rig_held(r));
}

static void system_memory_at_addresses_that_were_not_reserved_is_misuse(void **state)
{
    (void)state;
    struct rig r = {.machine = NULL};
    struct rig_topology *t = build_machine(RIG_SWITCH RIG_GPUS, "GenuineIntel:6");
    struct rig_gpus_options options = rig_space_options();
    options.unreserved = true;
    assert_int_equal(rig_twin_open(t, NULL, &r.machine, NULL), RIG_OK);
    assert_int_equal(rig_gpus_create(r.machine, &options, &r.gpus, NULL), RIG_OK);
    rig_take(&r, 0, NULL);
    struct rig_region h;
    struct rig_held before = rig_held(&r);
    rig_invalid(&r, rig_memory_alloc(r.m[0], RIG_KIND_HOST, KIB(4), false, &h, &r.err), NULL);
    rig_same(before, rig_held(&r));
    rig_free(&r, rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4)));
    rig_topology_free(t);
    rig_close(&r);
}

/* ---- windows on the BAR */

static void bar_windows_combine_iff_the_memory_bar_was_mapped_so(void **state)
{
    (void)state;
    for (int combining = 0; combining < 2; combining++) {
        struct rig r;
        struct rig_memory_options options = {.combining = combining == 1};
        rig_open_with(&r, NULL, 1, &options);
        rig_alloc(&r, 0, RIG_KIND_BAR, KIB(4));
        /* A BAR has one mode at a time: a window in the other is misuse. */
        struct rig_view *view;
        rig_invalid(
            &r, device_map_bar(r.device[0], r.m[0]->bar, 0, KIB(4), combining == 0, &view, &r.err),
            combining ? "combining" : "uncached");
        assert_int_equal(
            device_map_bar(r.device[0], r.m[0]->bar, 0, KIB(4), combining == 1, &view, NULL),
            RIG_OK);
        rig_close(&r);
    }
}

/* ---- borrowed memory */

static void borrowed_memory_is_pinned_and_mapped_snooped_at_addresses_of_the_space(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(64)), b;
    struct rig_host host;
    assert_true(rig_region_host(h, &host));
    unsigned char *bytes = host.memory;
    struct twin_audit audit;
    assert_int_equal(rig_memory_map_host(r->m[1], bytes + 5000, 10000, &b, &r->err), RIG_OK);
    twin_audit(r->machine, &audit);
    assert_int_equal(audit.pins, 1);
    struct rig_memory_info info;
    rig_memory_info(r->m[1], &info);
    rig_gpu_address at = rig_region_address(b);
    assert_true(at >= info.space_base && at < info.space_base + info.space_bytes);
    assert_true(at != (uint64_t)(uintptr_t)bytes + 5000);
    assert_int_equal(at % KIB(4), 5000 % KIB(4));
    assert_int_equal(rig_info(b).bytes, 10000);
    assert_true(mapped(r, 1, b).target.snooped);
    assert_true(mapped(r, 1, b).target.uncached);
    bytes[5000] = 0x21;
    bytes[14999] = 0x22;
    assert_true(rig_reads(r, 1, at, 0x21));
    assert_true(rig_reads(r, 1, at + 9999, 0x22));
    rig_free(r, b);
    twin_audit(r->machine, &audit);
    assert_int_equal(audit.pins, 0);
    assert_true(rig_faults(r, 1, at));
}

static void the_window_on_borrowed_bytes_is_on_those_bytes(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(16)), b;
    struct rig_host host, mine;
    assert_true(rig_region_host(h, &host));
    assert_int_equal(rig_memory_map_host(r->m[0], (char *)host.memory + 100, 4096, &b, NULL),
                     RIG_OK);
    assert_true(rig_region_host(b, &mine));
    assert_ptr_equal(mine.memory, (char *)host.memory + 100);
    assert_int_equal(mine.bytes, 4096);
    /* 4096 bytes from byte 100 on are on two pages; pages begin at the first byte, mid-page. */
    struct rig_pages pages;
    assert_int_equal(rig_region_pages(b, &pages, NULL), RIG_OK);
    assert_int_equal(pages.target, RIG_TARGET_SYSTEM);
    assert_int_equal(pages.ranges[0].address, rig_page_of(h, 100));
    uint64_t sum = 0;
    for (size_t i = 0; i < pages.count; i++)
        sum += pages.ranges[i].bytes;
    assert_int_equal(sum, 4096);
    rig_pages_free(&pages);
    /* rig_region_host(h) is gone with the free; what was borrowed is not. */
    rig_free(r, h);
    assert_true(rig_region_host(b, &mine));
}

static void
borrowing_from_the_processs_own_memory_into_a_space_holds_the_spaces_addresses(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r,
             RIG_SWITCH "03:00.0 ep gpu=64/64\n"
                        "04:00.0 ep gpu=64/64 iommu=translate\n",
             2);
    struct rig_region h = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4)), b;
    uint64_t at = rig_region_address(h);
    struct rig_memory_info info;
    rig_memory_info(r.m[0], &info);
    assert_true(at == info.space_base);
    void *own = mmap((void *)(uintptr_t)(at - KIB(4)), KIB(4), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_true((uintptr_t)own == at - KIB(4));
    memset(own, 0x11, KIB(8));
    assert_int_equal(rig_memory_map_host(r.m[1], own, KIB(8), &b, NULL), RIG_OK);
    rig_free(&r, h);
    h = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4));
    assert_true(rig_region_address(h) != at);
    assert_true(rig_reads(&r, 1, rig_region_address(b), 0x11));
    assert_true(rig_reads(&r, 1, rig_region_address(b) + KIB(4), 0x11));
    rig_free(&r, b);
    h = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4));
    assert_true(rig_region_address(h) == at);
    munmap(own, KIB(4));
    rig_close(&r);
}

static void each_map_host_maps_and_pins_anew(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4)), a, b;
    struct rig_host host;
    struct twin_audit audit;
    assert_true(rig_region_host(h, &host));
    assert_int_equal(rig_memory_map_host(r->m[0], host.memory, KIB(4), &a, NULL), RIG_OK);
    assert_int_equal(rig_memory_map_host(r->m[0], host.memory, KIB(4), &b, NULL), RIG_OK);
    assert_true(rig_region_address(a) != rig_region_address(b));
    twin_audit(r->machine, &audit);
    assert_int_equal(audit.pins, 2);
    rig_free(r, a);
    twin_audit(r->machine, &audit);
    assert_int_equal(audit.pins, 1);
    assert_true(rig_reads(r, 0, rig_region_address(b), 0));
}

static void pages_of_the_process_cannot_be_pinned_for_a_gpu_taken_physically(void **state)
{
    struct rig *r = *state;
    static unsigned char own[8192];
    struct rig_region b;
    struct rig_held before = rig_held(r);
    rig_refused(r, rig_memory_map_host(r->m[0], own, 4096, &b, &r->err), rig_gpu_names[0], NULL);
    rig_same(before, rig_held(r));
}

static void pages_of_the_process_are_borrowed_behind_an_iommu(void **state)
{
    struct rig *r = *state;
    unsigned char *own =
        mmap(NULL, KIB(16), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(own != MAP_FAILED);
    struct rig_region b;
    assert_int_equal(rig_memory_map_host(r->m[0], own + 10, 5000, &b, &r->err), RIG_OK);
    own[10] = 0x44;
    assert_true(rig_reads(r, 0, rig_region_address(b), 0x44));
    rig_gpu_write(r, 0, rig_region_address(b) + 4999, 0x45);
    assert_int_equal(own[10 + 4999], 0x45);
    rig_free(r, b);
    assert_true(rig_faults(r, 0, rig_region_address(b)));
    munmap(own, KIB(16));
}

static void a_wrong_range_is_misuse(void **state)
{
    struct rig *r = *state;
    struct rig_region b;
    struct rig_held before = rig_held(r);
    rig_invalid(r, rig_memory_map_host(r->m[0], r, 0, &b, &r->err), "0 bytes");
    rig_invalid(r, rig_memory_map_host(r->m[0], r, UINT64_MAX, &b, &r->err), "no range");
    rig_same(before, rig_held(r));
}

static void no_room_to_pin_or_in_the_machine_is_no_room(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4)), b;
    struct rig_host host;
    assert_true(rig_region_host(h, &host));
    struct rig_held before = rig_held(r);
    twin_arm(r->machine, TWIN_FAULT_NO_ROOM, TWIN_STEP_PIN, 1);
    assert_int_equal(rig_memory_map_host(r->m[0], host.memory, KIB(4), &b, NULL), RIG_NO_ROOM);
    twin_arm(r->machine, TWIN_FAULT_NO_ROOM, TWIN_STEP_ALLOC, 1);
    assert_int_equal(rig_memory_alloc(r->m[0], RIG_KIND_HOST, KIB(4), false, &b, NULL),
                     RIG_NO_ROOM);
    rig_same(before, rig_held(r));
}

static void a_space_without_room_is_no_room(void **state)
{
    (void)state;
    struct rig r = {.machine = NULL};
    struct rig_topology *t = build_machine(RIG_SWITCH RIG_GPUS, "GenuineIntel:6");
    struct rig_gpus_options options = rig_space_options();
    options.space_bytes = UINT64_C(1) << 30;
    options.space_base = options.space_base ? options.space_base : UINT64_C(0x200000000000);
    assert_int_equal(rig_twin_open(t, NULL, &r.machine, NULL), RIG_OK);
    assert_int_equal(rig_gpus_create(r.machine, &options, &r.gpus, NULL), RIG_OK);
    rig_take(&r, 0, NULL);
    struct rig_region h = rig_alloc(&r, 0, RIG_KIND_HOST, UINT64_C(600) << 20), i;
    struct rig_held before = rig_held(&r);
    assert_int_equal(rig_memory_alloc(r.m[0], RIG_KIND_HOST, UINT64_C(600) << 20, false, &i, NULL),
                     RIG_NO_ROOM);
    rig_same(before, rig_held(&r));
    rig_free(&r, h);
    rig_free(&r, rig_alloc(&r, 0, RIG_KIND_HOST, UINT64_C(600) << 20));
    rig_topology_free(t);
    rig_close(&r);
}

static void a_page_table_without_room_is_no_room(void **state)
{
    struct rig *r = *state;
    /* Host memory takes none of the GPU's, but its tables do: all of the GPU's memory is taken. */
    struct rig_region g[64], h;
    size_t count = 0;
    for (uint64_t bytes = MIB(32); bytes >= KIB(4); bytes /= 2)
        while (count < RIG_ARRAY_LENGTH(g) &&
               rig_memory_alloc(r->m[0], RIG_KIND_GPU, bytes, false, &g[count], NULL) == RIG_OK)
            count++;
    struct rig_held before = rig_held(r);
    assert_int_equal(before.pool_free[0], 0);
    enum rig_status status = rig_memory_alloc(r->m[0], RIG_KIND_HOST, MIB(3), false, &h, NULL);
    assert_int_equal(status, RIG_NO_ROOM);
    rig_same(before, rig_held(r));
    rig_free(r, g[0]);
    rig_free(r, rig_alloc(r, 0, RIG_KIND_HOST, MIB(3)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(gpu_memory_is_reached_by_its_gpu_and_not_by_the_process),
        RIG_TEST(bar_memory_is_one_block_that_the_process_reaches_through_the_bar),
        RIG_TEST(host_memory_is_system_memory_at_one_address_zeroed),
        RIG_TEST(host_memory_is_reached_snooped_and_uncached),
        RIG_TEST(uncached_gpu_memory_bypasses_the_gpus_caches),
        RIG_TEST(gpu_memory_is_rounded_to_4_kib_and_from_8_mib_on_to_2_mib),
        RIG_TEST(large_allocations_map_with_large_pages),
        RIG_TEST(host_memory_is_rounded_to_the_machines_page),
        RIG_TEST(an_allocation_is_aligned_to_the_largest_power_of_two_not_above_its_size),
        RIG_TEST(an_address_means_the_same_memory_on_each_gpu_of_a_vendor),
        RIG_TEST(pages_are_in_order_and_hold_all_bytes),
        RIG_TEST(the_memory_given_as_several_ranges_is_full_only_when_bytes_are_too_few),
        RIG_TEST(no_room_comes_back_with_nothing_held_and_goes_when_memory_is_freed),
        RIG_TEST(more_than_a_gpu_ever_had_is_no_room_and_says_so),
        RIG_TEST(no_system_memory_now_is_no_room),
        cmocka_unit_test(a_small_bar_bounds_bar_memory_and_page_tables_but_not_gpu_memory),
        RIG_TEST(what_the_machine_refuses_is_refused_by_name_with_nothing_held),
        RIG_TEST(a_wrong_size_is_misuse_having_taken_nothing),
        cmocka_unit_test(system_memory_at_addresses_that_were_not_reserved_is_misuse),
        cmocka_unit_test(bar_windows_combine_iff_the_memory_bar_was_mapped_so),
        RIG_TEST(borrowed_memory_is_pinned_and_mapped_snooped_at_addresses_of_the_space),
        RIG_TEST(the_window_on_borrowed_bytes_is_on_those_bytes),
        cmocka_unit_test(
            borrowing_from_the_processs_own_memory_into_a_space_holds_the_spaces_addresses),
        RIG_TEST(each_map_host_maps_and_pins_anew),
        RIG_TEST(pages_of_the_process_cannot_be_pinned_for_a_gpu_taken_physically),
        RIG_TEST_IOMMU(pages_of_the_process_are_borrowed_behind_an_iommu),
        RIG_TEST(a_wrong_range_is_misuse),
        RIG_TEST(no_room_to_pin_or_in_the_machine_is_no_room),
        cmocka_unit_test(a_space_without_room_is_no_room),
        RIG_TEST(a_page_table_without_room_is_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
