/* What holds of every page-table format, and the traps of each. Values are worked out from the
   vendors' bit definitions. */
#include "gpu/format/format.h"
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* xorshift64*: deterministic, printed by a failing test's message. */
static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return *seed * UINT64_C(0x2545f4914f6cdd1d);
}

static const struct rig_format *named(const char *name)
{
    const struct rig_format *f = rig_format_named(name, 0, 0);
    assert_non_null(f);
    return f;
}

static struct rig_table table_at(const struct rig_format *f, unsigned level)
{
    return (struct rig_table){
        .level = (uint8_t)level,
        .shift = f->level[level].shift,
        .index_bits = f->level[level].index_bits,
    };
}

static unsigned level_named(const struct rig_format *f, const char *name)
{
    for (unsigned i = 0; i < f->level_count; i++)
        if (strcmp(f->level[i].name, name) == 0)
            return i;
    fail_msg("%s has no level %s", f->name, name);
    return 0;
}

static struct rig_entry decode(const char *format, const char *level, uint64_t low, uint64_t high)
{
    const struct rig_format *f = named(format);
    struct rig_table t = table_at(f, level_named(f, level));
    uint64_t words[2] = {low, high};
    struct rig_entry e;
    rig_decode(f, &t, words, &e);
    return e;
}

static unsigned bits_of(const struct rig_format *f, enum rig_memory_kind memory)
{
    if (memory == RIG_MEMORY_OWN)
        return f->own_bits;
    return memory == RIG_MEMORY_SYSTEM ? f->system_bits : f->link_bits;
}

/* A leaf with every attribute the format can hold at random. */
static struct rig_entry random_leaf(const struct rig_format *f, unsigned level,
                                    enum rig_memory_kind memory, uint64_t *seed)
{
    uint64_t r = next(seed), page = UINT64_C(1) << f->level[level].shift;
    uint64_t address = next(seed) & ((UINT64_C(1) << bits_of(f, memory)) - 1) & ~(page - 1);
    unsigned peer = 0;
    if (memory == RIG_MEMORY_LINK && f->link_peers)
        peer = (unsigned)(r % f->link_peers);
    struct rig_entry e = rig_leaf(f, level, memory, address, peer, r >> 8 & 1, r >> 9 & 1);
    if (f->fragment_only)
        e.fragment = level + 1u == f->level_count && (r >> 10 & 1) ? f->fragment_only : 0;
    else if (f->fragment_max)
        e.fragment = (uint8_t)((r >> 10) % (f->fragment_max + 1u));
    if (strcmp(f->name, "plain") != 0)
        e.writable = r >> 20 & 1;
    if (strcmp(f->vendor, "amd") == 0) {
        e.readable = r >> 21 & 1;
        e.executable = r >> 22 & 1;
        e.encrypted = r >> 23 & 1;
    } else if (strcmp(f->vendor, "nvidia") == 0) {
        e.privileged = r >> 21 & 1;
        e.no_atomics = r >> 22 & 1;
        e.no_counters = strcmp(f->name, "nv-mmu-v3") == 0 && (r >> 23 & 1);
        e.encrypted = strcmp(f->name, "nv-mmu-v2") == 0 && (r >> 24 & 1);
        e.type = r >> 25 & 15;
    } else if (strcmp(f->vendor, "intel") == 0) {
        e.no_atomics = r >> 21 & 1;
    }
    return e;
}

static bool same_attributes(const struct rig_entry *a, const struct rig_entry *b)
{
    return a->uncached == b->uncached && a->snooped == b->snooped && a->readable == b->readable &&
           a->writable == b->writable && a->executable == b->executable &&
           a->no_atomics == b->no_atomics && a->privileged == b->privileged &&
           a->encrypted == b->encrypted && a->no_counters == b->no_counters &&
           a->no_alloc == b->no_alloc;
}

static void assert_leaf(const struct rig_format *f, unsigned level, const struct rig_entry *want,
                        const struct rig_entry *got)
{
    if (want->kind != got->kind || want->memory != got->memory || want->address != got->address ||
        want->bytes != got->bytes || want->peer != got->peer || want->type != got->type ||
        want->fragment != got->fragment || !same_attributes(want, got))
        fail_msg("%s %s level %s: wrote address %llx memory %d type %u fragment %u, read %llx %d "
                 "%u %u, kind %d",
                 f->name, f->variant, f->level[level].name, (unsigned long long)want->address,
                 (int)want->memory, want->type, want->fragment, (unsigned long long)got->address,
                 (int)got->memory, got->type, got->fragment, (int)got->kind);
}

