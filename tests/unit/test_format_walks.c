/* Page walks recorded on real AMD GPUs (tests/vectors/walks.json), walked again with the decoders
   alone: each entry is read where the hardware's tables had it, and the end is the recorded one. */
#include "gpu/format/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#define WALKS "tests/vectors/walks.json"

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static uint64_t number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (json_is_string(v))
        return strtoull(json_string_value(v), NULL, 16);
    return (uint64_t)json_integer_value(v);
}

/* What a context's registers say. */
struct context {
    const struct rig_format *f;
    struct rig_table root;
    uint64_t start, end, own_base, aperture_base, aperture_last;
};

static struct context context_of(const json_t *w)
{
    const json_t *r = json_object_get(w, "registers");
    unsigned depth = (unsigned)number(r, "page_table_depth");
    unsigned block = (unsigned)number(r, "page_table_block_size");
    bool further = strncmp(text(w, "gfx"), "gfx9", 4) == 0 && depth == 2 && block == 9;
    char name[32] = "amd-";
    strncat(name, text(w, "gfx"), 5);
    if (strncmp(text(w, "gfx"), "gfx9", 4) == 0)
        strcpy(name, further ? "amd-gfx9-further" : "amd-gfx9");
    uint64_t base = number(r, "page_table_base");
    unsigned shift = depth ? 21 + block + 9 * (depth - 1) : 12;
    struct context c = {
        .f = rig_format_named(name, 0, 0),
        .root = {.memory = base & 2 ? RIG_MEMORY_SYSTEM : RIG_MEMORY_OWN,
                 .address = base & 0xffffffffffc0,
                 .level = (uint8_t)((further ? 2 : 3) - depth),
                 .shift = (uint8_t)shift,
                 .index_bits = (uint8_t)(48 - shift)},
        .start = number(r, "page_table_start"),
        .end = number(r, "page_table_end"),
        .own_base = number(r, "mc_vm_fb_offset") << 24,
        .aperture_base = number(r, "fb_location_base") << 24,
        .aperture_last = ((number(r, "fb_location_top") + 1) << 24) - 1,
    };
    assert_non_null(c.f);
    return c;
}

/* The recorded entry at an address, which must be the next of the walk. */
static void read_entry(const json_t *w, size_t step, const struct context *c,
                       const struct rig_table *t, uint64_t va, uint64_t words[2])
{
    const json_t *e = json_array_get(json_object_get(w, "walk"), step);
    if (!e)
        fail_msg("%s: the recording has no step %zu", text(w, "id"), step);
    bool own = t->memory == RIG_MEMORY_OWN;
    assert_string_equal(text(e, "entry_space"), own ? "vram" : "sys");
    uint64_t at = rig_entry_at(c->f, t, va) - (own ? c->own_base : 0);
    if (at != number(e, "entry_address"))
        fail_msg("%s: step %zu reads %llx, not %s", text(w, "id"), step, (unsigned long long)at,
                 text(e, "entry_address"));
    assert_int_equal((va >> t->shift) & ((UINT64_C(1) << t->index_bits) - 1), number(e, "index"));
    if (json_object_get(e, "covers"))
        assert_int_equal(UINT64_C(1) << t->shift, number(e, "covers"));
    words[0] = number(e, "entry_hex");
    words[1] = 0;
}

static void check_leaf(const json_t *w, const struct rig_entry *e)
{
    const json_t *l = json_object_get(w, "leaf_fields");
    assert_int_equal(e->kind, RIG_ENTRY_LEAF);
    assert_int_equal(number(l, "valid"), 1);
    assert_int_equal(e->memory == RIG_MEMORY_SYSTEM, number(l, "system"));
    assert_int_equal(e->snooped, number(l, "snooped"));
    assert_int_equal(e->executable, number(l, "execute"));
    assert_int_equal(e->readable, number(l, "read"));
    assert_int_equal(e->writable, number(l, "write"));
    assert_int_equal(e->fragment, number(l, "fragment"));
    assert_int_equal(e->type, number(l, "mtype"));
}

static void walk(const json_t *w)
{
    struct context c = context_of(w);
    const json_t *result = json_object_get(w, "result");
    uint64_t va = number(w, "virtual_address"), words[2];
    size_t steps = json_array_size(json_object_get(w, "walk"));
    if (va >= c.aperture_base && va <= c.aperture_last && number(w, "vmid") == 0) {
        assert_int_equal(steps, 0);
        assert_string_equal(text(result, "space"), "vram");
        assert_int_equal(va - c.aperture_base, number(result, "physical_address"));
        return;
    }
    assert_true(va >= c.start && (c.end == 0 || va <= c.end));
    va -= c.start;
    struct rig_table t = c.root;
    struct rig_entry e = {.kind = RIG_ENTRY_DIRECTORY, .children = 1, .child = {t}};
    size_t step = 0;
    for (; e.kind == RIG_ENTRY_DIRECTORY; step++) {
        assert_int_equal(e.children, 1);
        t = e.child[0];
        read_entry(w, step, &c, &t, va, words);
        rig_decode(c.f, &t, words, &e);
    }
    assert_int_equal(step, steps);
    check_leaf(w, &e);
    uint64_t at = e.address + (va & (e.bytes - 1));
    assert_string_equal(text(result, "space"), e.memory == RIG_MEMORY_OWN ? "vram" : "sys");
    assert_int_equal(at, number(result, "gpu_physical_address"));
    at -= e.memory == RIG_MEMORY_OWN ? c.own_base : 0;
    assert_int_equal(at, number(result, "physical_address"));
}

static void every_recorded_walk_ends_where_the_hardware_did(void **state)
{
    (void)state;
    json_error_t err;
    json_t *all = json_load_file(WALKS, 0, &err), *w;
    if (!all)
        fail_msg("%s: %s (run from the top of the tree)", WALKS, err.text);
    size_t i;
    assert_int_equal(json_array_size(all), 8);
    json_array_foreach(all, i, w) walk(w);
    json_decref(all);
}

/* gfx11's bit A: a further entry holds an offset from the address in the PDB0 entry (umr's walk of
   such tables; the PDB0 entry is one it recorded). */
static void a_further_entry_below_an_offset_directory_adds_to_it(void **state)
{
    (void)state;
    const struct rig_format *f = rig_format_named("amd-gfx11", 0, 0);
    struct rig_table pdb0 = {.level = 2, .shift = 21, .index_bits = 9};
    uint64_t words[2] = {0x32000001fd750001, 0};
    struct rig_entry e;
    rig_decode(f, &pdb0, words, &e);
    assert_int_equal(e.kind, RIG_ENTRY_DIRECTORY);
    assert_int_equal(e.child[0].shift, 18);
    assert_int_equal(e.child[0].index_bits, 3);
    struct rig_table further = e.child[0];
    words[0] = 0x0100000000000201;
    rig_decode(f, &further, words, &e);
    assert_int_equal(e.kind, RIG_ENTRY_DIRECTORY);
    assert_int_equal(e.child[0].address, 0x1fd750200);
    assert_int_equal(e.child[0].shift, 12);
    assert_int_equal(e.child[0].index_bits, 6);
    assert_int_equal(e.child[0].further_base, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recorded_walk_ends_where_the_hardware_did),
        cmocka_unit_test(a_further_entry_below_an_offset_directory_adds_to_it),
    };
    return cmocka_run_group_tests_name("recorded page walks", tests, NULL, NULL);
}
