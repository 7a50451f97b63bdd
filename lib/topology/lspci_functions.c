#include "topology/lspci.h"

#include <string.h>

static void note_block(struct lspci_record *record, const struct lspci_block *b)
{
    bool shows_list = b->capability != LSPCI_BEFORE_CAPABILITIES;
    bool whole = b->details && b->whole && !b->cut && (!b->has_list || shows_list || b->denied);
    bool list = b->no_list || shows_list;
    record->text |= b->details;
    record->whole |= whole;
    record->capabilities |= whole && list && !b->denied && !b->all_ones;
    record->denied |= b->denied;
    record->extended |= b->extended;
    record->acs_listed |= b->acs_listed;
    record->sriov_listed |= b->sriov_listed;
    record->bus_numbers |= b->bus_numbers;
    record->all_ones |= b->all_ones;
    record->no_list |= b->no_list;
}

static bool has_bars(const struct node *node)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        if (rig_fact_has(node->f.bar[i].flags))
            return true;
    return false;
}

/* Adds a reading; *out_record is its function's. */
static enum rig_status add_reading(struct lspci_functions *r, struct node *reading, size_t line,
                                   bool unnumbered, struct lspci_record **out_record,
                                   struct rig_error *err)
{
    int index;
    bool is_new;
    enum rig_status status =
        lspci_record_find(&r->records, r->t, reading->f.bdf, &index, &is_new, err);
    if (status != RIG_OK)
        return status;
    struct lspci_record *record = *out_record = &r->records.record[index];
    struct node *node = &r->t->node[index];
    if (is_new) {
        *node = *reading;
        record->line = line;
        record->unnumbered = unnumbered;
        return RIG_OK;
    }
    if (reading->place != PLACE_BY_BUSES) {
        node->place = reading->place;
        node->parent_bdf = reading->parent_bdf;
    }
    if (has_bars(reading)) {
        if (unnumbered && !record->unnumbered)
            lspci_number_bars(reading, node);
        else if (!unnumbered && record->unnumbered)
            lspci_number_bars(node, reading);
        record->unnumbered = unnumbered && (record->unnumbered || !has_bars(node));
    }
    return lspci_merge(node, (struct lspci_origin){r->name, record->line}, reading,
                       (struct lspci_origin){r->name, line}, err);
}

void lspci_empty_node(struct node *node, struct rig_bdf bdf)
{
    memset(node, 0, sizeof *node);
    node->f.bdf = bdf;
    node->f.parent = node->f.host_bridge = node->f.physical = node->f.memory_bar = -1;
}

enum rig_status lspci_add_hex(struct lspci_functions *r, struct rig_bdf bdf, struct lspci_hex *hex,
                              struct rig_error *err)
{
    if (hex->bytes == 0)
        return RIG_OK;
    if (hex->bytes < 64) {
        rig_fail_at(err, r->name, hex->first_line, 0,
                    "the dump of this function ends after %zu bytes", hex->bytes);
        rig_hint(err, "lspci -x shows 64 bytes, -xxx 256, -xxxx all: " LSPCI_COMMAND);
        return RIG_BAD_INPUT;
    }
    char text[RIG_BDF_MAX];
    rig_bdf_format(bdf, text);
    if (hex->bytes < hex->next)
        topology_warn(r->t, "%s: the dump lacks the row at %02zx: what follows it is not used",
                      text, hex->bytes);
    else if (hex->bytes != 64 && hex->bytes != 128 && hex->bytes != 256 && hex->bytes != 4096)
        topology_warn(r->t, "%s: the dump ends at %02zx: it is cut short", text, hex->bytes);
    struct node node;
    lspci_empty_node(&node, bdf);
    config_decode(r->t, &node, hex->at, hex->bytes);
    struct lspci_record *record;
    enum rig_status status = add_reading(r, &node, hex->first_line, false, &record, err);
    if (status == RIG_OK)
        record->hex = r->any_hex = true;
    hex->bytes = hex->next = hex->first_line = 0;
    return status;
}