static void what_is_written_is_read_back_in_every_format_level_and_memory(void **state)
{
    (void)state;
    uint64_t seed = 0x5eed0001;
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        for (unsigned level = 0; level < f->level_count; level++) {
            struct rig_table t = table_at(f, level);
            for (int k = 0; k < 3000; k++) {
                enum rig_memory_kind memory = (enum rig_memory_kind)(k % 3);
                struct rig_entry e = random_leaf(f, level, memory, &seed), got;
                uint64_t words[2];
                bool can =
                    f->level[level].leaf && (memory != RIG_MEMORY_LINK || f->link != RIG_LINK_NONE);
                assert_int_equal(rig_encode(f, level, &e, words), can);
                if (!can)
                    continue;
                rig_decode(f, &t, words, &got);
                if (memory == RIG_MEMORY_LINK && f->link == RIG_LINK_FLAT)
                    e.memory = RIG_MEMORY_OWN;
                assert_leaf(f, level, &e, &got);
            }
        }
    }
}

static void a_directory_is_read_back_as_the_table_it_points_at(void **state)
{
    (void)state;
    uint64_t seed = 0x5eed0002;
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        for (unsigned child = 1; child < f->level_count; child++) {
            const struct rig_level *l = &f->level[child];
            unsigned level = (unsigned)l->parent;
            struct rig_table t = table_at(f, level);
            for (int k = 0; k < 200; k++) {
                bool system = f->system_tables && (k & 1);
                uint64_t mask = (UINT64_C(1) << (system ? f->system_bits : f->own_bits)) - 1;
                uint64_t address = next(&seed) & mask & ~(uint64_t)(l->table_bytes - 1);
                enum rig_memory_kind memory = system ? RIG_MEMORY_SYSTEM : RIG_MEMORY_OWN;
                struct rig_entry e = rig_directory(f, level, child, memory, address), got;
                uint64_t words[2];
                assert_true(rig_encode(f, level, &e, words));
                assert_int_equal(words[!l->half], 0);
                rig_decode(f, &t, words, &got);
                assert_int_equal(got.kind, RIG_ENTRY_DIRECTORY);
                assert_int_equal(got.children, 1);
                assert_int_equal(got.child[0].memory, memory);
                assert_int_equal(got.child[0].address, address);
                assert_int_equal(got.child[0].level, child);
                assert_int_equal(got.child[0].shift, l->shift);
                assert_int_equal(got.child[0].index_bits, l->index_bits);
            }
        }
    }
}

static void no_entry_of_any_words_leads_a_walk_astray(void **state)
{
    (void)state;
    uint64_t seed = 0x5eed0003;
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        for (int k = 0; k < 20000; k++) {
            unsigned level = (unsigned)(next(&seed) % f->level_count);
            struct rig_table t = table_at(f, level);
            uint64_t words[2] = {next(&seed) & (next(&seed) | 0xff), next(&seed)};
            struct rig_entry e;
            if (k & 1)
                words[0] |= 1;
            rig_decode(f, &t, words, &e);
            assert_true(e.children <= 2 && (e.children > 0) == (e.kind == RIG_ENTRY_DIRECTORY));
            for (int c = 0; c < e.children; c++) {
                assert_true(e.child[c].level > level || e.child[c].shift < t.shift);
                assert_true(e.child[c].level < f->level_count);
                assert_true(e.child[c].shift >= 12 && e.child[c].shift <= t.shift);
                assert_int_equal(e.child[c].shift + e.child[c].index_bits, t.shift);
            }
            if (e.kind == RIG_ENTRY_LEAF)
                assert_int_equal(e.bytes, UINT64_C(1) << t.shift);
        }
    }
}

static void a_filled_run_is_each_entry_written_alone(void **state)
{
    (void)state;
    uint64_t seed = 0x5eed0004;
    _Alignas(64) uint64_t out[2 * 520];
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        for (unsigned level = 0; level < f->level_count; level++) {
            unsigned wide = f->level[level].entry_bytes / 8;
            for (int k = 0; k < 60 && f->level[level].leaf; k++) {
                enum rig_memory_kind memory = (enum rig_memory_kind)(k % 2);
                uint64_t count = 1 + next(&seed) % 512, page = UINT64_C(1) << f->level[level].shift;
                struct rig_entry e = random_leaf(f, level, memory, &seed);
                e.address &= (UINT64_C(1) << (bits_of(f, memory) - 1)) - 1;
                uint64_t room = (UINT64_C(1) << bits_of(f, memory)) - e.address;
                count = count * page > room ? room / page : count;
                memset(out, 0xa5, sizeof out);
                uint64_t first[2];
                assert_true(rig_encode(f, level, &e, first));
                rig_fill(f, level, first[0], count, k % 3 == 0, out);
                rig_fill_drain();
                for (uint64_t n = 0; n < count; n++, e.address += page) {
                    uint64_t words[2];
                    assert_true(rig_encode(f, level, &e, words));
                    assert_int_equal(out[n * wide], words[0]);
                    if (wide == 2)
                        assert_int_equal(out[n * 2 + 1], words[1]);
                }
                assert_int_equal(out[count * wide], 0xa5a5a5a5a5a5a5a5);
            }
        }
    }
}

