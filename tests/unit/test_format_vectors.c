/* Page-table entries from vendors' tests, from recordings of real hardware and from the bit
   definitions (tests/vectors/pte-vectors.json), read and written by the formats. */
#include "gpu/format/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#define VECTORS "tests/vectors/pte-vectors.json"

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static bool flag(const json_t *o, const char *key, bool missing)
{
    const json_t *v = json_object_get(o, key);
    return v ? json_is_true(v) : missing;
}

static uint64_t number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (json_is_string(v))
        return strtoull(json_string_value(v), NULL, 16);
    return (uint64_t)json_integer_value(v);
}

static bool has(const json_t *o, const char *key)
{
    return json_object_get(o, key) != NULL;
}

static const struct rig_format *variant(const char *name, const char *which)
{
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        if (strcmp(f->name, name) == 0 && strcmp(f->variant, which) == 0)
            return f;
    }
    fail_msg("no format %s %s", name, which);
    return NULL;
}

/* The format whose GPUs hold such an entry. */
static const struct rig_format *format_of(const json_t *v)
{
    const json_t *in = json_object_get(v, "input");
    const char *name = text(v, "format"), *arch = text(v, "arch");
    if (strcmp(name, "amd-gfx9") == 0) {
        bool further = strcmp(text(in, "layout"), "translate-further") == 0 ||
                       flag(in, "translate_further", false) ||
                       number(in, "block_fragment_size") == 9 ||
                       strcmp(text(v, "level"), "pdb0-as-ptb") == 0;
        return variant(further ? "amd-gfx9-further" : name, "");
    }
    if (strncmp(arch, "pascal", 6) == 0 || strncmp(arch, "volta", 5) == 0)
        return variant(name, "pascal");
    if (strncmp(arch, "ampere", 6) == 0)
        return variant(name, "ampere");
    if (strcmp(arch, "blackwell") == 0)
        return variant(name, "blackwell");
    return variant(name, "");
}

static struct rig_table table_of(const struct rig_format *f, const json_t *v)
{
    static const struct {
        const char *vector, *level;
        unsigned shift;
    } names[] = {
        {"pdb2", "PDB2", 0},        {"pdb1", "PDB1", 0}, {"pdb0", "PDB0", 0},
        {"pdb0-as-ptb", "PDB0", 0}, {"ptb", "PTB", 0},   {"ptb(256K)", "PTB", 18},
        {"pde4", "PDE4", 0},        {"pde3", "PDE3", 0}, {"pde2", "PDE2", 0},
        {"pde1", "PDE1", 0},        {"pde0", "PDE0", 0}, {"pte64k", "PT64K", 0},
        {"pte4k", "PT4K", 0},       {"pte", "PT4K", 0},  {"pte4k", "L0", 0},
        {"pde", "L1", 0},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(names); i++) {
        if (strcmp(names[i].vector, text(v, "level")) != 0)
            continue;
        for (unsigned k = 0; k < f->level_count; k++)
            if (strcmp(f->level[k].name, names[i].level) == 0)
                return (struct rig_table){
                    .level = (uint8_t)k,
                    .shift = (uint8_t)(names[i].shift ? names[i].shift : f->level[k].shift),
                    .index_bits = f->level[k].index_bits,
                };
    }
    fail_msg("%s: no level %s", text(v, "id"), text(v, "level"));
    return (struct rig_table){0};
}

static enum rig_memory_kind memory_of(const char *aperture)
{
    if (strcmp(aperture, "vram") == 0)
        return RIG_MEMORY_OWN;
    if (strcmp(aperture, "peer") == 0)
        return RIG_MEMORY_LINK;
    assert_int_equal(strncmp(aperture, "sys", 3), 0);
    return RIG_MEMORY_SYSTEM;
}

static unsigned type_of(const json_t *in)
{
    static const char *const mtypes[] = {"NC", "RW", "CC", "UC"};
    for (unsigned i = 0; i < 4; i++)
        if (strcmp(text(in, "mtype"), mtypes[i]) == 0)
            return i;
    if (has(in, "pat_index"))
        return (unsigned)number(in, "pat_index");
    return (unsigned)number(in, "kind");
}

