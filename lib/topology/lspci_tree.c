#include "topology/lspci.h"

#include <stdlib.h>
#include <string.h>

/* A function as drawn. */
struct drawn {
    struct node node; /* name, ids, place, bus numbers */
    size_t line;
};

/* Where the functions of a bus, or the buses of a list, are drawn: all begin at one column. */
struct level {
    size_t column;
    bool buses;            /* a list of buses: of the machine's root, or below one bridge */
    bool root;             /* a root bus, or the list of them */
    uint32_t domain;       /* of a bus */
    uint8_t bus;           /* of a bus */
    struct rig_bdf bridge; /* above it, unless root */
};

/* A root bus that was drawn. */
struct root {
    uint32_t domain;
    uint8_t bus;
    size_t line;
};

#define MAX_LEVELS                                                                                 \
    260u /* a bus and a list each for half of the 256 buses there can be, and some                 \
          */

/* Functions are kept in the order they were drawn; `again` tells that the root bus being drawn was
   drawn before, at root[again_root], and that nothing new may come. `shift` is how far lines that
   begin with a space stand left of where they did: one that a quote mark's space was taken for, or
   minus one that a mailer put there (RFC 3676, 4.4). */
struct lspci_tree {
    struct drawn *drawn;
    int count, capacity;
    struct root *root;
    int roots, root_capacity;
    struct level level[MAX_LEVELS];
    unsigned levels;
    int shift;
    bool shift_known; /* a line told it since the last that begins with no space */
    bool again;
    struct root before;
    size_t again_line;
    uint32_t domain;              /* of the root bus being drawn */
    struct lspci_records records; /* of a topology that holds only places, for finding functions */
    struct rig_topology *places;
};

struct lspci_tree *lspci_tree_new(void)
{
    struct lspci_tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return NULL;
    tree->places = topology_new(RIG_SOURCE_LSPCI_TREE);
    if (!tree->places) {
        free(tree);
        return NULL;
    }
    return tree;
}

void lspci_tree_free(struct lspci_tree *tree)
{
    if (!tree)
        return;
    lspci_records_free(&tree->records);
    rig_topology_free(tree->places);
    free(tree->drawn);
    free(tree->root);
    free(tree);
}

int lspci_tree_count(const struct lspci_tree *tree)
{
    return tree->count;
}

size_t lspci_tree_function(const struct lspci_tree *tree, int i, struct node *node)
{
    *node = tree->drawn[i].node;
    return tree->drawn[i].line;
}

/* ---- words of a line */

/* A pair of brackets: `[0000:00]`, `[00]`, `[01-08]`, `[0000:01-08]`. */
struct bracket {
    bool with_domain;
    uint32_t domain;
    uint8_t first, last;
};

static bool take_bracket(struct lspci_text *t, struct bracket *out)
{
    struct lspci_text p = *t, wide;
    uint64_t domain = 0, first, last;
    if (!lspci_skip(&p, "["))
        return false;
    wide = p;
    bool with_domain = lspci_number(&wide, 16, 4, 8, &domain) && lspci_skip(&wide, ":");
    if (with_domain)
        p = wide;
    if (!lspci_number(&p, 16, 2, 2, &first))
        return false;
    last = first;
    if (lspci_skip(&p, "-") && !lspci_number(&p, 16, 2, 2, &last))
        return false;
    if (!lspci_skip(&p, "]"))
        return false;
    *out = (struct bracket){with_domain, (uint32_t)domain, (uint8_t)first, (uint8_t)last};
    *t = p;
    return true;
}

static bool take_function(struct lspci_text *t, uint8_t *out_device, uint8_t *out_function)
{
    struct lspci_text p = *t;
    uint64_t device, function;
    if (!lspci_number(&p, 16, 2, 2, &device) || !lspci_skip(&p, ".") ||
        !lspci_number(&p, 16, 1, 1, &function) || device > 31 || function > 7)
        return false;
    if (p.left && *p.at != ' ' && *p.at != '\t' && *p.at != '-')
        return false;
    *out_device = (uint8_t)device;
    *out_function = (uint8_t)function;
    *t = p;
    return true;
}