static void zeros_are_written_where_they_are_asked_for_alone(void **state)
{
    (void)state;
    _Alignas(64) uint64_t out[600];
    for (unsigned from = 0; from < 17; from++)
        for (unsigned n = 0; n <= 512; n += n < 40 ? 1 : 59) {
            memset(out, 0xa5, sizeof out);
            rig_fill_zeros(n, n % 2 == 0, out + from);
            rig_fill_drain();
            for (unsigned k = 0; k < 600; k++)
                assert_int_equal(out[k],
                                 k >= from && k < from + n ? 0 : UINT64_C(0xa5a5a5a5a5a5a5a5));
        }
}

static void an_address_beyond_its_field_is_refused(void **state)
{
    (void)state;
    const struct rig_format *f = named("nv-mmu-v2");
    unsigned level = level_named(f, "PT4K");
    uint64_t words[2] = {7, 7}, edge = UINT64_C(1) << 37;
    struct rig_entry e = rig_leaf(f, level, RIG_MEMORY_OWN, edge - 4096, 0, false, false);
    assert_true(rig_encode(f, level, &e, words));
    words[0] = 7;
    e = rig_leaf(f, level, RIG_MEMORY_OWN, edge, 0, false, false);
    assert_false(rig_encode(f, level, &e, words));
    assert_int_equal(words[0], 7);
    e = rig_leaf(f, level, RIG_MEMORY_SYSTEM, UINT64_C(1) << 58, 0, false, true);
    assert_false(rig_encode(f, level, &e, words));
    /* A peer's address goes on in another field above bit 37, up to bit 54. */
    e = rig_leaf(f, level, RIG_MEMORY_LINK, edge, 1, false, false);
    assert_true(rig_encode(f, level, &e, words));
    assert_int_equal(words[0], 0x0600001200000003);
    e = rig_leaf(f, level, RIG_MEMORY_LINK, UINT64_C(1) << 55, 1, false, false);
    assert_false(rig_encode(f, level, &e, words));
    static const char *const in_place[] = {"amd-gfx9", "amd-gfx12"};
    for (size_t i = 0; i < 2; i++) {
        f = named(in_place[i]);
        e = rig_leaf(f, 3, RIG_MEMORY_SYSTEM, UINT64_C(1) << 48, 0, false, true);
        assert_false(rig_encode(f, 3, &e, words));
    }
}

static void an_unaligned_base_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        for (unsigned level = 0; level < f->level_count; level++) {
            uint64_t page = UINT64_C(1) << f->level[level].shift, words[2] = {9, 9};
            struct rig_entry e = rig_leaf(f, level, RIG_MEMORY_OWN, page / 2, 0, false, false);
            assert_false(rig_encode(f, level, &e, words));
            assert_int_equal(words[0], 9);
        }
    }
}

static void all_ones_is_a_lost_device_and_no_entry(void **state)
{
    (void)state;
    uint64_t ones[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        for (unsigned level = 0; level < f->level_count; level++) {
            struct rig_table t = table_at(f, level);
            struct rig_entry e;
            rig_decode(f, &t, ones, &e);
            assert_int_equal(e.kind, RIG_ENTRY_LOST);
        }
    }
}

static void zero_is_nothing_in_every_format(void **state)
{
    (void)state;
    uint64_t zero[2] = {0, 0};
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        for (unsigned level = 0; level < f->level_count; level++) {
            struct rig_table t = table_at(f, level);
            struct rig_entry e, invalid = {.kind = RIG_ENTRY_INVALID};
            uint64_t words[2] = {1, 1};
            rig_decode(f, &t, zero, &e);
            assert_int_equal(e.kind, RIG_ENTRY_INVALID);
            assert_true(rig_encode(f, level, &invalid, words));
            assert_int_equal(words[0] | words[1], 0);
        }
    }
}

