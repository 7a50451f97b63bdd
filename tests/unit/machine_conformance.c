#include "machine_conformance.h"

#include "topology/topology.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define COMMAND 0x04
#define MASTER 0x4u
#define DECODE 0x2u
#define INTX_OFF 0x400u

/* What a test of a run gets. */
struct turn {
    const struct conformance *c;
    size_t test;
};

#define TESTS_MAX 64

/* Which tests a back end came to the end of, in any of this program's runs. */
static bool judged[TESTS_MAX];

/* A machine with two functions taken, as most tests want it. */
struct bench {
    const struct conformance *c;
    size_t test;
    struct rig_machine *m;
    const struct rig_machine_ops *ops;
    int one, two;
};

static int number(const struct rig_machine *m, const char *name)
{
    int i = rig_topology_find(m->topology, name);
    assert_true(i >= 0);
    return i;
}

static struct bench begin(void **state)
{
    const struct turn *turn = *state;
    struct bench b = {.c = turn->c, .test = turn->test};
    struct rig_error err = {.status = RIG_OK};
    if (b.c->open(&b.m, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    b.ops = b.m->ops;
    b.one = number(b.m, b.c->function);
    b.two = number(b.m, b.c->other);
    return b;
}

static struct bench begin_taken(void **state)
{
    struct bench b = begin(state);
    assert_int_equal(b.ops->take(b.m, b.one, NULL), RIG_OK);
    assert_int_equal(b.ops->take(b.m, b.two, NULL), RIG_OK);
    return b;
}

static void end(struct bench *b)
{
    judged[b->test] = true;
    b->c->close(b->m);
}

static void end_taken(struct bench *b)
{
    assert_int_equal(b->ops->release(b->m, b->one, NULL), RIG_OK);
    assert_int_equal(b->ops->release(b->m, b->two, NULL), RIG_OK);
    end(b);
}

static uint32_t command_of(const struct bench *b, int function)
{
    return b->ops->config_read(b->m, function, COMMAND, 2);
}

static void master(const struct bench *b, int function, bool on)
{
    uint32_t command = command_of(b, function);
    b->ops->config_write(b->m, function, COMMAND, 2, on ? command | MASTER : command & ~MASTER);
}

static uint64_t sum(const struct rig_grant *g)
{
    uint64_t bytes = 0;
    for (int i = 0; i < g->count; i++)
        bytes += g->ranges[i].bytes;
    return bytes;
}

static bool all_zero(const void *memory, size_t bytes)
{
    const uint8_t *p = memory;
    for (size_t i = 0; i < bytes; i++)
        if (p[i])
            return false;
    return true;
}

static enum rig_status alloc(const struct bench *b, uint64_t bytes, void *at, unsigned bits,
                             bool contiguous, struct rig_grant *g, struct rig_error *err)
{
    struct rig_memory_request r = {bytes, at, bits, contiguous};
    return b->ops->alloc(b->m, b->one, &r, g, err);
}

static void let_go(const struct bench *b, int function, struct rig_grant *g)
{
    assert_int_equal(b->ops->give(b->m, function, g->id, NULL), RIG_OK);
    free(g->ranges);
}

/* ---- functions */

static void list_tells_endpoints_from_bridges_and_names_each(void **state)
{
    struct bench b = begin(state);
    for (int i = 0; i < rig_topology_count(b.m->topology); i++) {
        struct rig_function_now now;
        b.ops->list(b.m, i, &now);
        const struct rig_function *facts = rig_topology_function(b.m->topology, i);
        assert_int_equal(rig_bdf_compare(now.bdf, facts->bdf), 0);
        assert_int_equal(now.endpoint, !is_bridge(facts));
    }
    if (b.c->bridge) {
        struct rig_function_now now;
        b.ops->list(b.m, number(b.m, b.c->bridge), &now);
        assert_false(now.endpoint);
    }
    end(&b);
}

static void a_taken_function_masters_no_bus_and_has_its_legacy_interrupt_off(void **state)
{
    struct bench b = begin_taken(state);
    assert_int_equal(command_of(&b, b.one) & (MASTER | INTX_OFF), INTX_OFF);
    end_taken(&b);
}

static void release_puts_the_legacy_interrupt_back_and_the_function_can_be_taken_again(void **state)
{
    struct bench b = begin(state);
    uint32_t found = command_of(&b, b.one);
    assert_int_equal(b.ops->take(b.m, b.one, NULL), RIG_OK);
    assert_int_equal(b.ops->release(b.m, b.one, NULL), RIG_OK);
    assert_int_equal(command_of(&b, b.one) & INTX_OFF, found & INTX_OFF);
    assert_int_equal(b.ops->take(b.m, b.one, NULL), RIG_OK);
    assert_int_equal(b.ops->release(b.m, b.one, NULL), RIG_OK);
    end(&b);
}

static void configuration_space_reads_the_same_in_every_width(void **state)
{
    struct bench b = begin_taken(state);
    const struct rig_function *facts = rig_topology_function(b.m->topology, b.one);
    assert_int_equal(b.ops->config_read(b.m, b.one, 0, 2), facts->vendor.value);
    assert_int_equal(b.ops->config_read(b.m, b.one, 2, 2), facts->device.value);
    for (unsigned at = 0; at < 256; at += 4) {
        uint32_t whole = b.ops->config_read(b.m, b.one, at, 4);
        uint32_t halves =
            b.ops->config_read(b.m, b.one, at, 2) | b.ops->config_read(b.m, b.one, at + 2, 2) << 16;
        uint32_t bytes = 0;
        for (unsigned i = 0; i < 4; i++)
            bytes |= b.ops->config_read(b.m, b.one, at + i, 1) << 8 * i;
        assert_int_equal(whole, halves);
        assert_int_equal(whole, bytes);
    }
    end_taken(&b);
}

static void ids_cannot_be_written_and_mastering_can(void **state)
{
    struct bench b = begin_taken(state);
    uint32_t id = b.ops->config_read(b.m, b.one, 0, 4);
    b.ops->config_write(b.m, b.one, 0, 4, 0x12345678);
    assert_int_equal(b.ops->config_read(b.m, b.one, 0, 4), id);
    master(&b, b.one, true);
    assert_int_equal(command_of(&b, b.one) & MASTER, MASTER);
    master(&b, b.one, false);
    assert_int_equal(command_of(&b, b.one) & MASTER, 0);
    end_taken(&b);
}

static void reset_leaves_mastering_off_and_bars_where_they_were(void **state)
{
    struct bench b = begin_taken(state);
    struct rig_bar_now before, after;
    b.ops->bar(b.m, b.one, b.c->bar, &before);
    master(&b, b.one, true);
    struct rig_error err = {.status = RIG_OK};
    enum rig_status status = b.ops->reset(b.m, b.one, &err);
    assert_true(status == RIG_OK || (status == RIG_REFUSED && err.why[0]));
    if (status == RIG_OK) {
        b.ops->bar(b.m, b.one, b.c->bar, &after);
        assert_int_equal(after.bus, before.bus);
        assert_int_equal(command_of(&b, b.one) & MASTER, 0);
    }
    master(&b, b.one, false);
    end_taken(&b);
}

/* ---- BARs */

static void a_bar_has_a_power_of_two_of_bytes_at_a_multiple_of_them(void **state)
{
    struct bench b = begin(state);
    struct rig_bar_now bar;
    b.ops->bar(b.m, b.one, b.c->bar, &bar);
    assert_true(rig_power_of_two(bar.size));
    assert_true(bar.assigned);
    assert_false(bar.io);
    assert_int_equal(bar.bus & (bar.size - 1), 0);
    end(&b);
}

static struct rig_view map(const struct bench *b, uint64_t start, uint64_t bytes)
{
    struct rig_view view;
    uint32_t command = command_of(b, b->one);
    b->ops->config_write(b->m, b->one, COMMAND, 2, command | DECODE);
    assert_int_equal(b->ops->map_bar(b->m, b->one, b->c->bar, start, bytes, false, &view, NULL),
                     RIG_OK);
    assert_int_equal(view.bytes, bytes);
    return view;
}

static void a_view_reads_what_was_written_in_every_width(void **state)
{
    struct bench b = begin_taken(state);
    struct rig_view view = map(&b, 0, b.m->page_size);
    uint8_t out[64], in[64];
    for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
        memset(in, 0xa0 + (int)bytes, sizeof in);
        view_write(&view, 8 * bytes, in, bytes);
        view_read(&view, 8 * bytes, out, bytes);
        assert_memory_equal(out, in, bytes);
    }
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(i * 7);
    view_write(&view, 1001, in, sizeof in);
    view_read(&view, 1001, out, sizeof out);
    assert_memory_equal(out, in, sizeof in);
    assert_int_equal(view.ops->unmap(&view, NULL), RIG_OK);
    end_taken(&b);
}

static void two_views_of_a_bar_show_the_same_bytes_at_their_own_offsets(void **state)
{
    struct bench b = begin_taken(state);
    uint64_t page = b.m->page_size;
    struct rig_view whole = map(&b, 0, 2 * page);
    struct rig_view second = map(&b, page, page);
    uint32_t out = 0, in = 0xcafef00d;
    view_write(&whole, page + 12, &in, sizeof in);
    view_read(&second, 12, &out, sizeof out);
    assert_int_equal(out, in);
    assert_int_equal(second.ops->unmap(&second, NULL), RIG_OK);
    view_read(&whole, page + 12, &out, sizeof out);
    assert_int_equal(out, in);
    assert_int_equal(whole.ops->unmap(&whole, NULL), RIG_OK);
    end_taken(&b);
}

/* ---- system memory */

static void allocated_memory_is_whole_zeroed_pages_with_ranges_that_add_up(void **state)
{
    struct bench b = begin_taken(state);
    uint64_t page = b.m->page_size;
    struct rig_grant g;
    assert_int_equal(alloc(&b, 5 * page, NULL, 64, false, &g, NULL), RIG_OK);
    assert_true(g.id != 0);
    assert_non_null(g.memory);
    assert_int_equal(g.bytes, 5 * page);
    assert_int_equal(sum(&g), 5 * page);
    for (int i = 0; i < g.count; i++)
        assert_int_equal((g.ranges[i].address | g.ranges[i].bytes) & (page - 1), 0);
    assert_true(all_zero(g.memory, (size_t)g.bytes));
    memset(g.memory, 0x5a, (size_t)g.bytes);
    let_go(&b, b.one, &g);
    assert_int_equal(alloc(&b, 5 * page, NULL, 64, false, &g, NULL), RIG_OK);
    assert_true(all_zero(g.memory, (size_t)g.bytes));
    let_go(&b, b.one, &g);
    end_taken(&b);
}

static void two_mebibytes_can_be_one_run_of_bus_addresses(void **state)
{
    struct bench b = begin_taken(state);
    struct rig_grant g;
    assert_int_equal(alloc(&b, RIG_CONTIGUOUS_MAX, NULL, 64, true, &g, NULL), RIG_OK);
    assert_int_equal(g.count, 1);
    assert_int_equal(g.ranges[0].bytes, RIG_CONTIGUOUS_MAX);
    let_go(&b, b.one, &g);
    end_taken(&b);
}

static void memory_goes_where_it_is_asked_for_within_reserved_addresses(void **state)
{
    struct bench b = begin_taken(state);
    uint64_t page = b.m->page_size;
    uint8_t *space = (uint8_t *)(uintptr_t)b.c->space;
    assert_int_equal(b.ops->reserve(b.m, space, 64 << 20, NULL), RIG_OK);
    struct rig_grant g;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(alloc(&b, 3 * page, space + 2 * page, 64, false, &g, NULL), RIG_OK);
        assert_ptr_equal(g.memory, space + 2 * page);
        space[2 * page] = 1;
        space[5 * page - 1] = 2;
        let_go(&b, b.one, &g);
    }
    /* Nothing else may land there once it was given back. */
    void *there = mmap(space, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(there != MAP_FAILED && there != space);
    munmap(there, page);
    end_taken(&b);
}

static void memory_of_this_process_is_seen_from_the_first_and_stays_so(void **state)
{
    struct bench b = begin_taken(state);
    uint64_t page = b.m->page_size;
    uint8_t *space = (uint8_t *)(uintptr_t)b.c->space;
    assert_int_equal(b.ops->reserve(b.m, space, 64 << 20, NULL), RIG_OK);
    struct rig_grant g, pin;
    assert_int_equal(alloc(&b, 2 * page, space + page, 64, false, &g, NULL), RIG_OK);
    space[page] = 7;
    assert_int_equal(b.ops->pin(b.m, b.two, space + page, page, 64, &pin, NULL), RIG_OK);
    /* Some of it, all of it and what is about it, where nothing is, and a pin of it. */
    assert_int_equal(b.ops->see(b.m, space + 2 * page, page, NULL), RIG_OK);
    assert_int_equal(b.ops->see(b.m, space, 8 * page, NULL), RIG_OK);
    assert_int_equal(b.ops->see(b.m, pin.memory, pin.bytes, NULL), RIG_OK);
    assert_int_equal(space[page], 7);
    let_go(&b, b.two, &pin);
    let_go(&b, b.one, &g);
    end_taken(&b);
}

static void addresses_in_use_cannot_be_reserved(void **state)
{
    struct bench b = begin_taken(state);
    void *space = (void *)(uintptr_t)b.c->space;
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(b.ops->reserve(b.m, space, 1 << 20, NULL), RIG_OK);
    assert_int_equal(b.ops->reserve(b.m, space, 1 << 20, &err), RIG_REFUSED);
    assert_true(err.why[0] != '\0');
    end_taken(&b);
}

static void memory_lies_within_the_bits_or_is_refused_by_name(void **state)
{
    struct bench b = begin_taken(state);
    for (unsigned bits = 20; bits <= 48; bits += 4) {
        struct rig_grant g;
        struct rig_error err = {.status = RIG_OK};
        enum rig_status status = alloc(&b, b.m->page_size, NULL, bits, false, &g, &err);
        if (status == RIG_OK) {
            assert_true((g.ranges[0].address + g.ranges[0].bytes - 1) >> bits == 0);
            let_go(&b, b.one, &g);
        } else {
            assert_true(status == RIG_REFUSED || status == RIG_NO_ROOM);
            assert_true(err.why[0] != '\0');
        }
    }
    end_taken(&b);
}

static void memory_runs_out_as_no_room_and_freeing_makes_room(void **state)
{
    struct bench b = begin_taken(state);
    if (b.c->memory_bytes == 0)
        skip();
    uint64_t piece = b.c->memory_bytes / 8;
    struct rig_grant g[9];
    int n = 0;
    enum rig_status status = RIG_OK;
    while (n < 9 && (status = alloc(&b, piece, NULL, 64, false, &g[n], NULL)) == RIG_OK)
        n++;
    assert_int_equal(n, 8);
    assert_int_equal(status, RIG_NO_ROOM);
    let_go(&b, b.one, &g[3]);
    assert_int_equal(alloc(&b, piece, NULL, 64, false, &g[3], NULL), RIG_OK);
    /* No byte is granted twice. */
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < i; k++)
            assert_true(g[i].ranges[0].address + piece <= g[k].ranges[0].address ||
                        g[k].ranges[0].address + piece <= g[i].ranges[0].address);
    for (int i = 0; i < 8; i++)
        let_go(&b, b.one, &g[i]);
    end_taken(&b);
}

