#include "machine/walk.h"

/* What one entry, and all below it, say. */
enum found {
    FOUND_NOTHING, /* the next child of the directory above may say more */
    FOUND_SPARSE,  /* it may still, and if it does not, reads give zero */
    FOUND_HIDES,   /* it may not */
    FOUND_END,     /* the walk ends, as walk->end says */
};

struct walker {
    const struct rig_format *format;
    uint64_t va;
    walk_read *read;
    void *context;
    struct walk *walk;
};

static enum found end(struct walker *w, enum walk_end how)
{
    w->walk->end = how;
    return FOUND_END;
}

/* Reads and decodes the table's entry for the address. NULL: there is no room for a step, or it
   cannot be read; the walk has ended. */
static struct walk_step *look(struct walker *w, const struct rig_table *table)
{
    if (w->walk->steps == WALK_STEPS_MAX) {
        end(w, WALK_BROKEN);
        return NULL;
    }
    struct walk_step *s = &w->walk->step[w->walk->steps];
    unsigned bytes = w->format->level[table->level].entry_bytes;
    *s = (struct walk_step){.table = *table, .address = rig_entry_at(w->format, table, w->va)};
    s->index = (s->address - table->address) / bytes;
    if (!w->read(w->context, table->memory, s->address, s->words, bytes)) {
        end(w, WALK_BROKEN);
        return NULL;
    }
    w->walk->last = w->walk->steps++;
    rig_decode(w->format, table, s->words, &s->entry);
    return s;
}

/* Goes down by a table. A format has at most two children an entry, one level deep each, so the
   depth is that of its levels. */
static enum found go(struct walker *w, const struct rig_table *table)
{
    const struct walk_step *s = look(w, table);
    if (!s)
        return FOUND_END;
    switch (s->entry.kind) {
    case RIG_ENTRY_LEAF:
        return end(w, WALK_LEAF);
    case RIG_ENTRY_LOST:
        return end(w, WALK_LOST);
    case RIG_ENTRY_SPARSE:
        return FOUND_SPARSE;
    case RIG_ENTRY_HIDES:
        return FOUND_HIDES;
    case RIG_ENTRY_DIRECTORY:
        break;
    default:
        return FOUND_NOTHING;
    }
    enum found said = FOUND_NOTHING;
    for (int i = 0; i < s->entry.children; i++) {
        enum found found = go(w, &s->entry.child[i]);
        if (found == FOUND_END || found == FOUND_HIDES)
            return found;
        said = found == FOUND_SPARSE ? found : said;
    }
    return said;
}

void walk_tables(const struct rig_format *f, struct rig_table root, uint64_t va, walk_read *read,
                 void *context, struct walk *out_walk)
{
    *out_walk = (struct walk){.end = WALK_UNMAPPED, .last = -1};
    struct walker w = {f, va, read, context, out_walk};
    /* Addresses of the upper half are sign-extended. */
    uint64_t above = va >> (f->va_bits - 1);
    if (above > 1 && above != UINT64_MAX >> (f->va_bits - 1))
        return;
    if (go(&w, &root) == FOUND_SPARSE)
        out_walk->end = WALK_SPARSE;
}
