/* create: the memory of a GPU that was taken. */
#include "gpu/memories.h"

#include "machine/twin.h"

#include <stdlib.h>

#define PAGE UINT64_C(4096)
#define LEAST_MEMORY (UINT64_C(1) << 20)

static const struct rig_function *facts_of(const struct rig_memory *m)
{
    return rig_topology_function(m->gpus->machine->topology, m->function);
}

static uint16_t id_of(struct rig_fact fact)
{
    return rig_fact_has(fact) ? (uint16_t)fact.value : 0;
}

static enum rig_status find_format(struct rig_memory *m, const char *named, struct rig_error *err)
{
    struct rig_machine *machine = m->gpus->machine;
    const struct rig_function *f = facts_of(m);
    char name[RIG_BDF_MAX];
    uint16_t vendor = id_of(f->vendor), device = id_of(f->device);
    if (named) {
        m->format = rig_format_named(named, vendor, device);
        return m->format ? RIG_OK : rig_fail(err, RIG_INVALID, named, "no such page-table format");
    }
    m->format = rig_format_for(vendor, device, 0);
    if (!m->format && twin_is(machine))
        m->format = rig_format_named("plain", 0, 0);
    if (m->format)
        return RIG_OK;
    rig_fail(err, RIG_UNKNOWN, gpu_memory_name(m, name),
             "its page-table format is not known by its ids %04x:%04x", vendor, device);
    rig_hint(err, "name it by --format");
    return RIG_UNKNOWN;
}

/* A BAR that is not there, or of which the topology does not tell. */
static enum rig_status refuse_bar(const struct rig_memory *m, struct rig_error *err)
{
    const struct rig_function *f = facts_of(m);
    char name[RIG_BDF_MAX];
    gpu_memory_name(m, name);
    const struct rig_bar *bar = &f->bar[m->bar >= 0 && m->bar < RIG_BAR_COUNT ? m->bar : 0];
    bool io = rig_fact_has(bar->flags) && (bar->flags.value & RIG_BAR_IO) != 0;
    bool known = io || bar->flags.know == RIG_FACT_ABSENT || bar->size.know != RIG_FACT_UNKNOWN;
    if (m->bar < 0 && bar->flags.know == RIG_FACT_UNKNOWN) {
        rig_fail(err, RIG_UNKNOWN, name, "its BARs are not known");
        rig_hint(err,
                 "`sudo lspci -D -vvv -nn -xxxx` on the machine shows them, or `rigmem capture`");
        return RIG_UNKNOWN;
    }
    if (m->bar < 0)
        return rig_fail(err, RIG_INVALID, name, "it has no memory BAR");
    if (m->bar >= RIG_BAR_COUNT || known)
        return rig_fail(err, RIG_INVALID, name, "it has no memory BAR %d", m->bar);
    rig_fail(err, RIG_UNKNOWN, name, "how much memory its BAR %d shows is not known", m->bar);
    if (m->bar == f->memory_bar)
        rig_hint(err, "give it by --assume bar=%s:SIZE", name);
    return RIG_UNKNOWN;
}

static enum rig_status find_bar(struct rig_memory *m, const struct rig_memory_options *o,
                                struct rig_error *err)
{
    struct rig_bar_now bar = {0};
    m->bar = o->other_bar ? o->bar : facts_of(m)->memory_bar;
    if (m->bar >= 0 && m->bar < RIG_BAR_COUNT)
        machine_bar(m->gpus->machine, m->function, m->bar, &bar);
    if (bar.size == 0 || bar.io)
        return refuse_bar(m, err);
    m->bar_bytes = bar.size;
    m->bar_assigned = bar.assigned;
    m->bar_bus = bar.bus;
    return RIG_OK;
}

static enum rig_status find_bytes(struct rig_memory *m, uint64_t given, struct rig_error *err)
{
    char name[RIG_BDF_MAX], size[RIG_SIZE_MAX];
    gpu_memory_name(m, name);
    uint64_t says = part_memory(&m->part);
    struct rig_fact fact = facts_of(m)->gpu_memory;
    /* A twin's GPU of which the topology does not tell has what its BAR shows, which is no answer.
     */
    bool told = rig_fact_has(fact) || !twin_is(m->gpus->machine);
    m->bytes = given ? given : says && told ? says : 0;
    if (m->bytes == 0 && rig_fact_has(fact))
        m->bytes = fact.value & ~(PAGE - 1);
    if (m->bytes == 0) {
        rig_fail(err, RIG_UNKNOWN, name, "how much memory it has is not known");
        rig_hint(err, "give it by --gpu-memory %s=SIZE", name);
        return RIG_UNKNOWN;
    }
    if (m->bytes % PAGE != 0 || m->bytes < LEAST_MEMORY)
        return rig_fail(err, RIG_INVALID, name,
                        "%s of memory is no multiple of 4 KiB, or less than 1 MiB",
                        rig_size_format(m->bytes, size));
    if (says && m->bytes > says)
        return rig_fail(err, RIG_INVALID, name, "it has %s of memory, not more",
                        rig_size_format(says, size));
    uint64_t end;
    if (!rig_add(m->own_base, m->bytes, &end) || (end - 1) >> m->format->own_bits != 0)
        return rig_fail(err, RIG_INVALID, name,
                        "%s of memory is more than the %u address bits that entries of %s hold",
                        rig_size_format(m->bytes, size), m->format->own_bits, m->format->name);
    return RIG_OK;
}

static bool place_is_taken(const struct rig_memory *m)
{
    for (size_t i = 0; i < rig_gpus_count(m->gpus); i++) {
        const struct rig_memory *other = rig_gpus_memory(m->gpus, i);
        if (other->linked && other->function != m->function &&
            other->link.fabric == m->link.fabric && other->link.place == m->link.place)
            return true;
    }
    return false;
}