static void dma_reaches_what_was_allocated_and_the_process_sees_it(void **state)
{
    struct bench b = begin_taken(state);
    if (!b.c->dma)
        skip();
    struct rig_grant g;
    assert_int_equal(alloc(&b, 2 * b.m->page_size, NULL, 64, true, &g, NULL), RIG_OK);
    master(&b, b.one, true);
    char word[8] = "written";
    assert_true(b.c->dma(b.m, b.one, g.ranges[0].address + 4090, word, sizeof word, true));
    assert_memory_equal((char *)g.memory + 4090, "written", 8);
    memcpy(g.memory, "read it", 8);
    assert_true(b.c->dma(b.m, b.one, g.ranges[0].address, word, sizeof word, false));
    assert_string_equal(word, "read it");
    master(&b, b.one, false);
    assert_false(b.c->dma(b.m, b.one, g.ranges[0].address, word, sizeof word, false));
    let_go(&b, b.one, &g);
    end_taken(&b);
}

/* ---- pins */

static void pins_are_counted_and_pages_stay_until_the_last_one_ends(void **state)
{
    struct bench b = begin_taken(state);
    uint64_t page = b.m->page_size;
    struct rig_grant g, pin[2];
    assert_int_equal(alloc(&b, 4 * page, NULL, 64, true, &g, NULL), RIG_OK);
    uint8_t *memory = g.memory;
    memory[page] = 0x77;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(b.ops->pin(b.m, b.two, memory + page, 2 * page, 64, &pin[i], NULL),
                         RIG_OK);
        assert_int_equal(sum(&pin[i]), 2 * page);
        assert_int_equal(pin[i].bytes, 2 * page);
    }
    let_go(&b, b.one, &g);
    let_go(&b, b.two, &pin[0]);
    if (b.c->dma) {
        uint8_t byte = 0;
        master(&b, b.two, true);
        assert_true(
            b.c->dma(b.m, b.two, pin[1].ranges ? pin[1].ranges[0].address : 0, &byte, 1, false));
        assert_int_equal(byte, 0x77);
        master(&b, b.two, false);
    }
    let_go(&b, b.two, &pin[1]);
    end_taken(&b);
}

