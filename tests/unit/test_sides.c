/* What the gates look at of one function: where its BAR is, how large it can be, how many address
   bits it takes. */
#include "builder.h"

#include "topology/gates.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A Radeon of 16 GiB below a port of a switch. */
static struct rig_topology *machine(void)
{
    return build_machine("00:01.0 rp 01-04\n01:00.0 up 02-04\n02:01.0 down 04-04\n"
                         "04:00.0 ep id=1002:744c gpu=16384/16384 iommu=none\n",
                         "Intel:6");
}

/* A BAR lies at a multiple of its size, and as a whole in the window that holds it. */
static void a_bound_of_a_bars_size_needs_its_address(void **state)
{
    (void)state;
    struct rig_topology *t = machine();
    int gpu = function_at(t, "04:00.0");
    struct rig_function *f = &t->node[gpu].f, *port = &t->node[function_at(t, "02:01.0")].f;
    f->bar[0].bus = fact_unknown(NULL);
    assert_int_equal(bar_bound(t, gpu, 0), 0);
    f->bar[0].bus = fact_known(0);
    assert_int_equal(bar_bound(t, gpu, 0), 0);
    f->bar[0].bus = fact_known(0xc0000000);
    assert_int_equal(bar_bound(t, gpu, 0), 1u << 30);
    port->memory.base = fact_known(0xc0000000);
    assert_int_equal(bar_bound(t, gpu, 0), 1u << 30); /* its end is not known */
    port->memory.limit = fact_known(0xc00fffff);
    assert_int_equal(bar_bound(t, gpu, 0), 1u << 20);
    port->memory.base = fact_known(0xc0100000); /* the window is another's */
    port->memory.limit = fact_known(0xc01fffff);
    assert_int_equal(bar_bound(t, gpu, 0), 1u << 30);
    port->memory.base = fact_known(0xb0000000);
    port->memory.limit = fact_known(0xbfffffff);
    assert_int_equal(bar_bound(t, gpu, 0), 1u << 30);
    /* One that ends where the BAR begins has room for one byte. */
    port->memory.limit = fact_known(0xc0000000);
    assert_int_equal(bar_bound(t, gpu, 0), 1);
    f->parent = -1;
    assert_int_equal(bar_bound(t, gpu, 0), 1u << 30);
    rig_topology_free(t);
}

/* How many bits the address of the BAR's last byte has. */
static void a_bar_needs_the_bits_of_its_last_byte(void **state)
{
    (void)state;
    struct rig_topology *t = machine();
    int gpu = function_at(t, "04:00.0");
    struct rig_bar *bar = &t->node[gpu].f.bar[0];
    static const struct {
        uint64_t address, bytes;
        unsigned bits;
    } rows[] = {
        {0x80000000, 0x80000000, 32},
        {0xfffc0000000, 0x40000000, 44},
        {0xfffc0000000, 0x80000000, 45},
        {UINT64_MAX - 0xfff, 0x1000, 64},
        {UINT64_MAX - 0xfff, 0x2000, 0}, /* past the end of addresses */
        {0x1000, 0, 0},
        {0, 1, 0},
        {0, 2, 1},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        bar->bus = fact_known(rows[i].address);
        bar->size = fact_known(rows[i].bytes);
        assert_int_equal(side_of(t, gpu).bits_needed, rows[i].bits);
    }
    bar->size = fact_unknown(NULL);
    assert_int_equal(side_of(t, gpu).bits_needed, 0);
    bar->bus = fact_unknown(NULL);
    assert_int_equal(side_of(t, gpu).bits_needed, 0);
    /* Radeon entries hold 44 bits; the vendor alone does not tell. */
    assert_int_equal(side_of(t, gpu).bits_held, 44);
    t->node[gpu].f.device = fact_unknown(NULL);
    assert_int_equal(side_of(t, gpu).bits_held, 0);
    t->node[gpu].f.vendor = fact_unknown(NULL);
    assert_int_equal(side_of(t, gpu).bits_held, 0);
    assert_int_equal(side_of(t, gpu).space, SPACE_UNKNOWN);
    rig_topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bound_of_a_bars_size_needs_its_address),
        cmocka_unit_test(a_bar_needs_the_bits_of_its_last_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
