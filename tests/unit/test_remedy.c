/* Remedies in the corners: what is advised, in which order, and where nothing is. Each expected
   answer follows from the gates and from Linux's decision in the changed machine, by hand. */
#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GPU " ep id=1002:744c gpu=16384/16384 iommu=none\n"
#define CLIENT "00:00.0 host id=8086:4c43\n"
#define SWITCH(p, c)                                                                               \
    "00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03 acs=" p "\n02:01.0 down 04-04 acs=" c  \
    "\n03:00.0" GPU "04:00.0" GPU

static struct rig_remedy step[RIG_REMEDY_STEPS];

static int remedy(const struct rig_topology *t, const char *from, const char *to)
{
    int count = -1, a = rig_topology_find(t, from), b = rig_topology_find(t, to);
    assert_true(a >= 0 && b >= 0);
    assert_int_equal(rig_reach_remedy(t, rig_rules_for("6.1"), a, b, step, &count, NULL), RIG_OK);
    return count;
}

static int remedy_in(const char *machine, const char *cpu, const char *from, const char *to)
{
    struct rig_topology *t = build_machine(machine, cpu);
    int count = remedy(t, from, to);
    rig_topology_free(t);
    return count;
}

static struct rig_bar *bar_of(struct rig_topology *t, const char *bdf)
{
    return &t->node[function_at(t, bdf)].f.bar[0];
}

static void a_bar_without_an_address_is_placed(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT SWITCH("0000", "0000"), "Intel:6");
    bar_of(t, "04:00.0")->bus = bar_of(t, "04:00.0")->cpu = fact_absent();
    assert_int_equal(remedy(t, "gpu0", "gpu1"), 1);
    assert_int_equal(step[0].kind, RIG_REMEDY_BAR);
    assert_string_equal(step[0].parameter, "pci=realloc");
    assert_non_null(strstr(step[0].text, "BAR 0 of gpu1 (0000:04:00.0)"));
    assert_int_equal(step[0].answer, RIG_ANSWER_YES);
    rig_topology_free(t);
}

/* 256 MiB and 8 GiB it can be; the GPU has 16 GiB. */
static void a_bar_that_cannot_be_large_enough_is_not_resized(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT SWITCH("0000", "0000"), "Intel:6");
    bar_of(t, "04:00.0")->size = fact_known(256u << 20);
    bar_of(t, "04:00.0")->resizable = fact_known(1u << 8 | 1u << 13);
    assert_int_equal(remedy(t, "gpu0", "gpu1"), 0);
    bar_of(t, "04:00.0")->resizable = fact_known(1u << 8 | 1u << 13 | 1u << 15);
    assert_int_equal(remedy(t, "gpu0", "gpu1"), 1);
    /* The least that reaches all: 2^(20+15) bytes. */
    assert_non_null(strstr(step[0].text, "32 GiB"));
    assert_string_equal(step[0].command,
                        "echo 15 > /sys/bus/pci/devices/0000:04:00.0/resource0_resize");
    rig_topology_free(t);
}

/* For a target that is no GPU the gates of memory are not asked, and none is opened. */
static void a_target_that_is_no_gpu_needs_p2pdma_alone(void **state)
{
    (void)state;
    const char *machine =
        CLIENT "00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03 acs=001d\n"
               "02:01.0 down 04-04\n03:00.0" GPU "04:00.0 ep class=020000 iommu=translate\n";
    assert_int_equal(remedy_in(machine, "Intel:6", "gpu0", "nic0"), 1);
    assert_int_equal(step[0].kind, RIG_REMEDY_ACS);
    assert_string_equal(step[0].parameter, "pci=disable_acs_redir=0000:02:00.0");
    assert_int_equal(step[0].answer, RIG_ANSWER_YES);
    assert_int_equal(remedy_in(machine, "Intel:6", "nic0", "gpu0"), 2);
    assert_int_equal(step[0].kind, RIG_REMEDY_IOMMU);
    assert_int_equal(step[1].kind, RIG_REMEDY_ACS);
}

static void a_gpu_needs_no_remedy_for_itself(void **state)
{
    (void)state;
    assert_int_equal(remedy_in(CLIENT SWITCH("001d", "001d"), "Intel:6", "gpu0", "gpu0"), 0);
}