/* NVIDIA numbers apertures one way in directories and another in leaves. */
static void nvidia_video_memory_is_1_in_a_directory_and_0_in_a_leaf(void **state)
{
    (void)state;
    struct rig_entry e = decode("nv-mmu-v2", "PDE3", 0x0000000000020402, 0);
    assert_int_equal(e.child[0].memory, RIG_MEMORY_OWN);
    e = decode("nv-mmu-v2", "PT4K", 0x0600000000020401, 0);
    assert_int_equal(e.memory, RIG_MEMORY_OWN);
    e = decode("nv-mmu-v2", "PT4K", 0x0600000000020403, 0);
    assert_int_equal(e.memory, RIG_MEMORY_LINK);
    e = decode("nv-mmu-v3", "PDE4", 0x0000000000204012, 0);
    assert_int_equal(e.child[0].memory, RIG_MEMORY_OWN);
    e = decode("nv-mmu-v3", "PT4K", 0x0000000000204601, 0);
    assert_int_equal(e.memory, RIG_MEMORY_OWN);
}

static void nvidia_addresses_are_shifted_in_version_2_and_in_place_in_version_3(void **state)
{
    (void)state;
    struct rig_entry e = decode("nv-mmu-v2", "PT4K", 0x0600000012345601, 0);
    assert_int_equal(e.address, 0x123456000);
    e = decode("nv-mmu-v3", "PT4K", 0x0000000123456601, 0);
    assert_int_equal(e.address, 0x123456000);
    e = decode("nv-mmu-v2", "PDE0", 0x00000001bbbbbbba, 0x003999999999990c);
    assert_int_equal(e.children, 2);
    assert_int_equal(e.child[0].address, 0x1bbbbbbb00);
    assert_int_equal(e.child[1].address, 0x399999999999000);
    e = decode("nv-mmu-v3", "PDE0", 0x000000bbbbbbbb0a, 0);
    assert_int_equal(e.child[0].address, 0xbbbbbbbb00);
}

static void nvidia_table_of_64k_pages_is_256_bytes_at_256_byte_granularity(void **state)
{
    (void)state;
    for (int v3 = 0; v3 < 2; v3++) {
        const struct rig_format *f = named(v3 ? "nv-mmu-v3" : "nv-mmu-v2");
        unsigned pde0 = level_named(f, "PDE0"), big = level_named(f, "PT64K"),
                 small = level_named(f, "PT4K");
        uint64_t words[2];
        assert_int_equal(f->level[big].table_bytes, 256);
        assert_int_equal((1u << f->level[big].index_bits) * f->level[big].entry_bytes, 256);
        struct rig_entry e = rig_directory(f, pde0, big, RIG_MEMORY_OWN, 0x300);
        assert_true(rig_encode(f, pde0, &e, words));
        e = rig_directory(f, pde0, big, RIG_MEMORY_OWN, 0x380);
        assert_false(rig_encode(f, pde0, &e, words));
        e = rig_directory(f, pde0, small, RIG_MEMORY_OWN, 0x300);
        assert_false(rig_encode(f, pde0, &e, words));
        e = rig_directory(f, pde0 - 1, pde0, RIG_MEMORY_OWN, 0x800);
        assert_false(rig_encode(f, pde0 - 1, &e, words));
    }
}

static uint64_t leaf_word(const char *format, const char *level, bool uncached)
{
    const struct rig_format *f = named(format);
    uint64_t words[2] = {0, 0};
    struct rig_entry e =
        rig_leaf(f, level_named(f, level), RIG_MEMORY_OWN, 0x40000000, 0, uncached, false);
    assert_true(rig_encode(f, level_named(f, level), &e, words));
    return words[0];
}

static void amd_2m_leaf_has_bit_54_none_or_63_by_layout(void **state)
{
    (void)state;
    const uint64_t p = UINT64_C(1) << 54, is_pte = UINT64_C(1) << 63;
    assert_int_equal(leaf_word("amd-gfx9", "PDB0", false), 0x40000071 | p);
    assert_int_equal(leaf_word("amd-gfx10", "PDB0", false), 0x40000071 | p);
    assert_int_equal(leaf_word("amd-gfx11", "PDB0", false), 0x40000071 | p);
    assert_int_equal(leaf_word("amd-gfx9-further", "PDB0", false) & p, 0);
    assert_int_equal(leaf_word("amd-gfx9-further", "PDB1", false) & p, p);
    assert_int_equal(leaf_word("amd-gfx12", "PDB0", false), 0x40000071 | is_pte);
    assert_int_equal(leaf_word("amd-gfx12", "PTB", false), 0x40000071 | is_pte);
    /* gfx12: without IS_PTE a 4 KiB entry is no leaf. */
    assert_int_equal(decode("amd-gfx12", "PTB", 0x40000071, 0).kind, RIG_ENTRY_INVALID);
}

