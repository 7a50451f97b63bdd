#include "topology/lspci.h"

#include "topology/rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A line that is held back until it is known whether the next one continues it, as mailers cut
   long lines. `text` is a copy, which grows by what continues it. */
enum pending_kind {
    PENDING_NONE,
    PENDING_HEADER,
    PENDING_DETAIL,
    PENDING_TREE,
};

struct pending {
    enum pending_kind kind;
    struct lspci_line line; /* its text is in `room` */
    char *room;
    size_t room_size;
    size_t width; /* of its last piece */
};

/* The reader of one text. While `open`, a block is read; while `accepts`, lines that look like it
   still belong to it: a blank line ends that, except in a text that has one after every line. */
struct reader {
    struct lspci_functions functions;
    struct lspci_source source;
    struct lspci_tree *tree;
    struct lspci_log log;
    struct pending pending;
    bool open, accepts;
    bool spaced; /* a blank line follows the block's header */
    bool flat;   /* the block's lines are not indented */
    bool within_tree;
    bool no_iommu; /* the text tells that the machine's IOMMU is off */
    struct lspci_clues clues;
    struct lspci_block block;
    struct lspci_hex hex;
};

/* ---- lines */

/* Above its own rows a function's line names the ids of the same function: where they differ, the
   rows were edited, or the kernel was told other ids than the hardware has, and the rows count. Ids
   of all ones are no ids: a virtual function's rows read so, and those of one that is asleep. */
static void prefer_rows(struct reader *r)
{
    struct rig_function *f = &r->block.node.f;
    const uint8_t *row = r->hex.at;
    uint64_t vendor = (uint64_t)(row[0] | row[1] << 8), device = (uint64_t)(row[2] | row[3] << 8);
    if (r->hex.bytes == 0 || vendor == 0xffff || f->vendor.know != RIG_FACT_KNOWN ||
        (f->vendor.value == vendor && f->device.value == device))
        return;
    char text[RIG_BDF_MAX];
    topology_warn(r->functions.t,
                  "%s: its line says %04" PRIx64 ":%04" PRIx64 ", its bytes %04" PRIx64
                  ":%04" PRIx64 ": the bytes count",
                  rig_bdf_format(f->bdf, text), f->vendor.value, f->device.value, vendor, device);
    f->vendor = fact_known(vendor);
    f->device = fact_known(device);
    f->name = NULL;
}

static enum rig_status end_block(struct reader *r, struct rig_error *err)
{
    if (!r->open)
        return RIG_OK;
    r->open = r->accepts = false;
    prefer_rows(r);
    enum rig_status status = lspci_add_block(&r->functions, &r->block, err);
    if (status == RIG_OK)
        status = lspci_add_hex(&r->functions, r->block.node.f.bdf, &r->hex, err);
    return status;
}

static enum rig_status start_block(struct reader *r, const struct lspci_line *line,
                                   struct rig_error *err)
{
    enum rig_status status = end_block(r, err);
    if (status != RIG_OK)
        return status;
    memset(&r->block, 0, sizeof r->block);
    r->block.line = line->number;
    r->block.indent = line->indent;
    lspci_empty_node(&r->block.node, (struct rig_bdf){.domain = 0});
    struct lspci_place place;
    status = lspci_read_header(r->functions.t, line, &place, &r->block.node, err);
    if (status == RIG_OK)
        status = lspci_place_block(&r->functions, &place, &r->block, err);
    if (status != RIG_OK)
        return status;
    r->open = r->accepts = true;
    r->within_tree = false;
    r->spaced = r->flat = false;
    return RIG_OK;
}

static enum rig_status flush(struct reader *r, struct rig_error *err)
{
    enum pending_kind kind = r->pending.kind;
    r->pending.kind = PENDING_NONE;
    if (kind == PENDING_HEADER)
        return start_block(r, &r->pending.line, err);
    if (kind == PENDING_DETAIL)
        return lspci_detail(r->functions.t, r->functions.name, &r->pending.line, &r->block, err);
    if (kind == PENDING_TREE)
        return lspci_tree_line(r->tree, r->functions.t, r->functions.name, &r->pending.line, err);
    return RIG_OK;
}

/* A space goes before what is added to something. */
static bool add_text(struct pending *p, const char *text, size_t bytes)
{
    size_t used = p->line.length;
    if (p->room_size - used < bytes + 2) {
        size_t size = 2 * (used + bytes) + 256;
        char *room = realloc(p->room, size);
        if (!room)
            return false;
        p->room = room;
        p->room_size = size;
    }
    if (used)
        p->room[used++] = ' ';
    memcpy(p->room + used, text, bytes);
    p->line.text = p->room;
    p->line.length = used + bytes;
    return true;
}

static enum rig_status hold(struct reader *r, enum pending_kind kind, const struct lspci_line *line,
                            struct rig_error *err)
{
    struct pending *p = &r->pending;
    p->line = *line;
    p->line.length = 0;
    p->width = line->width;
    if (!add_text(p, line->text, line->length))
        return rig_fail_memory(err);
    p->kind = kind;
    return RIG_OK;
}