static void skip_branches(struct lspci_text *t)
{
    while (t->left && strchr(" |+\\-`", *t->at)) {
        t->at++;
        t->left--;
    }
}

bool lspci_is_tree(const struct lspci_line *line, bool within)
{
    struct lspci_text t = lspci_text_of(line);
    struct bracket bracket;
    uint8_t device, function;
    if (t.left < 3 || !strchr("|+\\-`", *t.at))
        return false;
    skip_branches(&t);
    if (t.at[-1] != '-')
        return false;
    struct lspci_text p = t;
    if (take_bracket(&p, &bracket))
        return true;
    return within && take_function(&t, &device, &function);
}

/* ---- levels */

static enum rig_status refuse(const char *name, const struct lspci_line *line,
                              const struct lspci_text *at, struct rig_error *err, const char *why)
{
    rig_fail_at(err, name, line->number, line->column + (size_t)(at->at - line->text), "%s", why);
    rig_hint(err, "paste the tree as lspci printed it, or use: " LSPCI_COMMAND);
    return RIG_BAD_INPUT;
}

/* The level drawn at the column, all deeper ones dropped; NULL: there is none. */
static struct level *level_at(struct lspci_tree *tree, size_t column)
{
    while (tree->levels && tree->level[tree->levels - 1].column > column)
        tree->levels--;
    struct level *top = tree->levels ? &tree->level[tree->levels - 1] : NULL;
    return top && top->column == column ? top : NULL;
}

static bool push_level(struct lspci_tree *tree, struct level level)
{
    if (tree->levels == MAX_LEVELS)
        return false;
    tree->level[tree->levels++] = level;
    return true;
}

static bool has_level(const struct lspci_tree *tree, size_t column)
{
    for (unsigned i = 0; i < tree->levels; i++)
        if (tree->level[i].column == column)
            return true;
    return false;
}

/* The first line with a branch at `column` below a root bus tells the shift of those that follow.
 */
static void settle_shift(struct lspci_tree *tree, size_t column)
{
    tree->shift_known = true;
    if (has_level(tree, column))
        return;
    if (has_level(tree, column + 1))
        tree->shift = 1;
    else if (has_level(tree, column - 1))
        tree->shift = -1;
}

/* ---- drawing */

static enum rig_status refuse_twice(const struct lspci_tree *tree, const char *name,
                                    struct rig_error *err)
{
    rig_fail_at(err, name, tree->again_line, 0,
                "bus %04x:%02x appears twice, here and in line %zu, and not alike",
                (unsigned)tree->before.domain, (unsigned)tree->before.bus, tree->before.line);
    rig_hint(err, "one file holds one machine at one time; split the file");
    return RIG_BAD_INPUT;
}

/* More root buses than any machine has; they are searched one by one. */
#define MAX_ROOTS 4096

static enum rig_status add_root(struct lspci_tree *tree, const struct bracket *bracket,
                                const char *name, size_t line, struct rig_error *err)
{
    tree->again = false;
    tree->domain = bracket->domain;
    for (int i = 0; i < tree->roots; i++) {
        if (tree->root[i].domain != bracket->domain || tree->root[i].bus != bracket->first)
            continue;
        tree->again = true;
        tree->before = tree->root[i];
        tree->again_line = line;
        return RIG_OK;
    }
    if (tree->roots == MAX_ROOTS)
        return rig_fail_at(err, name, line, 0, "more than %d root buses", MAX_ROOTS);
    if (tree->roots == tree->root_capacity) {
        int capacity = tree->root_capacity ? tree->root_capacity * 2 : 16;
        struct root *root = realloc(tree->root, (size_t)capacity * sizeof *root);
        if (!root)
            return rig_fail_memory(err);
        tree->root = root;
        tree->root_capacity = capacity;
    }
    tree->root[tree->roots++] = (struct root){bracket->domain, bracket->first, line};
    return RIG_OK;
}