static void a_pin_of_pages_that_are_not_there_is_refused(void **state)
{
    struct bench b = begin_taken(state);
    struct rig_grant g;
    struct rig_error err = {.status = RIG_OK};
    void *nowhere = (void *)(uintptr_t)b.c->space;
    assert_int_equal(b.ops->pin(b.m, b.one, nowhere, b.m->page_size, 64, &g, &err), RIG_REFUSED);
    assert_true(err.why[0] != '\0');
    end_taken(&b);
}

static void own_pages_are_refused_to_a_physical_function_and_reached_behind_an_iommu(void **state)
{
    struct bench b = begin_taken(state);
    size_t page = (size_t)b.m->page_size;
    uint8_t *own = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(own != MAP_FAILED);
    memcpy(own, "own page", 9);
    struct rig_function_now now;
    b.ops->list(b.m, b.one, &now);
    struct rig_grant g;
    struct rig_error err = {.status = RIG_OK};
    enum rig_status status = b.ops->pin(b.m, b.one, own, page, 64, &g, &err);
    if (now.addressing == RIG_PHYSICAL) {
        assert_int_equal(status, RIG_REFUSED);
        assert_true(err.why[0] != '\0');
    } else {
        assert_int_equal(status, RIG_OK);
        char word[9] = "";
        master(&b, b.one, true);
        if (b.c->dma) {
            assert_true(b.c->dma(b.m, b.one, g.ranges[0].address, word, sizeof word, false));
            assert_string_equal(word, "own page");
        }
        uint64_t at = g.ranges[0].address;
        let_go(&b, b.one, &g);
        if (b.c->dma)
            assert_false(b.c->dma(b.m, b.one, at, word, sizeof word, false));
        master(&b, b.one, false);
    }
    munmap(own, page);
    end_taken(&b);
}