static void amd_memory_type_lies_where_its_generation_has_it(void **state)
{
    (void)state;
    assert_int_equal(leaf_word("amd-gfx9", "PTB", true), 0x0600000040000071);
    assert_int_equal(leaf_word("amd-gfx10", "PTB", true), 0x0003000040000071);
    assert_int_equal(leaf_word("amd-gfx11", "PTB", true), 0x0003000040000071);
    assert_int_equal(leaf_word("amd-gfx12", "PTB", true), 0x80c0000040000071);
    /* Read by another generation, gfx12's uncached makes a leaf of a directory, and gfx9's points
       a page-table entry further. */
    assert_int_equal(decode("amd-gfx10", "PDB0", 0x00c0000040000071, 0).kind, RIG_ENTRY_LEAF);
    assert_int_equal(decode("amd-gfx9", "PTB", 0x0600000040000071, 0).kind, RIG_ENTRY_LEAF);
    assert_false(decode("amd-gfx11", "PTB", 0x0600000040000071, 0).uncached);
    /* Further, from a table of 4 KiB entries: there is nothing smaller, so nothing. */
    assert_int_equal(decode("amd-gfx9", "PTB", 0x0100000040000071, 0).kind, RIG_ENTRY_INVALID);
}

static void an_invalid_entry_need_not_be_zero(void **state)
{
    (void)state;
    assert_int_equal(decode("nv-mmu-v3", "PDE3", 0x10, 0).kind, RIG_ENTRY_INVALID);
    assert_int_equal(decode("nv-mmu-v3", "PDE0", 0x10, 0x10).kind, RIG_ENTRY_INVALID);
    assert_int_equal(decode("nv-mmu-v2", "PDE0", 0x20, 0).kind, RIG_ENTRY_INVALID);
    assert_int_equal(decode("nv-mmu-v2", "PT64K", 0x20, 0).kind, RIG_ENTRY_HIDES);
    assert_int_equal(decode("nv-mmu-v3", "PT64K", 0x18, 0).kind, RIG_ENTRY_HIDES);
    assert_int_equal(decode("nv-mmu-v2", "PT64K", 0x8, 0).kind, RIG_ENTRY_SPARSE);
    assert_int_equal(decode("nv-mmu-v3", "PT4K", 0x8, 0).kind, RIG_ENTRY_SPARSE);
    assert_int_equal(decode("nv-mmu-v2", "PDE0", 0x8, 0).kind, RIG_ENTRY_SPARSE);
    assert_int_equal(decode("amd-gfx9", "PTB", 0x10, 0).kind, RIG_ENTRY_INVALID);
    assert_int_equal(decode("amd-gfx9", "PTB", 0x0008000000000000, 0).kind, RIG_ENTRY_SPARSE);
    assert_int_equal(decode("amd-gfx10", "PTB", 0x0088000000000006, 0).kind, RIG_ENTRY_SPARSE);
    assert_int_equal(decode("amd-gfx12", "PDB1", 0x8000000000000000, 0).kind, RIG_ENTRY_INVALID);
    assert_int_equal(decode("amd-gfx12", "PDB1", 0x8100000000000006, 0).kind, RIG_ENTRY_SPARSE);
    assert_int_equal(decode("intel-xe", "L0", 0x203, 0).kind, RIG_ENTRY_SPARSE);
    assert_int_equal(decode("intel-xe", "L0", 0x1002, 0).kind, RIG_ENTRY_INVALID);
    assert_int_equal(decode("plain", "L0", 0x1002, 0).kind, RIG_ENTRY_INVALID);
}

static void a_leaf_at_a_level_that_has_none_is_nothing(void **state)
{
    (void)state;
    assert_int_equal(decode("nv-mmu-v2", "PDE3", 0x0600000000000001, 0).kind, RIG_ENTRY_INVALID);
    assert_int_equal(decode("intel-xe", "L3", 0x883, 0).kind, RIG_ENTRY_INVALID);
    /* Turing has no 512 MiB pages, Ampere has; Hopper no 256 GiB pages, Blackwell has. */
    const struct rig_format *ampere = rig_format_named("nv-mmu-v2", 0x10de, 0x2204);
    const struct rig_format *turing = rig_format_named("nv-mmu-v2", 0x10de, 0x1e04);
    const struct rig_format *hopper = rig_format_named("nv-mmu-v3", 0x10de, 0x2330);
    const struct rig_format *blackwell = rig_format_named("nv-mmu-v3", 0x10de, 0x2901);
    assert_true(ampere->level[2].leaf && !turing->level[2].leaf);
    assert_true(blackwell->level[2].leaf && !hopper->level[2].leaf && hopper->level[3].leaf);
}