/* What the vector says of one pointer of a directory. */
static void add_child(const struct rig_format *f, const json_t *in, const char *prefix,
                      unsigned level, struct rig_entry *e)
{
    char key[64];
    snprintf(key, sizeof key, "%saperture", prefix);
    const char *aperture = text(in, key);
    if (strcmp(aperture, "none") == 0 || strcmp(aperture, "invalid") == 0 || *aperture == '\0')
        return;
    struct rig_table *child = &e->child[e->children];
    e->kind = RIG_ENTRY_DIRECTORY;
    child->memory = memory_of(aperture);
    snprintf(key, sizeof key, *prefix ? "%saddress" : "physical_address", prefix);
    child->address = number(in, key);
    child->level = (uint8_t)level;
    child->shift = f->level[level].shift;
    child->index_bits = f->level[level].index_bits;
    snprintf(key, sizeof key, "%suncached", prefix);
    e->child_uncached[e->children] = flag(in, key, flag(in, "uncached", false));
    e->child_snooped[e->children] =
        strcmp(aperture, "sys_coherent") == 0 || flag(in, "snooped", false);
    e->children++;
}

static void directory_of(const struct rig_format *f, const struct rig_table *t, const json_t *in,
                         struct rig_entry *e)
{
    bool dual = f->level[t->level].entry_bytes == 16;
    unsigned below = t->level + 1u;
    e->block_fragment = (uint8_t)number(in, "block_fragment_size");
    e->offset = flag(in, "tfs_addr", false);
    e->further = flag(in, "translate_further", false);
    e->compact = flag(in, "compact_64k", false);
    e->type = (uint8_t)number(in, "pat_index");
    e->no_ats = flag(in, "no_ats", false) || !flag(in, "ats_allowed", true);
    if (below == f->level_count)
        below = t->level;
    if (dual && (has(in, "big_aperture") || has(in, "small_aperture"))) {
        add_child(f, in, "big_", below, e);
        add_child(f, in, "small_", below + 1, e);
    } else {
        add_child(f, in, "", below, e);
    }
    if (e->offset)
        e->child[0].further_base = e->child[0].address;
    if (e->compact || (strcmp(f->vendor, "amd") == 0 && (e->block_fragment || e->further))) {
        bool pdb0 = t->shift != 12 && (f->level[t->level].shift == 21 || e->further);
        if (e->compact)
            e->child[0].shift = 16;
        else if (pdb0)
            e->child[0].shift = (uint8_t)(12 + e->block_fragment);
        e->child[0].index_bits = (uint8_t)(t->shift - e->child[0].shift);
    }
}

/* The entry a vector's input describes. */
static struct rig_entry entry_of(const struct rig_format *f, const struct rig_table *t,
                                 const json_t *v)
{
    const json_t *in = json_object_get(v, "input");
    bool amd = strcmp(f->vendor, "amd") == 0, pde = strcmp(text(v, "kind"), "pde") == 0;
    struct rig_entry e = {.readable = true, .writable = true, .executable = true};
    if (flag(in, "sparse", false)) {
        e.kind = RIG_ENTRY_SPARSE;
        return e;
    }
    if (!flag(in, "valid", true)) {
        if (flag(in, "privileged", false) || strcmp(text(v, "level"), "pte64k") == 0)
            e.kind = RIG_ENTRY_HIDES;
        if (amd) {
            e.readable = e.writable = false;
            e.executable = !pde;
            e.leaf_bit = pde;
        }
        return e;
    }
    if (pde) {
        directory_of(f, t, in, &e);
        return e;
    }
    e.kind = RIG_ENTRY_LEAF;
    e.memory = memory_of(text(in, "aperture"));
    e.address = number(in, "physical_address");
    e.bytes = UINT64_C(1) << t->shift;
    e.peer = (uint8_t)number(in, "peer_id");
    e.type = (uint8_t)type_of(in);
    e.fragment = flag(in, "ps64_hint", false) ? 4 : (uint8_t)number(in, "fragment");
    e.uncached = flag(in, "uncached", false);
    e.snooped = flag(in, "snooped", strcmp(text(in, "aperture"), "sys_coherent") == 0);
    e.writable = !flag(in, "read_only", false);
    e.executable = flag(in, "executable", true);
    e.no_atomics = flag(in, "atomic_disable", strcmp(f->vendor, "intel") == 0);
    e.privileged = flag(in, "privileged", false);
    e.no_counters = !flag(in, "access_counters", true);
    e.no_alloc = flag(in, "noalloc", false);
    return e;
}

#define SAME(field)                                                                                \
    do {                                                                                           \
        if (got->field != want->field)                                                             \
            fail_msg("%s: " #field " is %llx, not %llx", id, (unsigned long long)got->field,       \
                     (unsigned long long)want->field);                                             \
    } while (0)