/* ---- the end of things */

static void release_ends_what_the_function_was_granted(void **state)
{
    struct bench b = begin_taken(state);
    if (b.c->memory_bytes == 0)
        skip();
    struct rig_grant g;
    assert_int_equal(alloc(&b, b.c->memory_bytes, NULL, 64, false, &g, NULL), RIG_OK);
    free(g.ranges);
    assert_int_equal(b.ops->release(b.m, b.one, NULL), RIG_OK);
    assert_int_equal(b.ops->take(b.m, b.one, NULL), RIG_OK);
    assert_int_equal(alloc(&b, b.c->memory_bytes, NULL, 64, false, &g, NULL), RIG_OK);
    let_go(&b, b.one, &g);
    end_taken(&b);
}

static void a_function_that_left_reads_all_ones_and_gives_back_all_the_same(void **state)
{
    struct bench b = begin_taken(state);
    if (!b.c->leave_bus)
        skip();
    struct rig_view view = map(&b, 0, b.m->page_size);
    struct rig_grant g, none;
    assert_int_equal(alloc(&b, b.m->page_size, NULL, 64, false, &g, NULL), RIG_OK);
    assert_false(b.ops->failed(b.m, b.one));
    b.c->leave_bus(b.m, b.one);
    assert_true(b.ops->failed(b.m, b.one));
    assert_false(b.ops->failed(b.m, b.two));
    assert_false(b.ops->failed(b.m, -1));
    assert_int_equal(b.ops->config_read(b.m, b.one, 0, 4), 0xffffffff);
    assert_int_equal(b.ops->config_read(b.m, b.one, 0, 2), 0xffff);
    assert_int_equal(b.ops->config_read(b.m, b.one, 0, 1), 0xff);
    uint64_t ones = 0;
    view_write(&view, 0, &ones, sizeof ones);
    view_read(&view, 0, &ones, sizeof ones);
    assert_true(ones == UINT64_MAX);
    assert_int_equal(alloc(&b, b.m->page_size, NULL, 64, false, &none, NULL), RIG_FAILED);
    assert_int_equal(view.ops->unmap(&view, NULL), RIG_OK);
    let_go(&b, b.one, &g);
    end_taken(&b);
}