/* The shorter way is told only where clearing what is known leads to it for certain. */
static void a_shorter_way_is_told_only_where_it_is_certain(void **state)
{
    (void)state;
    assert_int_equal(remedy_in(CLIENT SWITCH("001d", "0000"), "AMD:25", "gpu0", "gpu1"), 1);
    assert_int_equal(step[0].possible, RIG_BUS_ADDR);
    assert_int_equal(remedy_in(CLIENT SWITCH("001d", "unknown"), "AMD:25", "gpu0", "gpu1"), 0);
    /* What is above both is not in the source. */
    assert_int_equal(remedy_in("00:01.0 rp 01-08\n05:00.0 ep id=1002:744c gpu=16384/16384 "
                               "iommu=none acs=0004\n06:00.0" GPU,
                               "AMD:25", "gpu0", "gpu1"),
                     0);
}

/* A part of the root complex, and what is behind a bridge to conventional PCI, is on no card. */
static void what_is_on_no_card_is_not_moved(void **state)
{
    (void)state;
    assert_int_equal(remedy_in(CLIENT "00:02.0 rciep id=1002:164e gpu=16384/16384 class=030000 "
                                      "iommu=none\n00:01.0 rp 01-01\n01:00.0 p2pci 02-02\n"
                                      "02:00.0 pci id=1002:744c gpu=16384/16384 iommu=none\n"
                                      "00:03.0 rp 03-03\n",
                               "Intel:6", "gpu0", "gpu1"),
                     0);
}

/* The GPU is below a switch that leads to it alone: the switch moves, not to a slot of its own. */
static void a_card_with_a_switch_moves_with_it(void **state)
{
    (void)state;
    const char *other = "00:02.0 rp 08-0b\n08:00.0 up 09-0b\n09:00.0 down 0a-0a\n0a:00.0" GPU
                        "09:01.0 down 0b-0b\n";
    char machine[900];
    snprintf(machine, sizeof machine,
             CLIENT "00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03\n02:01.0 down 04-04\n"
                    "03:00.0" GPU "%s",
             other);
    assert_int_equal(remedy_in(machine, "Intel:6", "gpu0", "gpu1"), 1);
    assert_int_equal(step[0].kind, RIG_REMEDY_MOVE);
    assert_string_equal(step[0].text,
                        "move the card of gpu0 (0000:03:00.0) to the slot under port 0000:09:01.0");
    assert_int_equal(step[0].possible, RIG_BUS_ADDR);
    /* What is not known to be a switch is not taken for one of the card. */
    snprintf(machine, sizeof machine,
             CLIENT "00:01.0 rp 01-04\n01:00.0 up 02-04 type=unknown\n02:00.0 down 03-03\n"
                    "03:00.0" GPU "%s",
             other);
    assert_int_equal(remedy_in(machine, "Intel:6", "gpu0", "gpu1"), 1);
    assert_string_equal(step[0].text,
                        "move the card of gpu0 (0000:03:00.0) to the slot under port 0000:09:01.0");
    /* A network card at the other slot: that switch is the board's, and the slot is taken. */
    snprintf(machine, sizeof machine,
             CLIENT "00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03\n02:01.0 down 04-04\n"
                    "03:00.0" GPU "04:00.0 ep class=020000\n04:00.1 ep class=040300\n%s",
             other);
    assert_int_equal(remedy_in(machine, "Intel:6", "gpu0", "gpu1"), 1);
    assert_string_equal(step[0].text,
                        "move the card of gpu0 (0000:03:00.0) to the slot under port 0000:09:01.0");
}

/* No slot is free: one that holds a single other card is exchanged. */
static void a_card_is_exchanged_where_no_slot_is_free(void **state)
{
    (void)state;
    const char *machine = CLIENT
        "00:01.0 rp 01-01\n01:00.0" GPU "00:02.0 rp 08-0b\n08:00.0 up 09-0b\n"
        "09:00.0 down 0a-0a\n0a:00.0" GPU "09:01.0 down 0b-0b acs=001d\n0b:00.0 ep class=020000\n";
    assert_int_equal(remedy_in(machine, "Intel:6", "gpu0", "gpu1"), 2);
    assert_int_equal(step[0].kind, RIG_REMEDY_MOVE);
    assert_string_equal(step[0].text, "move the card of gpu0 (0000:01:00.0) to the slot under port "
                                      "0000:09:01.0, in exchange for what is there");
    assert_int_equal(step[0].answer, RIG_ANSWER_NO);
    assert_int_equal(step[1].kind, RIG_REMEDY_ACS);
    assert_string_equal(step[1].parameter, "pci=disable_acs_redir=0000:09:01.0");
    assert_int_equal(step[1].answer, RIG_ANSWER_YES);
}

