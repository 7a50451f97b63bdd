/* Real machines' texts, where they lie beside the checkout ($RIGMEM_SHARED, else ../shared): facts
   that their owners or the vendors' documents tell. Without them these tests have nothing to do. */
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *slurp(const char *path, size_t *bytes)
{
    const char *shared = getenv("RIGMEM_SHARED");
    char name[512];
    snprintf(name, sizeof name, "%s/%s", shared ? shared : "../shared", path);
    FILE *file = fopen(name, "r");
    if (!file)
        return NULL;
    char *text = malloc(1 << 20);
    *bytes = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

/* The machine of the text at path, or NULL where it is not there. */
static struct rig_topology *machine(const char *path)
{
    size_t bytes;
    char *text = slurp(path, &bytes);
    if (!text)
        return NULL;
    struct rig_topology *t = NULL;
    struct rig_error err = {.status = RIG_OK};
    if (read_lspci(path, text, bytes, &t, &err) != RIG_OK)
        fail_msg("%s: %s", err.where, err.why);
    free(text);
    return t;
}

static const struct rig_function *at(const struct rig_topology *t, const char *name)
{
    int i = rig_topology_find(t, name);
    if (i < 0)
        fail_msg("%s is not there", name);
    return rig_topology_function(t, i);
}

/* What is asserted of a function: its parent, and one of its numbers where `value` is not NONE. */
#define NONE UINT64_MAX
struct expected {
    const char *path, *function, *parent; /* "-": on a root bus; "?": not known; NULL: not asked */
    uint64_t acs, bar;                    /* ACS control; size of the memory BAR */
};

static const struct expected expected[] = {
    {"cases/c01-p100x2-dual-broadwell/lspci-vvv.txt", "04:00.0", "0000:00:02.0", NONE,
     UINT64_C(16) << 30},
    {"cases/c01-p100x2-dual-broadwell/lspci-vvv.txt", "82:00.0", "0000:80:02.0", NONE,
     UINT64_C(16) << 30},
    {"cases/c04-mtca-pex8725-pex8748/lspci-vvvnn.txt", "04:09.0", "0000:03:00.0", 0x1d, NONE},
    {"cases/c04-mtca-pex8725-pex8748/lspci-tv.txt", "0c:00.0", "0000:04:0b.0", NONE, NONE},
    {"cases/c05-alderlake-laptop-xxxx/lspci-vvvxxxx.txt", "01:00.0", "0000:00:01.0", NONE,
     UINT64_C(8) << 30},
    {"cases/c06-lucienne-apu-pn51/lspci-vvv.txt", "00:08.1", "-", 0x1d, NONE},
    {"cases/c07-picasso-pericom/lspci-vvv.txt", "04:03.0", "0000:03:00.0", 0x1d, NONE},
    {"cases/c09-coffeelake-gtx1650/lspci-vvv.txt", "01:00.0", "0000:00:01.0", NONE,
     UINT64_C(256) << 20},
    {"cases/c10-p6t6-x58-xxxx/lspci-xxxx.txt", "06:00.0", "0000:00:07.0", NONE, NONE},
    {"cases/c10-p6t6-x58-xxxx/lspci-xxxx.txt", "00:07.0", "-", 0, NONE},
    {"cases/c11-n1sdp-plx8749/lspci-vvxxx.txt", "02:12.0", "0000:01:00.0", 0x1d, NONE},
    {"cases/c13-asm1812-subset/lspci-vvv-switch-only.txt", "03:00.0", "?", NONE, NONE},
    {"cases/c13-asm1812-subset/lspci-vvv-switch-only.txt", "04:0a.0", "0000:03:00.0", 0x1d, NONE},
    {"cases/c14-tb3-dual-3090/lspci-v.txt", "09:00.0", "0000:08:01.0", NONE, UINT64_C(256) << 20},
    {"cases/c14-tb3-dual-3090/lspci-v.txt", "2f:00.0", "0000:2e:01.0", NONE, UINT64_C(512) << 20},
    {"cases/c14-tb3-dual-3090/lspci-tv.txt", "2f:00.0", "0000:2e:01.0", NONE, NONE},
    {"cases/c15-genoa-2s-rtx6000ada-x4/session.md", "e1:00.0", "0000:e0:01.1", NONE,
     UINT64_C(64) << 30},
    {"cases/c18-a380-skylake-e/quoted-mail-lspci.txt", "60:00.0", "0000:5f:01.0", NONE,
     UINT64_C(256) << 20},
    {"cases/c22-powermac-g5-agp/lspci-v.txt", "0000:f0:10.0", "-", NONE, UINT64_C(128) << 20},
    {"cases/c24-rk3399-asm1184-gtx645/mail-wrapped-lspci.txt", "04:00.0", "0000:02:03.0", NONE,
     NONE},
    {"cases/c24-rk3399-asm1184-gtx645/lspci-vxxx.txt", "06:00.0", "0000:02:07.0", NONE, NONE},
    {"cases/c28-vmd-32bit-domain/lspci-mixed.txt", "10000:f1:00.0", "10000:80:1d.4", NONE, NONE},
    {"cases/c30-skylake-8-vector-engines-switch/lspci-Dnx.txt", "0000:19:04.0", "0000:18:00.0",
     NONE, NONE},
    {"cases/c32-dual-x58-two-root-buses/lspci-Dnx.txt", "0000:43:00.0", NULL, NONE, NONE},
    {"cases/c39-broken-ext-caps/lspci-xxxx.txt", "00:00.0", "-", NONE, NONE},
    {"cases/c49-8x4090-bar1-256m/lspci-v-nonroot-32g.txt", "01:00.0", NULL, NONE,
     UINT64_C(32) << 30},
    {"cases/c49-8x4090-bar1-256m/lspci-v-spaces.txt", "52:00.0", NULL, NONE, UINT64_C(256) << 20},
    {"cases/c49-8x4090-bar1-256m/rebar-lines-ellipsis.txt", "d8:00.0", NULL, NONE,
     UINT64_C(256) << 20},
    {"cases/c50-am4-2x3090-nonroot-tree/lspci-t.txt", "0b:00.0", "0000:00:03.2", NONE, NONE},
};

static void each_machine_has_the_facts_its_owner_tells(void **state)
{
    (void)state;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(expected); i++) {
        const struct expected *e = &expected[i];
        struct rig_topology *t = machine(e->path);
        if (!t)
            continue;
        const struct rig_function *f = at(t, e->function);
        char text[RIG_BDF_MAX];
        const char *parent = f->parent >= 0
                                 ? rig_bdf_format(rig_topology_function(t, f->parent)->bdf, text)
                             : f->parent_known.know == RIG_FACT_UNKNOWN ? "?"
                                                                        : "-";
        if (e->parent && strcmp(parent, e->parent) != 0)
            fail_msg("%s: %s is under %s", e->path, e->function, parent);
        if (e->acs != NONE && !fact_is(f->acs_control, e->acs))
            fail_msg("%s: ACS of %s", e->path, e->function);
        if (e->bar != NONE && (f->memory_bar < 0 || !fact_is(f->bar[f->memory_bar].size, e->bar)))
            fail_msg("%s: BAR of %s", e->path, e->function);
        rig_topology_free(t);
    }
}

