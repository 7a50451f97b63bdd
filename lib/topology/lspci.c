#include "topology/lspci.h"

#include <stdlib.h>
#include <string.h>

/* The reader of one text. A block is what stands between one function's header line and whatever
   ends it: the next header, or the end. While none is open, lines belong to no function. */
struct reader {
    const char *name;
    struct rig_topology *t;
    struct lspci_source source;
    struct lspci_records records;
    bool open;
    size_t header_line;
    struct node node; /* what the open block's text says */
    struct lspci_hex hex;
};

static enum rig_status add_reading(struct reader *r, const struct node *reading, size_t line,
                                   struct rig_error *err)
{
    int index;
    bool is_new;
    enum rig_status status =
        lspci_record_find(&r->records, r->t, reading->f.bdf, &index, &is_new, err);
    if (status != RIG_OK)
        return status;
    struct lspci_record *record = &r->records.record[index];
    if (is_new) {
        r->t->node[index] = *reading;
        record->line = line;
        return RIG_OK;
    }
    return lspci_merge(&r->t->node[index], (struct lspci_origin){r->name, record->line}, reading,
                       (struct lspci_origin){r->name, line}, err);
}

static void empty_node(struct node *node, struct rig_bdf bdf)
{
    *node = (struct node){
        .f = {.bdf = bdf, .parent = -1, .host_bridge = -1, .physical = -1, .memory_bar = -1}};
}

static enum rig_status end_hex(struct reader *r, struct rig_error *err)
{
    struct lspci_hex *hex = &r->hex;
    if (hex->bytes == 0)
        return RIG_OK;
    if (hex->bytes < 64) {
        rig_fail_at(err, r->name, hex->first_line, 0,
                    "the dump of this function ends after %zu bytes", hex->bytes);
        rig_hint(err, "lspci -x shows 64 bytes, -xxx 256, -xxxx all: " LSPCI_COMMAND);
        return RIG_BAD_INPUT;
    }
    struct node node;
    empty_node(&node, r->node.f.bdf);
    config_decode(r->t, &node, hex->at, hex->bytes);
    size_t line = hex->first_line;
    hex->bytes = hex->first_line = 0;
    return add_reading(r, &node, line, err);
}

static enum rig_status end_block(struct reader *r, struct rig_error *err)
{
    if (!r->open)
        return RIG_OK;
    r->open = false;
    enum rig_status status = add_reading(r, &r->node, r->header_line, err);
    return status == RIG_OK ? end_hex(r, err) : status;
}

static enum rig_status start_block(struct reader *r, const struct lspci_line *line,
                                   struct rig_error *err)
{
    enum rig_status status = end_block(r, err);
    if (status != RIG_OK)
        return status;
    struct lspci_place place;
    empty_node(&r->node, (struct rig_bdf){.domain = 0});
    status = lspci_read_header(r->t, r->name, line, &place, &r->node, err);
    if (status != RIG_OK)
        return status;
    r->node.f.bdf = place.path[place.length - 1];
    r->header_line = line->number;
    r->open = true;
    return RIG_OK;
}

static enum rig_status take(struct reader *r, const struct lspci_line *line, struct rig_error *err)
{
    if (lspci_is_header(line, lspci_row_at(r->source.at, r->source.end)))
        return start_block(r, line, err);
    if (lspci_is_row(line)) {
        if (r->open)
            return lspci_hex_row(&r->hex, r->name, line, err);
        return rig_fail_at(err, r->name, line->number, line->column,
                           "a row of configuration space before any function");
    }
    return RIG_OK;
}

static enum rig_status read_lines(struct reader *r, struct rig_error *err)
{
    struct lspci_line line;
    enum rig_status status = RIG_OK;
    while (status == RIG_OK) {
        if (r->open)
            lspci_hex_run(&r->hex, &r->source.at, r->source.end, &r->source.number);
        if (!lspci_next(&r->source, &line, &status))
            break;
        status = take(r, &line, err);
    }
    return status == RIG_OK ? end_block(r, err) : status;
}

enum rig_status read_lspci(const char *name, const char *data, size_t bytes,
                           struct rig_topology **out, struct rig_error *err)
{
    struct reader *r = calloc(1, sizeof *r);
    struct rig_topology *t = topology_new(RIG_SOURCE_LSPCI_HEX);
    enum rig_status status = RIG_OK;
    if (!r || !t) {
        status = rig_fail_memory(err);
        goto done;
    }
    r->name = name;
    r->t = t;
    r->source = (struct lspci_source){.name = name, .at = data, .end = data + bytes, .number = 1};
    status = read_lines(r, err);
    if (status == RIG_OK)
        status = topology_finish(t, name, err);
    if (status == RIG_OK) {
        *out = t;
        t = NULL;
    }
done:
    if (r) {
        lspci_records_free(&r->records);
        free(r->source.room);
    }
    free(r);
    rig_topology_free(t);
    return status;
}