static bool same_place(const struct node *a, const struct node *b)
{
    return a->place == b->place && rig_bdf_compare(a->parent_bdf, b->parent_bdf) == 0 &&
           a->f.secondary.value == b->f.secondary.value &&
           a->f.subordinate.value == b->f.subordinate.value;
}

/* One tree may be there with names and without; else it is another machine's. */
static enum rig_status add_again(struct lspci_tree *tree, struct drawn *old,
                                 const struct node *node, const char *name, struct rig_error *err)
{
    const char *was = old->node.f.name, *is = node->f.name;
    if (!same_place(&old->node, node) || (was && is && strcmp(was, is) != 0))
        return refuse_twice(tree, name, err);
    if (!was)
        old->node.f.name = is;
    if (!rig_fact_has(old->node.f.vendor)) {
        old->node.f.vendor = node->f.vendor;
        old->node.f.device = node->f.device;
    }
    return RIG_OK;
}

static enum rig_status add_drawn(struct lspci_tree *tree, const struct node *node, size_t line,
                                 const char *name, struct rig_error *err)
{
    int index;
    bool is_new;
    enum rig_status status =
        lspci_record_find(&tree->records, tree->places, node->f.bdf, &index, &is_new, err);
    if (status != RIG_OK)
        return status;
    if (!is_new && tree->again)
        return add_again(tree, &tree->drawn[index], node, name, err);
    if (tree->again)
        return refuse_twice(tree, name, err);
    if (!is_new) {
        char text[RIG_BDF_MAX];
        return rig_fail_at(err, name, line, 0, "function %s is drawn twice, here and in line %zu",
                           rig_bdf_format(node->f.bdf, text), tree->drawn[index].line);
    }
    if (tree->count == tree->capacity) {
        int capacity = tree->capacity ? tree->capacity * 2 : 32;
        struct drawn *drawn = realloc(tree->drawn, (size_t)capacity * sizeof *drawn);
        if (!drawn)
            return rig_fail_memory(err);
        tree->drawn = drawn;
        tree->capacity = capacity;
    }
    tree->drawn[tree->count++] = (struct drawn){*node, line};
    return RIG_OK;
}

/* ---- a line */

/* What was met on the line so far. */
struct cursor {
    struct lspci_tree *tree;
    struct rig_topology *t;
    const char *name;
    const struct lspci_line *line;
    struct lspci_text at;
    struct rig_error *err;
    bool in_bus;      /* a bus was just drawn: `bus` */
    struct level bus; /* without its column */
    bool in_function; /* a function was just drawn: `node` */
    bool branched;    /* a line leads on from it */
    struct node node;
};

static size_t column_of(const struct cursor *c)
{
    size_t column = c->line->indent + (size_t)(c->at.at - c->line->text);
    return c->tree->shift < 0 ? column - 1 : column + (size_t)c->tree->shift;
}

/* A bus in brackets that is not a bridge's own: a root bus, or one more below the same bridge. */
static enum rig_status draw_listed_bus(struct cursor *c, size_t column,
                                       const struct bracket *bracket)
{
    struct level *list = level_at(c->tree, column);
    struct level above = c->bus;
    if (list && !list->buses)
        return refuse(c->name, c->line, &c->at, c->err, "a bus is drawn where functions are");
    if (!list && !c->in_bus) {
        c->tree->levels = 0;
        above = (struct level){.root = true};
    }
    if (!list) {
        above.column = column;
        above.buses = true;
        if (!push_level(c->tree, above))
            return refuse(c->name, c->line, &c->at, c->err, "the tree is too deep");
        list = &c->tree->level[c->tree->levels - 1];
    }
    c->bus = *list;
    c->bus.buses = false;
    c->bus.bus = bracket->first;
    if (list->root) {
        c->bus.domain = bracket->domain;
        return add_root(c->tree, bracket, c->name, c->line->number, c->err);
    }
    return RIG_OK;
}

