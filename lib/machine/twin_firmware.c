/* What a twin's firmware does before anything else: it finds addresses for BARs that have none and
   a place for system memory. */
#include "machine/twins.h"

#include <stdlib.h>

/* System memory of a twin whose capture does not say: 8 GiB from 4 GiB up. */
#define DEFAULT_BASE (UINT64_C(4) << 30)
#define DEFAULT_BYTES (UINT64_C(8) << 30)

/* Addresses that are given out: below 4 GiB for BARs of 32 bits, as PCs do, and from there to what
   most GPUs' page tables can name of a peer (44 bits). */
#define LOW_BASE UINT64_C(0x80000000)
#define LOW_BYTES UINT64_C(0x70000000)
#define HIGH_BASE (UINT64_C(4) << 30)
#define HIGH_BYTES ((UINT64_C(1) << 44) - HIGH_BASE)
#define UNIT UINT64_C(4096)

const char twin_from_firmware[] = "the twin's firmware has put it there";

struct run {
    uint64_t first, last;
};

/* What the facts place already: runs that may overlap, since a bridge's window holds BARs. */
struct firmware {
    struct rig_ranges *low, *high;
    struct run *run;
    size_t runs, room;
};

static enum rig_status occupy(struct firmware *fw, uint64_t first, uint64_t last,
                              struct rig_error *err)
{
    if (last < first)
        return RIG_OK;
    if (fw->runs == fw->room) {
        size_t room = fw->room ? 2 * fw->room : 64;
        struct run *grown = realloc(fw->run, room * sizeof *grown);
        if (!grown)
            return rig_fail_memory(err);
        fw->run = grown;
        fw->room = room;
    }
    fw->run[fw->runs++] = (struct run){first & ~(UNIT - 1), last | (UNIT - 1)};
    return RIG_OK;
}

static int by_first(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Takes [first, last] as far as it lies in [base, base + bytes). */
static enum rig_status take_part(struct rig_ranges *r, uint64_t base, uint64_t bytes,
                                 struct run run, struct rig_error *err)
{
    uint64_t end = base + (bytes - 1);
    uint64_t first = run.first > base ? run.first : base;
    uint64_t last = run.last < end ? run.last : end;
    return first <= last ? rig_ranges_take_at(r, first, last - first + 1, err) : RIG_OK;
}

/* Takes all runs, joined where they touch, from the allocators. */
static enum rig_status settle(struct firmware *fw, struct rig_error *err)
{
    if (fw->runs == 0)
        return RIG_OK;
    qsort(fw->run, fw->runs, sizeof *fw->run, by_first);
    struct run joined = fw->run[0];
    for (size_t i = 1; i <= fw->runs; i++) {
        if (i < fw->runs && fw->run[i].first <= joined.last) {
            joined.last = fw->run[i].last > joined.last ? fw->run[i].last : joined.last;
            continue;
        }
        enum rig_status status = take_part(fw->low, LOW_BASE, LOW_BYTES, joined, err);
        if (status == RIG_OK)
            status = take_part(fw->high, HIGH_BASE, HIGH_BYTES, joined, err);
        if (status != RIG_OK)
            return status;
        if (i < fw->runs)
            joined = fw->run[i];
    }
    return RIG_OK;
}

static enum rig_status occupy_window(struct firmware *fw, const struct rig_window *window,
                                     struct rig_error *err)
{
    if (!rig_fact_has(window->base) || !rig_fact_has(window->limit))
        return RIG_OK;
    return occupy(fw, window->base.value, window->limit.value, err);
}

static bool is_memory(const struct rig_bar *bar)
{
    return rig_fact_has(bar->flags) && (bar->flags.value & RIG_BAR_IO) == 0 &&
           rig_fact_has(bar->size) && rig_power_of_two(bar->size.value);
}

static enum rig_status occupy_known(struct firmware *fw, const struct rig_function *f,
                                    struct rig_error *err)
{
    enum rig_status status = occupy_window(fw, &f->memory, err);
    if (status == RIG_OK)
        status = occupy_window(fw, &f->prefetchable, err);
    for (int i = 0; i < RIG_BAR_COUNT && status == RIG_OK; i++) {
        const struct rig_bar *bar = &f->bar[i];
        uint64_t last;
        if (is_memory(bar) && rig_fact_has(bar->bus) &&
            rig_add(bar->bus.value, bar->size.value - 1, &last))
            status = occupy(fw, bar->bus.value, last, err);
    }
    return status;
}

static enum rig_status assign(struct firmware *fw, struct rig_function *f, struct rig_error *err)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        struct rig_bar *bar = &f->bar[i];
        if (!is_memory(bar) || bar->bus.know != RIG_FACT_UNKNOWN)
            continue;
        bool wide = (bar->flags.value & RIG_BAR_64BIT) != 0;
        uint64_t bytes = bar->size.value < UNIT ? UNIT : bar->size.value;
        struct rig_ranges_want want = {.bytes = bytes, .align = bytes};
        uint64_t address;
        enum rig_status status = rig_ranges_take(wide ? fw->high : fw->low, &want, &address, NULL);
        if (status == RIG_FAILED)
            return rig_fail_memory(err);
        /* One that finds no place stays without an address, as under real firmware. */
        bar->bus = fact_absent();
        if (status == RIG_OK)
            bar->bus = fact_assumed(address, twin_from_firmware);
        bar->cpu = bar->bus;
    }
    return RIG_OK;
}