static void addresses_are_limited_as_the_devices_are(void **state)
{
    (void)state;
    assert_int_equal(named("amd-gfx9")->system_bits, 44);
    assert_int_equal(named("amd-gfx9-further")->system_bits, 48);
    assert_int_equal(rig_format_for(0x1002, 0x738c, 0x038000)->system_bits, 44);
    assert_int_equal(named("amd-gfx10")->system_bits, 44);
    assert_int_equal(named("amd-gfx11")->system_bits, 44);
    assert_int_equal(named("amd-gfx12")->system_bits, 44);
    assert_int_equal(named("nv-mmu-v2")->system_bits, 47);
    assert_int_equal(named("nv-mmu-v3")->system_bits, 52);
    assert_int_equal(named("intel-xe")->system_bits, 46);
    assert_int_equal(rig_format_for(0x8086, 0x0bd5, 0x038000)->system_bits, 52);
}

static void the_plain_format_is_its_bits(void **state)
{
    (void)state;
    const struct rig_format *f = named("plain");
    uint64_t words[2];
    struct rig_entry e = rig_leaf(f, 3, RIG_MEMORY_OWN, 0x123456000, 0, false, false);
    assert_true(rig_encode(f, 3, &e, words));
    assert_int_equal(words[0], 0x0000000123456001);
    e = rig_leaf(f, 3, RIG_MEMORY_SYSTEM, 0x123456000, 0, true, true);
    assert_true(rig_encode(f, 3, &e, words));
    assert_int_equal(words[0], 0x000000012345601d);
    e = rig_leaf(f, 2, RIG_MEMORY_LINK, 0x40000000, 21, false, false);
    e.fragment = 9;
    assert_true(rig_encode(f, 2, &e, words));
    assert_int_equal(words[0], 0x5400000040000263);
    e = rig_directory(f, 0, 1, RIG_MEMORY_OWN, 0x7000);
    assert_true(rig_encode(f, 0, &e, words));
    assert_int_equal(words[0], 0x7001);
    /* System and peer at once is nothing. */
    assert_int_equal(decode("plain", "L0", 0x1025, 0).kind, RIG_ENTRY_INVALID);
}

static void intel_scatters_the_pat_index(void **state)
{
    (void)state;
    assert_int_equal(decode("intel-xe", "L0", 0x0000000000001081, 0).type, 4);
    assert_int_equal(decode("intel-xe", "L1", 0x0000000000201081, 0).type, 4);
    assert_int_equal(decode("intel-xe", "L0", 0x4000000000001001, 0).type, 8);
    assert_int_equal(decode("intel-xe", "L0", 0x2000000000001001, 0).type, 16);
    struct rig_entry e = decode("intel-xe", "L1", 0x6fff043, 0);
    assert_int_equal(e.child[0].shift, 16);
    assert_int_equal(e.child[0].index_bits, 5);
    /* DG2's table: 0 is write-back and coherent, 3 uncached. */
    e = decode("intel-xe", "L0", 0x1003, 0);
    assert_true(e.snooped && !e.uncached);
    e = decode("intel-xe", "L0", 0x101b, 0);
    assert_true(e.snooped && e.uncached);
}