#define OF(test)                                                                                   \
    {                                                                                              \
#test, test, NULL, NULL, NULL                                                              \
    }
static const struct CMUnitTest suite[] = {
    OF(list_tells_endpoints_from_bridges_and_names_each),
    OF(a_taken_function_masters_no_bus_and_has_its_legacy_interrupt_off),
    OF(release_puts_the_legacy_interrupt_back_and_the_function_can_be_taken_again),
    OF(configuration_space_reads_the_same_in_every_width),
    OF(ids_cannot_be_written_and_mastering_can),
    OF(reset_leaves_mastering_off_and_bars_where_they_were),
    OF(a_bar_has_a_power_of_two_of_bytes_at_a_multiple_of_them),
    OF(a_view_reads_what_was_written_in_every_width),
    OF(two_views_of_a_bar_show_the_same_bytes_at_their_own_offsets),
    OF(allocated_memory_is_whole_zeroed_pages_with_ranges_that_add_up),
    OF(two_mebibytes_can_be_one_run_of_bus_addresses),
    OF(memory_goes_where_it_is_asked_for_within_reserved_addresses),
    OF(memory_of_this_process_is_seen_from_the_first_and_stays_so),
    OF(addresses_in_use_cannot_be_reserved),
    OF(memory_lies_within_the_bits_or_is_refused_by_name),
    OF(memory_runs_out_as_no_room_and_freeing_makes_room),
    OF(dma_reaches_what_was_allocated_and_the_process_sees_it),
    OF(pins_are_counted_and_pages_stay_until_the_last_one_ends),
    OF(a_pin_of_pages_that_are_not_there_is_refused),
    OF(own_pages_are_refused_to_a_physical_function_and_reached_behind_an_iommu),
    OF(release_ends_what_the_function_was_granted),
    OF(a_function_that_left_reads_all_ones_and_gives_back_all_the_same),
};
#undef OF

int conformance_run(const struct conformance *back_end)
{
    struct CMUnitTest tests[RIG_ARRAY_LENGTH(suite)];
    struct turn turns[RIG_ARRAY_LENGTH(suite)];
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(suite); i++) {
        tests[i] = suite[i];
        turns[i] = (struct turn){.c = back_end, .test = i};
        tests[i].initial_state = &turns[i];
    }
    return _cmocka_run_group_tests(back_end->name, tests, RIG_ARRAY_LENGTH(suite), NULL, NULL);
}

const char *conformance_unjudged(void)
{
    static_assert(RIG_ARRAY_LENGTH(suite) <= TESTS_MAX, "each test has its place");
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(suite); i++)
        if (!judged[i])
            return suite[i].name;
    return NULL;
}