static void texts_that_hold_no_machine_or_two_are_refused_with_what_they_tell(void **state)
{
    (void)state;
    static const struct {
        const char *path, *hint;
    } texts[] = {
        {"cases/c25-raphael-w5700-quoted/mail-fragment.txt", "split the file"},
        /* the ports in the order of the checker that its owner ran */
        {"cases/c42-rocketlake-2xb70-plx/acs-and-tree.txt",
         "pci=disable_acs_redir=0000:0d:01.0;0000:0b:00.0;0000:11:01.0;0000:0b:10.0; host bridge "
         "8086:4c43 is not on Linux's list"},
        {"cases/c43-4xb70-two-plx/ports.txt", "a comma ends disable_acs_redir=: Linux takes 1"},
        {"cases/c44-threadripper-5880ada-acs/facts.txt",
         "PHB leads through a host bridge, where Linux lets requests pass on AMD CPUs of family 23 "
         "or later (it names one of family 23)"},
        {"cases/c46-nccl-523-acsctl-grep/acsctl-grep.txt", ""},
        {"cases/c50-am4-2x3090-nonroot-tree/topo-p2p-tabs.txt", "what a driver allows"},
        {"cases/c51-kgpe-d16-2xrx460/dmesg.txt",
         "Linux's log in it says no for 0000:02:00.0 -> 0000:06:00.0"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(texts); i++) {
        size_t bytes;
        char *text = slurp(texts[i].path, &bytes);
        if (!text)
            continue;
        struct rig_topology *t = NULL;
        struct rig_error err = {.status = RIG_OK};
        assert_int_equal(read_lspci(texts[i].path, text, bytes, &t, &err), RIG_BAD_INPUT);
        if (!strstr(err.why, "lspci -D -vvv -nn -xxxx") && !strstr(err.hint, "split the file"))
            fail_msg("%s: %s", texts[i].path, err.why);
        if (!strstr(err.hint, texts[i].hint))
            fail_msg("%s: %s", texts[i].path, err.hint);
        free(text);
    }
}

static void same(struct rig_fact a, struct rig_fact b, const char *path, const char *what)
{
    if (a.know != b.know || (a.know == RIG_FACT_KNOWN && a.value != b.value))
        fail_msg("%s: %s: %d %llx, %d %llx", path, what, (int)a.know, (unsigned long long)a.value,
                 (int)b.know, (unsigned long long)b.value);
}

/* A kernel in an emulator was dumped both ways. */
static void text_and_hex_of_one_machine_give_the_same_facts(void **state)
{
    (void)state;
    static const char *const names[] = {"conventional", "functions", "integrated", "pxb",
                                        "switch-acs"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(names); i++) {
        char path[128];
        snprintf(path, sizeof path, "kernel-answers/%s/machine.hex", names[i]);
        struct rig_topology *hex = machine(path);
        snprintf(path, sizeof path, "kernel-answers/%s/machine.text", names[i]);
        struct rig_topology *text = machine(path);
        if (!hex || !text)
            return;
        assert_int_equal(rig_topology_count(hex), rig_topology_count(text));
        for (int k = 0; k < rig_topology_count(hex); k++) {
            const struct rig_function *a = rig_topology_function(hex, k);
            const struct rig_function *b = rig_topology_function(text, k);
            assert_int_equal(a->parent, b->parent);
            assert_int_equal(a->command.value & 0x7ff, b->command.value);
            same(a->vendor, b->vendor, path, "vendor");
            same(a->device, b->device, path, "device");
            same(a->class_code, b->class_code, path, "class");
            same(a->revision, b->revision, path, "revision");
            same(a->header_type, b->header_type, path, "header type");
            same(a->pcie_type, b->pcie_type, path, "PCIe type");
            same(a->acs_capability, b->acs_capability, path, "ACS capability");
            same(a->acs_control, b->acs_control, path, "ACS control");
            same(a->secondary, b->secondary, path, "secondary bus");
            same(a->link_speed, b->link_speed, path, "link speed");
            same(a->max_width, b->max_width, path, "link width");
            same(a->memory.base, b->memory.base, path, "memory window");
            same(a->prefetchable.limit, b->prefetchable.limit, path, "prefetchable window");
            for (int bar = 0; bar < RIG_BAR_COUNT; bar++) {
                same(a->bar[bar].flags, b->bar[bar].flags, path, "BAR");
                assert_int_equal(a->bar[bar].bus.value, b->bar[bar].bus.value);
            }
        }
        rig_topology_free(hex);
        rig_topology_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_machine_has_the_facts_its_owner_tells),
        cmocka_unit_test(texts_that_hold_no_machine_or_two_are_refused_with_what_they_tell),
        cmocka_unit_test(text_and_hex_of_one_machine_give_the_same_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