static void assert_same(const char *id, const struct rig_format *f, const struct rig_entry *got,
                        const struct rig_entry *want)
{
    SAME(kind);
    SAME(children);
    for (int i = 0; i < want->children; i++) {
        SAME(child[i].memory);
        SAME(child[i].address);
        SAME(child[i].level);
        SAME(child[i].shift);
        SAME(child[i].index_bits);
        SAME(child[i].further_base);
        SAME(child_uncached[i]);
        SAME(child_snooped[i]);
    }
    SAME(memory);
    SAME(address);
    SAME(bytes);
    SAME(peer);
    SAME(type);
    SAME(fragment);
    SAME(readable);
    SAME(writable);
    SAME(executable);
    SAME(no_atomics);
    SAME(privileged);
    SAME(no_counters);
    SAME(no_alloc);
    SAME(no_ats);
    SAME(leaf_bit);
    SAME(further);
    SAME(offset);
    SAME(compact);
    SAME(block_fragment);
    if (strcmp(f->vendor, "intel") != 0) {
        SAME(uncached);
        SAME(snooped);
    }
}

static void words_of(const json_t *v, uint64_t words[2])
{
    const char *hex = text(v, "entry_hex");
    char low[17] = "", high[17] = "";
    size_t n = strlen(hex);
    assert_true(n == 16 || n == 32);
    memcpy(low, hex + n - 16, 16);
    memcpy(high, hex, n - 16);
    words[0] = strtoull(low, NULL, 16);
    words[1] = strtoull(high, NULL, 16);
    const json_t *given = json_object_get(v, "words");
    if (given) {
        assert_int_equal(words[0], strtoull(json_string_value(json_array_get(given, 0)), NULL, 16));
        assert_int_equal(words[1], strtoull(json_string_value(json_array_get(given, 1)), NULL, 16));
    }
}

static json_t *vectors(void)
{
    json_error_t err;
    json_t *all = json_load_file(VECTORS, 0, &err);
    if (!all)
        fail_msg("%s: %s (run from the top of the tree)", VECTORS, err.text);
    assert_true(json_array_size(all) >= 90);
    return all;
}

static void every_vector_is_read_as_its_input(void **state)
{
    (void)state;
    json_t *all = vectors(), *v;
    size_t i;
    json_array_foreach(all, i, v)
    {
        const struct rig_format *f = format_of(v);
        struct rig_table t = table_of(f, v);
        uint64_t words[2];
        words_of(v, words);
        struct rig_entry want = entry_of(f, &t, v), got;
        rig_decode(f, &t, words, &got);
        assert_same(text(v, "id"), f, &got, &want);
    }
    json_decref(all);
}

/* A base that is not aligned to its page is in two recordings; the writer refuses such, and the
   rest of the word is as recorded. */
static void check_unaligned(const struct rig_format *f, const struct rig_table *t,
                            struct rig_entry *e, const uint64_t words[2])
{
    uint64_t got[2], low = e->address & (e->bytes - 1);
    assert_false(rig_encode(f, t->level, e, got));
    e->address -= low;
    assert_true(rig_encode(f, t->level, e, got));
    assert_int_equal(got[0] | low, words[0]);
}

static void every_vector_is_written_from_its_input(void **state)
{
    (void)state;
    json_t *all = vectors(), *v;
    size_t i;
    int unaligned = 0;
    json_array_foreach(all, i, v)
    {
        const struct rig_format *f = format_of(v);
        struct rig_table t = table_of(f, v);
        uint64_t words[2], got[2] = {1, 1};
        words_of(v, words);
        struct rig_entry e = entry_of(f, &t, v);
        if (e.kind == RIG_ENTRY_LEAF && (e.address & (e.bytes - 1)) != 0) {
            unaligned++;
            check_unaligned(f, &t, &e, words);
            continue;
        }
        if (!rig_encode(f, t.level, &e, got))
            fail_msg("%s: refused", text(v, "id"));
        if (got[0] != words[0] || got[1] != words[1])
            fail_msg("%s: wrote %016llx %016llx", text(v, "id"), (unsigned long long)got[1],
                     (unsigned long long)got[0]);
    }
    assert_int_equal(unaligned, 2);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_is_read_as_its_input),
        cmocka_unit_test(every_vector_is_written_from_its_input),
    };
    return cmocka_run_group_tests_name("page-table entries from outside", tests, NULL, NULL);
}