/* The narrowest column at which mailers cut lines, less a little, and one that none leaves lines
   beyond which have a space before it. */
#define WRAP_WIDTH 60u
#define WRAP_NO_MORE 100u

/* True iff a mailer that cuts long lines may have cut this one off the pending one: it stands no
   further in, and its first word would not have fitted there. */
static bool continues(const struct reader *r, const struct lspci_line *line)
{
    const struct pending *p = &r->pending;
    struct lspci_text t = lspci_text_of(line);
    if (p->kind == PENDING_NONE || line->indent > p->line.indent || p->width > WRAP_NO_MORE ||
        lspci_skip(&t, "pci ") || lspci_find(&t, " kernel: ") || lspci_find(&t, "] pci "))
        return false; /* a line of the kernel's log is none either */
    size_t word = 0;
    while (word < line->length && line->text[word] != ' ' && line->text[word] != '\t')
        word++;
    return p->width + 1 + word > WRAP_WIDTH;
}

static enum rig_status append(struct reader *r, const struct lspci_line *line,
                              struct rig_error *err)
{
    r->pending.width = line->width;
    if (!add_text(&r->pending, line->text, line->length))
        return rig_fail_memory(err);
    return RIG_OK;
}

static bool is_text(const struct lspci_line *line, const char *text)
{
    return line->length == strlen(text) && memcmp(line->text, text, line->length) == 0;
}

/* What people write where they left something out. */
static bool is_elision(const struct lspci_line *line)
{
    static const char *const forms[] = {
        "[...]", "...",          "[..]",           "(...)", "[snip]", "<snip>", "--8<--",
        "[cut]", "\xe2\x80\xa6", "[\xe2\x80\xa6]", "<...>", "....",   "[....]"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(forms); i++)
        if (is_text(line, forms[i]))
            return true;
    return false;
}

static bool is_fence(const struct lspci_line *line)
{
    return line->length >= 3 &&
           (memcmp(line->text, "```", 3) == 0 || memcmp(line->text, "~~~", 3) == 0);
}

/* A line that is a detail of the open block by its place and words. */
static bool belongs(struct reader *r, const struct lspci_line *line)
{
    if (!r->accepts)
        return false;
    r->flat |= line->indent <= r->block.indent && lspci_is_detail(line);
    return line->indent > r->block.indent || r->flat;
}

static enum rig_status take_blank(struct reader *r, struct rig_error *err)
{
    enum rig_status status = flush(r, err);
    if (r->open && !r->block.details && r->hex.bytes == 0)
        r->spaced = true;
    if (!r->spaced)
        r->accepts = false;
    return status;
}

static enum rig_status take_tree(struct reader *r, const struct lspci_line *line,
                                 struct rig_error *err)
{
    enum rig_status status = end_block(r, err);
    if (status != RIG_OK)
        return status;
    if (!r->tree)
        r->tree = lspci_tree_new();
    if (!r->tree)
        return rig_fail_memory(err);
    r->within_tree = true;
    return hold(r, PENDING_TREE, line, err);
}

static enum rig_status take_row(struct reader *r, const struct lspci_line *line,
                                struct rig_error *err)
{
    if (r->open)
        return lspci_hex_row(&r->hex, r->functions.name, line, err);
    rig_fail_at(err, r->functions.name, line->number, line->column,
                "a row of configuration space before any function");
    rig_hint(err, "dump whole functions with: " LSPCI_COMMAND);
    return RIG_BAD_INPUT;
}

/* What belongs to no function: the machine's facts, prompts, prose. */
static enum rig_status take_other(struct reader *r, const struct lspci_line *line,
                                  struct rig_error *err)
{
    r->within_tree = false;
    r->accepts = false;
    r->no_iommu |= is_text(line, "IOMMU: disabled"); /* as NVIDIA's gdscheck writes it */
    lspci_clue_line(&r->clues, line);
    enum rig_status status = lspci_log_line(&r->log, line, err);
    if (status == RIG_OK)
        status = lspci_machine_line(r->functions.t, r->functions.name, line, err);
    return status;
}

static enum rig_status take(struct reader *r, const struct lspci_line *line, struct rig_error *err)
{
    if (line->length == 0)
        return take_blank(r, err);
    bool tree = lspci_is_tree(line, r->within_tree);
    bool header = !tree && lspci_is_header(line, lspci_row_at(r->source.at, r->source.end));
    bool row = !tree && !header && lspci_is_row(line);
    bool elision = is_elision(line), fence = is_fence(line);
    bool special = tree || header || row || elision || fence;
    if (!special && !lspci_is_detail(line) && continues(r, line))
        return append(r, line, err);
    enum rig_status status = flush(r, err);
    if (status != RIG_OK)
        return status;
    if (tree)
        return take_tree(r, line, err);
    if (header)
        return hold(r, PENDING_HEADER, line, err);
    if (row)
        return take_row(r, line, err);
    if (elision) {
        r->block.cut |= r->accepts;
        return RIG_OK;
    }
    if (fence)
        return take_blank(r, err);
    if (belongs(r, line))
        return hold(r, PENDING_DETAIL, line, err);
    return take_other(r, line, err);
}