/* System memory lies where the capture says, else at its usual place, else above what is in the
   way. Then all that is placed is taken. */
static enum rig_status place_memory(struct firmware *fw, const struct rig_topology *t,
                                    uint64_t *out_base, uint64_t *out_bytes, struct rig_error *err)
{
    const struct rig_machine_facts *m = &t->machine;
    uint64_t unit = rig_fact_has(m->page_size) ? m->page_size.value : UNIT;
    uint64_t bytes = rig_fact_has(m->memory_bytes) ? m->memory_bytes.value : DEFAULT_BYTES;
    uint64_t base = DEFAULT_BASE, end;
    if (!rig_power_of_two(unit) || unit < UNIT || unit > (UINT64_C(1) << 30))
        return rig_fail(err, RIG_REFUSED, "page size", "a twin's pages are 4 KiB to 1 GiB");
    if (bytes == 0 || (bytes & (unit - 1)) != 0)
        return rig_fail(err, RIG_REFUSED, "system memory", "it is not made of whole pages");
    if (rig_fact_has(m->memory_base)) {
        base = m->memory_base.value;
        if ((base & (unit - 1)) != 0 || !rig_add(base, bytes, &end))
            return rig_fail(err, RIG_REFUSED, "system memory",
                            "it does not begin at a page, or ends beyond all addresses");
        *out_base = base;
        *out_bytes = bytes;
        enum rig_status given = occupy(fw, base, base + (bytes - 1), err);
        return given == RIG_OK ? settle(fw, err) : given;
    }
    enum rig_status status = settle(fw, err);
    if (status != RIG_OK)
        return status;
    status = rig_ranges_take_at(fw->high, base, bytes, NULL);
    if (status == RIG_NO_ROOM) {
        struct rig_ranges_want want = {.bytes = bytes, .align = unit, .from = base};
        status = rig_ranges_take(fw->high, &want, &base, NULL);
    }
    if (status == RIG_FAILED)
        return rig_fail_memory(err);
    if (status != RIG_OK)
        return rig_fail(err, RIG_REFUSED, "system memory",
                        "there is no place for it beside the machine's BARs");
    *out_base = base;
    *out_bytes = bytes;
    return RIG_OK;
}

enum rig_status firmware_assign(struct rig_topology *t, uint64_t *out_base, uint64_t *out_bytes,
                                struct rig_error *err)
{
    struct firmware fw = {0};
    enum rig_status status = rig_ranges_make(LOW_BASE, LOW_BYTES, UNIT, &fw.low, err);
    if (status == RIG_OK)
        status = rig_ranges_make(HIGH_BASE, HIGH_BYTES, UNIT, &fw.high, err);
    for (int i = 0; i < t->count && status == RIG_OK; i++)
        status = occupy_known(&fw, &t->node[i].f, err);
    uint64_t base = 0, bytes = 0;
    if (status == RIG_OK)
        status = place_memory(&fw, t, &base, &bytes, err);
    for (int i = 0; i < t->count && status == RIG_OK; i++)
        status = assign(&fw, &t->node[i].f, err);
    free(fw.run);
    rig_ranges_drop(fw.low);
    rig_ranges_drop(fw.high);
    if (status != RIG_OK)
        return status;
    *out_base = base;
    *out_bytes = bytes;
    return RIG_OK;
}
