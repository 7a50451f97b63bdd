#include "topology/capture.h"

#include <stdlib.h>
#include <string.h>

/* Addresses are moved by their bit length: all of one length move down by the same distance, a
   multiple of the greatest alignment among them, and keep their length. So what lay in a window
   still does, order and alignment stay, and an address above a mask stays above it. A BAR or a
   window never has fewer than 20 bits worth moving: below is what the PC keeps in fixed places. */
#define LENGTHS 64
#define LEAST_LENGTH 20
#define WINDOW_UNIT (1ull << 20) /* a memory window's granularity (PCI-to-PCI bridge, 3.2.5.8) */

struct moves {
    uint64_t lowest[LENGTHS];    /* the lowest address of the length; UINT64_MAX: none */
    uint64_t alignment[LENGTHS]; /* the greatest alignment in use */
};

static int length_of(uint64_t address)
{
    return address ? 63 - __builtin_clzll(address) : 0;
}

static void note(struct moves *m, struct rig_fact address, uint64_t alignment)
{
    if (!rig_fact_has(address) || address.value == 0)
        return;
    int n = length_of(address.value);
    if (address.value < m->lowest[n])
        m->lowest[n] = address.value;
    if (alignment > m->alignment[n])
        m->alignment[n] = alignment;
}

static uint64_t moved(const struct moves *m, uint64_t address)
{
    int n = length_of(address);
    if (n < LEAST_LENGTH || m->lowest[n] == UINT64_MAX)
        return address;
    uint64_t down = m->lowest[n] - (1ull << n);
    return address - down / m->alignment[n] * m->alignment[n];
}

static void move(const struct moves *m, struct rig_fact *address)
{
    if (rig_fact_has(*address))
        address->value = moved(m, address->value);
}

/* A BAR of unknown size may be as large as its address is aligned. */
static uint64_t alignment_of(const struct rig_bar *bar, struct rig_fact address)
{
    if (rig_fact_has(bar->size) && rig_power_of_two(bar->size.value))
        return bar->size.value;
    return address.value & -address.value;
}

static bool is_io(const struct rig_bar *bar)
{
    return rig_fact_has(bar->flags) && (bar->flags.value & RIG_BAR_IO) != 0;
}

static void note_function(struct moves *m, const struct rig_function *f)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        const struct rig_bar *bar = &f->bar[i];
        if (is_io(bar))
            continue;
        note(m, bar->bus, alignment_of(bar, bar->bus));
        note(m, bar->cpu, alignment_of(bar, bar->cpu));
    }
    note(m, f->memory.base, WINDOW_UNIT);
    note(m, f->memory.limit, WINDOW_UNIT);
    note(m, f->prefetchable.base, WINDOW_UNIT);
    note(m, f->prefetchable.limit, WINDOW_UNIT);
}

static void move_function(const struct moves *m, struct rig_function *f)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        if (is_io(&f->bar[i]))
            continue;
        move(m, &f->bar[i].bus);
        move(m, &f->bar[i].cpu);
    }
    move(m, &f->memory.base);
    move(m, &f->memory.limit);
    move(m, &f->prefetchable.base);
    move(m, &f->prefetchable.limit);
}

static void move_addresses(struct rig_topology *t)
{
    struct moves m;
    for (int n = 0; n < LENGTHS; n++) {
        m.lowest[n] = UINT64_MAX;
        m.alignment[n] = WINDOW_UNIT;
    }
    for (int i = 0; i < t->count; i++)
        note_function(&m, &t->node[i].f);
    for (int i = 0; i < t->count; i++)
        move_function(&m, &t->node[i].f);
}

/* The options of the kernel's command line that decide what reaches what. */
static bool decides(const char *word, size_t bytes)
{
    static const char *const options[] = {"pci=",       "iommu=",       "iommu.",
                                          "amd_iommu=", "intel_iommu=", "arm-smmu."};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(options); i++)
        if (bytes >= strlen(options[i]) && strncmp(word, options[i], strlen(options[i])) == 0)
            return true;
    return false;
}

static enum rig_status redact_command_line(struct rig_topology *t, struct rig_error *err)
{
    struct rig_text *line = &t->machine.command_line;
    if (!rig_text_has(*line))
        return RIG_OK;
    char *left = malloc(strlen(line->value) + 2);
    if (!left)
        return rig_fail_memory(err);
    char *to = left;
    for (const char *p = line->value; *p;) {
        p += strspn(p, " \t\n");
        size_t bytes = strcspn(p, " \t\n");
        if (decides(p, bytes)) {
            if (to != left)
                *to++ = ' ';
            memcpy(to, p, bytes);
            to += bytes;
        }
        p += bytes;
    }
    *to = '\0';
    line->value = topology_intern(t, left, strlen(left));
    free(left);
    return line->value ? RIG_OK : rig_fail_memory(err);
}

/* The board's maker and model say nothing of what is reached, except where they tell a GPU's
   memory. */
static void redact_subsystem(struct rig_function *f)
{
    if (f->gpu)
        return;
    f->subsystem_vendor = f->subsystem_device = fact_unknown(NULL);
}

enum rig_status capture_redact(struct rig_topology *t, struct rig_error *err)
{
    t->machine.host = (struct rig_text){.know = RIG_FACT_UNKNOWN};
    enum rig_status status = redact_command_line(t, err);
    if (status != RIG_OK)
        return status;
    for (int i = 0; i < t->count; i++)
        redact_subsystem(&t->node[i].f);
    move_addresses(t);
    /* Warnings name files and quote lines. */
    for (int i = 0; i < t->warnings; i++)
        free(t->warning[i]);
    t->warnings = 0;
    return RIG_OK;
}
