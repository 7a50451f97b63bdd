#include "topology/lspci.h"

#include <stdlib.h>
#include <string.h>

/* A log that tells of more BARs than this is not read on. */
#define MAX_LOGGED 65536u

static const char from_log[] = "the kernel's log in the text";

/* Takes "pci 0000:03:00.0: " off, with whatever the log puts before it. */
static bool take_function(struct lspci_text *t, struct rig_bdf *out)
{
    if (!lspci_after(t, "pci "))
        return false;
    struct lspci_text rest = *t;
    if (!lspci_find(&rest, ": "))
        return false;
    struct lspci_text place = {t->at, (size_t)(rest.at - t->at)};
    *t = (struct lspci_text){rest.at + 2, rest.left - 2};
    return lspci_function(&place, out) && place.left == 0;
}

/* "reg 0x10: " (older: "reg 10: ") and "BAR 0: assigned ", "BAR 0 ". */
static bool take_index(struct lspci_text *t, uint64_t *out_index)
{
    uint64_t value;
    if (lspci_skip(t, "reg ")) {
        lspci_skip(t, "0x");
        if (!lspci_number(t, 16, 2, 3, &value) || !lspci_skip(t, ": ") || value < 0x10 ||
            value % 4 != 0)
            return false;
        *out_index = (value - 0x10) / 4;
    } else {
        if (!lspci_skip(t, "BAR ") || !lspci_number(t, 10, 1, 1, out_index))
            return false;
        lspci_skip(t, ":");
        lspci_skip(t, " assigned");
        lspci_skip(t, " ");
        lspci_skip(t, " ");
    }
    return *out_index < RIG_BAR_COUNT;
}

/* "[mem 0xd0000000-0xdfffffff 64bit pref]", "[io  0x3000-0x307f]". */
static bool take_range(struct lspci_text *t, struct lspci_logged *out)
{
    uint64_t first, last;
    bool io = lspci_skip(t, "[io ");
    if (!io && !lspci_skip(t, "[mem "))
        return false;
    lspci_skip_space(t);
    if (!lspci_skip(t, "0x") || !lspci_number(t, 16, 1, 16, &first) || !lspci_skip(t, "-0x") ||
        !lspci_number(t, 16, 1, 16, &last) || last < first || !rig_power_of_two(last - first + 1))
        return false;
    out->address = first;
    out->size = last - first + 1;
    out->flags = io ? RIG_BAR_IO : 0;
    if (!io && lspci_skip(t, " 64bit"))
        out->flags |= RIG_BAR_64BIT;
    if (!io && lspci_skip(t, " pref"))
        out->flags |= RIG_BAR_PREFETCHABLE;
    return lspci_skip(t, "]");
}

enum rig_status lspci_log_line(struct lspci_log *log, const struct lspci_line *line,
                               struct rig_error *err)
{
    struct lspci_text t = lspci_text_of(line);
    struct lspci_logged bar;
    uint64_t index;
    if (!take_function(&t, &bar.function) || !take_index(&t, &index) || !take_range(&t, &bar))
        return RIG_OK;
    bar.index = (unsigned)index;
    if (log->count == MAX_LOGGED)
        return RIG_OK;
    if (log->count == log->capacity) {
        size_t capacity = log->capacity ? log->capacity * 2 : 64;
        struct lspci_logged *grown = realloc(log->bar, capacity * sizeof *grown);
        if (!grown)
            return rig_fail_memory(err);
        log->bar = grown;
        log->capacity = capacity;
    }
    log->bar[log->count++] = bar;
    return RIG_OK;
}

static void apply(struct rig_bar *bar, const struct lspci_logged *logged)
{
    if (bar->flags.know == RIG_FACT_ABSENT ||
        (bar->flags.know == RIG_FACT_KNOWN && bar->flags.value != logged->flags))
        return;
    if (bar->flags.know != RIG_FACT_KNOWN)
        bar->flags = fact_assumed(logged->flags, from_log);
    if (bar->size.know != RIG_FACT_KNOWN)
        bar->size = fact_assumed(logged->size, from_log);
    if (logged->address == 0 || bar->cpu.know == RIG_FACT_KNOWN ||
        bar->cpu.know == RIG_FACT_ABSENT || bar->bus.know == RIG_FACT_KNOWN)
        return;
    bar->cpu = bar->bus = fact_assumed(logged->address, from_log);
}

void lspci_log_apply(const struct lspci_log *log, const struct lspci_records *records,
                     struct rig_topology *t)
{
    for (size_t i = 0; i < log->count; i++) {
        int index = lspci_record_known(records, log->bar[i].function);
        if (index >= 0)
            apply(&t->node[index].f.bar[log->bar[i].index], &log->bar[i]);
    }
}