/* Under 09:01.0 redirects would have to be cleared; under 09:02.0, which comes later, nothing. */
static void a_slot_where_nothing_need_be_set_is_better_than_an_earlier_one(void **state)
{
    (void)state;
    const char *machine =
        CLIENT "00:01.0 rp 01-01\n01:00.0" GPU "00:02.0 rp 08-0c\n08:00.0 up 09-0c\n"
               "09:00.0 down 0a-0a\n0a:00.0" GPU "09:01.0 down 0b-0b acs=001d\n"
               "09:02.0 down 0c-0c\n";
    assert_int_equal(remedy_in(machine, "Intel:6", "gpu0", "gpu1"), 1);
    assert_string_equal(step[0].text,
                        "move the card of gpu0 (0000:01:00.0) to the slot under port 0000:09:02.0");
    assert_int_equal(step[0].answer, RIG_ANSWER_YES);
}

/* gpu0's card can go to more slots than are tried, none of which helps; beside it is one for
   gpu1's. */
static void the_other_card_is_tried_however_many_slots_the_one_has(void **state)
{
    (void)state;
    char text[8000] =
        CLIENT "00:01.0 rp 01-05\n01:00.0 up 02-05\n02:00.0 down 03-03\n03:00.0" GPU
               "02:01.0 down 04-04\n02:02.0 down 05-05\n05:00.0 ep class=020000\n00:02.0 rp 06-06\n"
               "06:00.0" GPU;
    for (unsigned i = 0; i < 60; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "40:%02x.%x rp %02x-%02x\n", 1 + i / 8, i % 8,
                 0x41 + i, 0x41 + i);
    }
    assert_int_equal(remedy_in(text, "Intel:6", "gpu0", "gpu1"), 1);
    assert_string_equal(step[0].text,
                        "move the card of gpu1 (0000:06:00.0) to the slot under port 0000:02:01.0");
    assert_int_equal(step[0].answer, RIG_ANSWER_YES);
}

/* The address and the IOMMU are put right first; what is moved is told last. */
static void a_move_follows_the_settings_that_it_needs(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        CLIENT "00:01.0 rp 01-01\n01:00.0 ep id=1002:744c gpu=16384/16384 iommu=translate\n"
               "00:02.0 rp 08-0b\n08:00.0 up 09-0b\n09:00.0 down 0a-0a\n0a:00.0" GPU
               "09:01.0 down 0b-0b acs=0004\n",
        "Intel:6");
    struct rig_bar *bar = bar_of(t, "0a:00.0");
    bar->bus = bar->cpu = fact_absent();
    bar->size = fact_known(256u << 20);
    bar->resizable = fact_known(1u << 8 | 1u << 14);
    assert_int_equal(remedy(t, "gpu0", "gpu1"), 5);
    static const enum rig_remedy_kind kinds[] = {RIG_REMEDY_IOMMU, RIG_REMEDY_BAR, RIG_REMEDY_BAR,
                                                 RIG_REMEDY_MOVE, RIG_REMEDY_ACS};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(step[i].kind, kinds[i]);
        assert_int_equal(step[i].answer, i == 4 ? RIG_ANSWER_YES : RIG_ANSWER_NO);
    }
    rig_topology_free(t);
}

/* Slots that do not help, more of them than are tried. */
static void a_move_that_helps_nowhere_is_not_advised(void **state)
{
    (void)state;
    char text[4000] = CLIENT;
    for (unsigned i = 1; i < 60; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "00:%02x.%x rp %02x-%02x\n%s", 1 + i / 8, i % 8,
                 i, i,
                 i == 1   ? "01:00.0" GPU
                 : i == 2 ? "02:00.0" GPU
                          : "");
    }
    assert_int_equal(remedy_in(text, "Intel:6", "gpu0", "gpu1"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bar_without_an_address_is_placed),
        cmocka_unit_test(a_bar_that_cannot_be_large_enough_is_not_resized),
        cmocka_unit_test(a_target_that_is_no_gpu_needs_p2pdma_alone),
        cmocka_unit_test(a_gpu_needs_no_remedy_for_itself),
        cmocka_unit_test(a_shorter_way_is_told_only_where_it_is_certain),
        cmocka_unit_test(what_is_on_no_card_is_not_moved),
        cmocka_unit_test(a_card_with_a_switch_moves_with_it),
        cmocka_unit_test(a_card_is_exchanged_where_no_slot_is_free),
        cmocka_unit_test(a_slot_where_nothing_need_be_set_is_better_than_an_earlier_one),
        cmocka_unit_test(the_other_card_is_tried_however_many_slots_the_one_has),
        cmocka_unit_test(a_move_follows_the_settings_that_it_needs),
        cmocka_unit_test(a_move_that_helps_nowhere_is_not_advised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