static enum rig_status finish_function(struct cursor *c)
{
    if (!c->in_function)
        return RIG_OK;
    c->in_function = false;
    return add_drawn(c->tree, &c->node, c->line->number, c->name, c->err);
}

static enum rig_status draw_bus(struct cursor *c, size_t column, const struct bracket *bracket)
{
    if (!c->in_function) {
        enum rig_status status = draw_listed_bus(c, column, bracket);
        c->in_bus = status == RIG_OK;
        return status;
    }
    c->node.f.secondary = fact_known(bracket->first);
    c->node.f.subordinate = fact_known(bracket->last);
    c->node.f.header_type = fact_assumed(1, "the tree draws a bus below it");
    c->bus = (struct level){
        .domain = c->node.f.bdf.domain, .bus = bracket->first, .bridge = c->node.f.bdf};
    c->in_bus = true;
    return finish_function(c);
}

static enum rig_status draw_function(struct cursor *c, size_t column, uint8_t device,
                                     uint8_t function)
{
    struct level *level = level_at(c->tree, column);
    if (!level && c->in_bus) {
        struct level bus = c->bus;
        bus.column = column;
        if (!push_level(c->tree, bus))
            return refuse(c->name, c->line, &c->at, c->err, "the tree is too deep");
        level = &c->tree->level[c->tree->levels - 1];
    }
    if (!level || level->buses)
        return refuse(c->name, c->line, &c->at, c->err,
                      "a function is drawn where no bus above it is");
    c->in_bus = false;
    c->in_function = true;
    c->node =
        (struct node){.place = level->root ? PLACE_ROOT : PLACE_UNDER, .parent_bdf = level->bridge};
    c->node.f.bdf = (struct rig_bdf){level->domain, level->bus, device, function};
    c->node.f.parent = c->node.f.host_bridge = c->node.f.physical = c->node.f.memory_bar = -1;
    if (level->root)
        c->node.parent_bdf = (struct rig_bdf){.domain = level->domain, .bus = level->bus};
    return RIG_OK;
}

static enum rig_status end_of_line(struct cursor *c)
{
    struct lspci_text name = c->at;
    if (c->in_function && (name.left == 0 || *name.at == ' ' || *name.at == '\t')) {
        if (!c->branched)
            c->node.f.header_type = fact_known(0);
        enum rig_status status = lspci_read_name(c->t, name, &c->node, c->err);
        if (status != RIG_OK)
            return status;
    }
    return finish_function(c);
}

enum rig_status lspci_tree_line(struct lspci_tree *tree, struct rig_topology *t, const char *name,
                                const struct lspci_line *line, struct rig_error *err)
{
    struct cursor c = {
        .tree = tree, .t = t, .name = name, .line = line, .at = lspci_text_of(line), .err = err};
    enum rig_status status = RIG_OK;
    if (*line->text == '-') {
        tree->shift = 0;
        tree->shift_known = false;
    }
    skip_branches(&c.at);
    if (*line->text != '-' && !tree->shift_known)
        settle_shift(tree, column_of(&c));
    while (status == RIG_OK) {
        size_t column = column_of(&c);
        struct bracket bracket;
        uint8_t device, function;
        if (take_bracket(&c.at, &bracket))
            status = draw_bus(&c, column, &bracket);
        else if (take_function(&c.at, &device, &function))
            status = draw_function(&c, column, device, function);
        else
            break;
        c.branched = c.at.left != 0 && *c.at.at == '-';
        if (c.in_function && !c.branched)
            break;
        skip_branches(&c.at);
    }
    return status == RIG_OK ? end_of_line(&c) : status;
}