static void a_gpu_has_the_format_of_its_generation(void **state)
{
    (void)state;
    static const struct {
        uint16_t vendor, device;
        const char *name, *variant;
    } known[] = {
        {0x1002, 0x687f, "amd-gfx9", ""},           {0x1002, 0x1636, "amd-gfx9", ""},
        {0x1002, 0x15d8, "amd-gfx9", ""},           {0x1002, 0x738c, "amd-gfx9-further", "mi100"},
        {0x1002, 0x740f, "amd-gfx9-further", ""},   {0x1002, 0x74a1, "amd-gfx9-further", ""},
        {0x1002, 0x7312, "amd-gfx10", ""},          {0x1002, 0x73bf, "amd-gfx10", ""},
        {0x1002, 0x744c, "amd-gfx11", ""},          {0x1002, 0x7550, "amd-gfx12", ""},
        {0x10de, 0x15f9, "nv-mmu-v2", "pascal"},    {0x10de, 0x1db6, "nv-mmu-v2", "pascal"},
        {0x10de, 0x1f82, "nv-mmu-v2", ""},          {0x10de, 0x20b0, "nv-mmu-v2", "ampere"},
        {0x10de, 0x2204, "nv-mmu-v2", "ampere"},    {0x10de, 0x2330, "nv-mmu-v3", ""},
        {0x10de, 0x26b1, "nv-mmu-v2", "ampere"},    {0x10de, 0x2684, "nv-mmu-v2", "ampere"},
        {0x10de, 0x2901, "nv-mmu-v3", "blackwell"}, {0x10de, 0x2b85, "nv-mmu-v3", "blackwell"},
        {0x8086, 0x56a5, "intel-xe", ""},           {0x8086, 0x0bd5, "intel-xe", "hpc"},
        {0x8086, 0xe20b, "intel-xe", "xe2"},        {0x8086, 0x56b3, "intel-xe", ""},
        {0x10de, 0x20f1, "nv-mmu-v2", "ampere"},    {0x10de, 0x1df6, "nv-mmu-v2", "pascal"},
        {0x1002, 0x7448, "amd-gfx11", ""},          {0x1002, 0x7470, "amd-gfx11", ""},
        {0x1002, 0x74a5, "amd-gfx9-further", ""},   {0x1002, 0x75a3, "amd-gfx9-further", ""},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(known); i++) {
        const struct rig_format *f = rig_format_for(known[i].vendor, known[i].device, 0x030000);
        if (!f || strcmp(f->name, known[i].name) != 0 || strcmp(f->variant, known[i].variant) != 0)
            fail_msg("%04x:%04x is %s", known[i].vendor, known[i].device, f ? f->name : "unknown");
        assert_ptr_equal(rig_format_named(known[i].name, known[i].vendor, known[i].device), f);
        assert_int_equal(f->vendor_id, known[i].vendor);
    }
    /* Polaris, Kepler and a graphics core of an i7 are none of these; nor is a card's audio. */
    assert_null(rig_format_for(0x1002, 0x67ef, 0x030000));
    assert_null(rig_format_for(0x10de, 0x11c4, 0x030000));
    assert_null(rig_format_for(0x8086, 0x5912, 0x030000));
    assert_null(rig_format_for(0x10de, 0x22ba, 0x040300));
    assert_null(rig_format_for(0x144d, 0x2204, 0x010802));
}

/* NVIDIA's up to Maxwell, AMD's up to Polaris, and Intel's DG1 have page tables of other forms. */
static bool is_older(uint16_t vendor, uint16_t device)
{
    if (vendor == 0x10de)
        return device < 0x15f0 || (device >= 0x1600 && device < 0x1b00);
    if (vendor == 0x1002)
        return (device >= 0x67c0 && device <= 0x67ff) || device == 0x7300;
    return device >= 0x4905 && device <= 0x4909;
}

static void what_else_is_known_by_an_id_agrees_with_its_format(void **state)
{
    (void)state;
    static const uint16_t vendors[] = {0x1002, 0x10de, 0x8086};
    unsigned sized = 0, masked = 0;
    for (size_t v = 0; v < RIG_ARRAY_LENGTH(vendors); v++)
        for (unsigned device = 0; device < 0x10000; device++) {
            uint16_t vendor = vendors[v], id = (uint16_t)device;
            const struct rig_format *f = rig_format_for(vendor, id, 0);
            unsigned bits = gpu_address_bits(vendor, id);
            bool size = gpu_memory_by_id(vendor, id, 0, 0) != 0;
            if (size && !f && !is_older(vendor, id))
                fail_msg("%04x:%04x: its memory is known, not its format", vendor, device);
            if (f && bits != 0)
                assert_int_equal(f->system_bits, bits);
            sized += f && size;
            masked += f && bits != 0;
        }
    assert_true(sized > 100 && masked > sized);
}

static void a_version_register_tells_the_format_and_ada_is_not_hopper(void **state)
{
    (void)state;
    assert_string_equal(rig_format_nvidia(0x17)->name, "nv-mmu-v2");
    assert_string_equal(rig_format_nvidia(0x18)->name, "nv-mmu-v3");
    assert_string_equal(rig_format_nvidia(0x19)->name, "nv-mmu-v2");
    assert_string_equal(rig_format_nvidia(0x1a)->name, "nv-mmu-v3");
    assert_null(rig_format_nvidia(0x12));
    assert_string_equal(rig_format_amd(9, 0, 1)->name, "amd-gfx9");
    assert_string_equal(rig_format_amd(9, 4, 0)->name, "amd-gfx9");
    assert_string_equal(rig_format_amd(9, 4, 1)->variant, "mi100");
    assert_string_equal(rig_format_amd(9, 4, 3)->name, "amd-gfx9-further");
    assert_string_equal(rig_format_amd(9, 5, 0)->name, "amd-gfx9-further");
    assert_string_equal(rig_format_amd(10, 3, 0)->name, "amd-gfx10");
    assert_string_equal(rig_format_amd(11, 5, 1)->name, "amd-gfx11");
    assert_string_equal(rig_format_amd(12, 0, 0)->name, "amd-gfx12");
    assert_null(rig_format_amd(8, 0, 0));
}