/* lspci -k adds drivers to a plain list: that shows no more of the tree than the list does. */
static bool shows_more_than_list(const struct lspci_block *b)
{
    return b->whole || b->bus_numbers || b->capability != LSPCI_BEFORE_CAPABILITIES ||
           has_bars(&b->node);
}

enum rig_status lspci_add_block(struct lspci_functions *r, struct lspci_block *block,
                                struct rig_error *err)
{
    struct lspci_record *record;
    enum rig_status status =
        add_reading(r, &block->node, block->line, block->unnumbered, &record, err);
    if (status != RIG_OK)
        return status;
    r->any_text |= shows_more_than_list(block);
    note_block(record, block);
    return RIG_OK;
}

/* ---- places told by paths */

/* A -P path leaves bus numbers out: each is the secondary bus of the bridge before it, whose block
   came earlier, as lspci sorts by place. */
static enum rig_status find_buses(struct lspci_functions *r, struct lspci_place *place, size_t line,
                                  struct rig_error *err)
{
    for (unsigned i = 1; i < place->length; i++) {
        int index;
        bool is_new;
        enum rig_status status =
            lspci_record_find(&r->records, r->t, place->path[i - 1], &index, &is_new, err);
        if (status != RIG_OK)
            return status;
        const struct rig_function *bridge = &r->t->node[index].f;
        if (is_new || !rig_fact_has(bridge->secondary)) {
            rig_fail_at(err, r->name, line, 0,
                        "this path leaves bus numbers out, and the text does not tell them");
            rig_hint(err, "lspci -PP prints them; better: " LSPCI_COMMAND);
            return RIG_BAD_INPUT;
        }
        place->path[i].bus = (uint8_t)bridge->secondary.value;
    }
    return RIG_OK;
}

/* The bridges of a path are functions too, even where the text has nothing else of them. */
static enum rig_status add_bridges(struct lspci_functions *r, const struct lspci_place *place,
                                   size_t line, struct rig_error *err)
{
    for (unsigned i = 0; i + 1 < place->length; i++) {
        int index;
        bool is_new;
        enum rig_status status =
            lspci_record_find(&r->records, r->t, place->path[i], &index, &is_new, err);
        if (status != RIG_OK)
            return status;
        if (!is_new)
            continue;
        r->records.record[index].line = line;
        struct node *node = &r->t->node[index];
        node->f.header_type = fact_assumed(1, "a path names it as a bridge");
        node->place = i == 0 ? PLACE_BY_BUSES : PLACE_UNDER;
        if (i > 0)
            node->parent_bdf = place->path[i - 1];
    }
    return RIG_OK;
}

enum rig_status lspci_place_block(struct lspci_functions *r, struct lspci_place *place,
                                  struct lspci_block *block, struct rig_error *err)
{
    enum rig_status status = RIG_OK;
    if (place->without_buses)
        status = find_buses(r, place, block->line, err);
    struct node *node = &block->node;
    node->f.bdf = place->path[place->length - 1];
    if (status != RIG_OK || place->length == 1)
        return status;
    r->any_path = true;
    node->place = PLACE_UNDER;
    node->parent_bdf = place->path[place->length - 2];
    return add_bridges(r, place, block->line, err);
}

void lspci_settle_paths(struct lspci_functions *r)
{
    for (int i = 0; r->any_path && i < r->t->count; i++) {
        struct node *node = &r->t->node[i];
        if (node->place == PLACE_UNDER)
            continue;
        node->place = PLACE_ROOT;
        node->parent_bdf = node->f.bdf;
    }
}

enum rig_status lspci_add_tree(struct lspci_functions *r, const struct lspci_tree *tree,
                               struct rig_error *err)
{
    int count = tree ? lspci_tree_count(tree) : 0;
    for (int i = 0; i < count; i++) {
        struct node node;
        size_t line = lspci_tree_function(tree, i, &node);
        struct lspci_record *record;
        enum rig_status status = add_reading(r, &node, line, false, &record, err);
        if (status != RIG_OK)
            return status;
        record->drawn = true;
    }
    return RIG_OK;
}