static enum rig_status read_lines(struct reader *r, struct rig_error *err)
{
    struct lspci_line line;
    enum rig_status status = RIG_OK;
    struct lspci_source *s = &r->source;
    bool newline = false;
    while (status == RIG_OK) {
        if (r->pending.kind == PENDING_HEADER && lspci_row_at(s->at, s->end))
            status = flush(r, err);
        if (r->open && r->pending.kind == PENDING_NONE)
            lspci_hex_run(&r->hex, &s->at, s->end, &s->number);
        if (status != RIG_OK || !lspci_next(s, &line, &status))
            break;
        newline = s->end[-1] == '\n'; /* there is a line before it */
        status = take(r, &line, err);
    }
    if (status == RIG_OK)
        status = flush(r, err);
    if (r->accepts && !newline && !r->block.at_end && r->hex.bytes == 0)
        r->block.cut = true; /* a text that ends within a line of a block was cut there */
    return status == RIG_OK ? end_block(r, err) : status;
}

/* ---- the whole */

static enum rig_status refuse_text(struct reader *r, struct rig_error *err)
{
    const struct rig_topology *t = r->functions.t;
    const char *what = r->clues.piece_of_tree ? "a piece of a tree without the root bus above it"
                       : t->count             ? "a plain list of functions shows no tree"
                       : r->clues.loose  ? "lines of functions without the functions they are of"
                       : r->clues.matrix ? "a matrix of paths names no functions"
                                         : "it shows no PCI function";
    rig_fail_at(err, r->functions.name, 0, 0,
                "%s: run `" LSPCI_COMMAND "` on the machine, or `rigmem capture`", what);
    for (int i = 0; i < t->count; i++)
        if (function_redirects(&t->node[i].f) == RIG_ANSWER_YES)
            lspci_clue_redirecting(&r->clues, t->node[i].f.bdf);
    lspci_clue_hint(&r->clues, err);
    return RIG_BAD_INPUT;
}

static void settle_iommu(struct reader *r)
{
    for (int i = 0; r->no_iommu && i < r->functions.t->count; i++) {
        struct rig_function *f = &r->functions.t->node[i].f;
        if (!rig_fact_has(f->iommu_group))
            f->iommu = fact_assumed(RIG_IOMMU_NONE, "\"IOMMU: disabled\" in the text");
    }
}

static enum rig_status finish(struct reader *r, struct rig_error *err)
{
    bool tree = r->tree && lspci_tree_count(r->tree) > 0;
    if (!r->functions.any_text && !r->functions.any_hex && !r->functions.any_path && !tree)
        return refuse_text(r, err);
    lspci_settle_paths(&r->functions);
    enum rig_status status = lspci_add_tree(&r->functions, r->tree, err);
    if (status != RIG_OK)
        return status;
    r->functions.t->machine.source = r->functions.any_text || r->functions.any_path
                                         ? RIG_SOURCE_LSPCI_TEXT
                                     : r->functions.any_hex ? RIG_SOURCE_LSPCI_HEX
                                                            : RIG_SOURCE_LSPCI_TREE;
    lspci_log_apply(&r->log, &r->functions.records, r->functions.t);
    lspci_settle(r->functions.t, &r->functions.records);
    settle_iommu(r);
    if (r->clues.commas && !rig_text_has(r->functions.t->machine.command_line))
        topology_warn(r->functions.t, "the text: %s", r->clues.comma_text);
    return topology_finish(r->functions.t, r->functions.name, err);
}

static void free_reader(struct reader *r)
{
    lspci_records_free(&r->functions.records);
    lspci_tree_free(r->tree);
    free(r->log.bar);
    free(r->source.room);
    free(r->pending.room);
    rig_topology_free(r->functions.t);
    free(r);
}

static enum rig_status read_source(struct lspci_source source, struct rig_topology **out,
                                   struct rig_error *err)
{
    struct reader *r = calloc(1, sizeof *r);
    if (r)
        r->functions.t = topology_new(RIG_SOURCE_LSPCI_TEXT);
    if (!r || !r->functions.t) {
        free(r);
        return rig_fail_memory(err);
    }
    r->functions.name = source.name;
    r->source = source;
    r->source.number = 1;
    enum rig_status status = read_lines(r, err);
    if (status == RIG_OK)
        status = finish(r, err);
    else if (status == RIG_FAILED)
        rig_fail_memory(err);
    if (status == RIG_OK) {
        *out = r->functions.t;
        r->functions.t = NULL;
    }
    free_reader(r);
    return status;
}

enum rig_status read_lspci(const char *name, const char *data, size_t bytes,
                           struct rig_topology **out, struct rig_error *err)
{
    return read_source((struct lspci_source){.name = name, .at = data, .end = data + bytes}, out,
                       err);
}

enum rig_status read_lspci_stream(struct text_stream *stream, struct rig_topology **out,
                                  struct rig_error *err)
{
    return read_source((struct lspci_source){.name = stream->name,
                                             .at = stream->data,
                                             .end = stream->data + stream->bytes,
                                             .stream = stream,
                                             .err = err},
                       out, err);
}