static void a_name_is_one_of_the_list(void **state)
{
    (void)state;
    static const char *const names[] = {"amd-gfx9",  "amd-gfx9-further", "amd-gfx10",
                                        "amd-gfx11", "amd-gfx12",        "nv-mmu-v2",
                                        "nv-mmu-v3", "intel-xe",         "plain"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(names); i++) {
        assert_string_equal(named(names[i])->name, names[i]);
        assert_string_equal(named(names[i])->variant, "");
    }
    assert_null(rig_format_named("amd", 0, 0));
    assert_null(rig_format_named("", 0, 0));
    assert_null(rig_format_at(-1));
    assert_null(rig_format_at(rig_format_count()));
}

static void holes_and_reserved_ranges_are_not_mappable(void **state)
{
    (void)state;
    const struct rig_format *amd = named("amd-gfx10"), *nv = named("nv-mmu-v2");
    assert_false(rig_format_mappable(amd, 0xf000, 4096));
    assert_true(rig_format_mappable(amd, 0x10000, 4096));
    assert_true(rig_format_mappable(amd, 0x7ffffffff000, 4096));
    assert_false(rig_format_mappable(amd, 0x7ffffffff000, 8192));
    assert_false(rig_format_mappable(amd, 0xffff000000000000, 4096));
    assert_true(rig_format_mappable(amd, 0xffff800000000000, 4096));
    assert_false(rig_format_mappable(amd, 0xffffffffffffe000, 4096));
    assert_false(rig_format_mappable(amd, 0xfffffffffffff000, 8192));
    assert_false(rig_format_mappable(amd, 0x10000, 0));
    assert_true(rig_format_mappable(nv, 0xfffffffff000, 4096));
    assert_false(rig_format_mappable(nv, 0x1000000000000, 4096));
    assert_false(rig_format_mappable(named("plain"), 0x1000000000000, 4096));
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        assert_int_equal(f->space_bytes, (f->vendor_id ? UINT64_C(16) : UINT64_C(4)) << 40);
        assert_true(rig_format_mappable(f, f->space_base, f->space_bytes));
    }
    assert_int_equal(amd->space_base, 0x200000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back_in_every_format_level_and_memory),
        cmocka_unit_test(a_directory_is_read_back_as_the_table_it_points_at),
        cmocka_unit_test(no_entry_of_any_words_leads_a_walk_astray),
        cmocka_unit_test(a_filled_run_is_each_entry_written_alone),
        cmocka_unit_test(zeros_are_written_where_they_are_asked_for_alone),
        cmocka_unit_test(an_address_beyond_its_field_is_refused),
        cmocka_unit_test(an_unaligned_base_is_refused),
        cmocka_unit_test(all_ones_is_a_lost_device_and_no_entry),
        cmocka_unit_test(zero_is_nothing_in_every_format),
        cmocka_unit_test(nvidia_video_memory_is_1_in_a_directory_and_0_in_a_leaf),
        cmocka_unit_test(nvidia_addresses_are_shifted_in_version_2_and_in_place_in_version_3),
        cmocka_unit_test(nvidia_table_of_64k_pages_is_256_bytes_at_256_byte_granularity),
        cmocka_unit_test(amd_2m_leaf_has_bit_54_none_or_63_by_layout),
        cmocka_unit_test(amd_memory_type_lies_where_its_generation_has_it),
        cmocka_unit_test(an_invalid_entry_need_not_be_zero),
        cmocka_unit_test(a_leaf_at_a_level_that_has_none_is_nothing),
        cmocka_unit_test(addresses_are_limited_as_the_devices_are),
        cmocka_unit_test(the_plain_format_is_its_bits),
        cmocka_unit_test(intel_scatters_the_pat_index),
        cmocka_unit_test(a_gpu_has_the_format_of_its_generation),
        cmocka_unit_test(what_else_is_known_by_an_id_agrees_with_its_format),
        cmocka_unit_test(a_version_register_tells_the_format_and_ada_is_not_hopper),
        cmocka_unit_test(a_name_is_one_of_the_list),
        cmocka_unit_test(holes_and_reserved_ranges_are_not_mappable),
    };
    return cmocka_run_group_tests_name("page-table formats", tests, NULL, NULL);
}