static enum rig_status use_link(struct rig_memory *m, const struct rig_link *link,
                                struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    if (!link)
        return RIG_OK;
    m->linked = true;
    m->link = *link;
    if (m->format->link == RIG_LINK_NONE ||
        (m->format->link == RIG_LINK_NUMBER && link->place >= m->format->link_peers))
        return rig_fail(err, RIG_INVALID, gpu_memory_name(m, name),
                        "page tables of format %s cannot name place %u of a fabric",
                        m->format->name, link->place);
    if (place_is_taken(m))
        return rig_fail(err, RIG_INVALID, gpu_memory_name(m, name),
                        "place %u of fabric %u is another GPU's", link->place, link->fabric);
    return RIG_OK;
}

static enum rig_status check_device(struct rig_gpus *g, struct rig_device *dev,
                                    struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    rig_bdf_format(device_bdf(dev), name);
    if (device_machine(dev) != g->machine)
        return rig_fail(err, RIG_INVALID, name, "it is on another machine");
    for (size_t i = 0; i < rig_gpus_count(g); i++)
        if (rig_gpus_memory(g, i)->device == dev)
            return rig_fail(err, RIG_INVALID, name, "it has memory already");
    return device_failed(dev) ? device_fail(dev, err) : RIG_OK;
}

/* What is known of the GPU before anything is taken. */
static enum rig_status learn(struct rig_memory *m, const struct rig_memory_options *o,
                             struct rig_error *err)
{
    struct rig_machine *machine = m->gpus->machine;
    m->combining = o->combining;
    m->addressing = device_addressing(m->device);
    enum rig_status status = find_format(m, o->format, err);
    if (status == RIG_OK)
        status = find_bar(m, o, err);
    if (status == RIG_OK)
        status = use_link(m, o->link, err);
    if (status != RIG_OK)
        return status;
    /* A twin's GPU walks what it is told to: the format is the driver's choice, as its ids are not.
     */
    if (o->format && twin_is(machine))
        twin_set_format(machine, m->function, m->format);
    part_open(m->device, m->format, &m->part);
    m->own_base = part_own_base(&m->part);
    return find_bytes(m, o->bytes, err);
}

enum rig_status gpu_memory_make_pool(struct rig_memory *m, struct rig_error *err)
{
    struct pool_shape shape = {
        .bytes = m->bytes,
        .window = m->bar_bytes < m->bytes ? m->bar_bytes & ~(PAGE - 1) : m->bytes,
    };
    part_kept(m->format, m->bytes, &shape.boot, &shape.end);
    return pool_make(&shape, &m->pool, err);
}

/* An earlier user's translations must be gone before this one's memory is reached: the GPU confirms
   that it forgot them, or is reset. One that cannot be asked is its driver's to reset. */
static enum rig_status install_root(struct rig_memory *m, struct rig_error *err)
{
    struct rig_table root = rig_page_table_root(m->tables);
    bool confirmed = false;
    char name[RIG_BDF_MAX];
    part_set_root(&m->part, root.address);
    if (!part_can_flush(&m->part))
        return RIG_OK;
    enum rig_status status = part_flush(&m->part, &confirmed, err);
    if (status != RIG_OK || confirmed)
        return status;
    if (device_failed(m->device))
        return device_fail(m->device, err);
    status = device_reset(m->device, NULL);
    if (status != RIG_OK) {
        rig_fail(err, RIG_REFUSED, gpu_memory_name(m, name),
                 "it does not confirm that it forgot earlier translations, and cannot be reset");
        rig_hint(err, "reset the machine's slot, or boot again");
        return RIG_REFUSED;
    }
    part_set_root(&m->part, root.address);
    return RIG_OK;
}

static enum rig_status build(struct rig_memory *m, struct rig_error *err)
{
    enum rig_status status = gpus_space(m->gpus, m->format, &m->space, err);
    if (status == RIG_OK)
        status = gpu_memory_make_pool(m, err);
    if (status == RIG_OK)
        status =
            device_map_bar(m->device, m->bar, 0, m->bar_bytes, m->combining, &m->tables_view, err);
    if (status == RIG_OK)
        status =
            rig_page_table_new(m->format, m->own_base, &gpu_memory_table_ops, m, &m->tables, err);
    if (status == RIG_OK)
        status = install_root(m, err);
    if (status == RIG_OK && device_failed(m->device))
        status = device_fail(m->device, err);
    if (status == RIG_OK)
        status = gpu_memory_watch(m, err);
    if (status == RIG_OK)
        status = gpus_enter(m->gpus, m, err);
    if (status == RIG_OK)
        device_set_dma_bits(m->device, m->format->system_bits);
    return status;
}

enum rig_status rig_memory_create(struct rig_gpus *gpus, struct rig_device *dev,
                                  const struct rig_memory_options *options,
                                  struct rig_memory **out_memory, struct rig_error *err)
{
    struct rig_memory_options none = {.format = NULL};
    enum rig_status status = device_use(dev, err);
    if (status != RIG_OK)
        return status;
    status = check_device(gpus, dev, err);
    struct rig_memory *m = NULL;
    if (status == RIG_OK) {
        m = gpu_memory_new(gpus, dev, device_function(dev));
        status = m ? learn(m, options ? options : &none, err) : rig_fail_memory(err);
    }
    if (status == RIG_OK)
        status = build(m, err);
    if (status == RIG_OK) {
        *out_memory = m;
    } else if (m) {
        if (m->tables_view)
            device_unmap(dev, m->tables_view, NULL);
        part_close(&m->part);
        gpu_memory_drop(m);
    }
    device_unuse(dev);
    return status;
}
