/* The saved state of a twin's system memory: grants, pins, reserved addresses. Grants are one text,
   a line each, with semicolons between them:

     ID FUNCTION FLAG MEMORY BYTES DEVICE PIECES

   FUNCTION is its number in the topology, FLAG p for a pin, or `-`, DEVICE where it lies on the bus
   where that is translated, or `-`. A piece is AT+BYTES, then o if it is of the process's own
   pages, with commas between them. */
#include "machine/twins.h"

#include "base/json.h"
#include "base/lines.h"

#include <search.h>
#include <stdlib.h>

static enum rig_status bad(struct rig_error *err, const char *what)
{
    return rig_fail(err, RIG_BAD_INPUT, "machine", "%s is missing or wrong", what);
}

/* ---- saving */

struct saving {
    struct twin *w;
    struct line_text grants;
    json_t *orphans;
    bool whole;
};

/* False: memory ran out. */
static bool put_grant(struct line_text *t, const struct twin_grant *grant)
{
    if (!line_room(t, 6 * (LINE_HEX_MOST + 1) + (size_t)grant->pieces * (2 * LINE_HEX_MOST + 3)))
        return false;
    line_put_if(t, t->used > 0, ';');
    line_put_hex(t, grant->id);
    line_put_field(t, true, (uint64_t)grant->function);
    line_put(t, ' ');
    line_put(t, grant->pin ? 'p' : '-');
    line_put_field(t, true, grant->memory);
    line_put_field(t, true, grant->bytes);
    line_put_field(t, grant->translated, grant->device);
    for (int i = 0; i < grant->pieces; i++) {
        const struct twin_piece *piece = &grant->piece[i];
        line_put(t, i > 0 ? ',' : ' ');
        line_put_hex(t, piece->at);
        line_put(t, '+');
        line_put_hex(t, piece->bytes);
        line_put_if(t, piece->own, 'o');
    }
    return true;
}

/* A pinned page may be in several pins; it is an orphan once. */
static bool save_orphans(struct saving *s, const struct twin_grant *pin)
{
    bool whole = true;
    for (int i = 0; i < pin->pieces && whole; i++)
        for (uint64_t done = 0; !pin->piece[i].own && done < pin->piece[i].bytes && whole;
             done += s->w->machine.page_size) {
            uint64_t at = pin->piece[i].at + done;
            const struct twin_page *page = page_of(s->w, at);
            if (page->orphan)
                whole = json_array_append_new(s->orphans, json_pack("[o o]", json_hex(at),
                                                                    json_hex(page->window))) == 0;
        }
    return whole;
}

static void save_one(const void *node, VISIT visit, void *closure)
{
    struct saving *s = closure;
    const struct twin_grant *grant = *(struct twin_grant *const *)node;
    if ((visit != postorder && visit != leaf) || !s->whole)
        return;
    s->whole = put_grant(&s->grants, grant) && (!grant->pin || save_orphans(s, grant));
}

static json_t *saved_reserved(const struct twin *w)
{
    json_t *all = json_array();
    for (size_t i = 0; i < w->reserved_count; i++) {
        json_t *one =
            json_pack("[o I]", json_hex(w->reserved[i].start), (json_int_t)w->reserved[i].bytes);
        if (json_array_append_new(all, one) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

enum rig_status memory_save(struct twin *w, json_t *out_state, struct rig_error *err)
{
    struct saving s = {.w = w, .orphans = json_array()};
    s.whole = s.orphans && line_room(&s.grants, 0);
    if (s.whole)
        twalk_r(w->grants, save_one, &s);
    json_t *grants = s.whole ? json_stringn_nocheck(s.grants.at, s.grants.used) : NULL;
    free(s.grants.at);
    bool whole = json_object_set_new(out_state, "grants", grants) == 0;
    whole = json_object_set_new(out_state, "orphans", s.orphans) == 0 && whole;
    whole = json_object_set_new(out_state, "reserved", saved_reserved(w)) == 0 && whole;
    whole = json_object_set_new(out_state, "last_grant", json_integer((json_int_t)w->last_grant)) ==
                0 &&
            whole;
    return whole ? RIG_OK : rig_fail_memory(err);
}

/* ---- loading */

static bool in_system(const struct twin *w, uint64_t at, uint64_t bytes)
{
    uint64_t page = w->machine.page_size;
    return bytes > 0 && ((at | bytes) & (page - 1)) == 0 && at >= w->system_base &&
           at - w->system_base < w->system_bytes &&
           w->system_bytes - (at - w->system_base) >= bytes;
}

static enum rig_status load_pieces(struct twin *w, struct twin_grant *grant, struct line_cursor *c,
                                   struct rig_error *err)
{
    uint64_t sum = 0;
    line_expect(c, ' ');
    do {
        struct twin_piece piece = {.at = line_hex(c)};
        line_expect(c, '+');
        piece.bytes = line_hex(c);
        piece.own = line_take(c, 'o');
        if (c->failed || piece.bytes == 0 || piece.bytes > INT64_MAX ||
            (piece.own ? !grant->pin || ((piece.at | piece.bytes) & (w->machine.page_size - 1))
                       : !in_system(w, piece.at, piece.bytes)) ||
            !rig_add(sum, piece.bytes, &sum))
            return bad(err, "a grant's pages");
        enum rig_status status = grant_add_piece(grant, piece, true, err);
        if (status != RIG_OK)
            return status;
    } while (line_take(c, ','));
    return sum == grant->bytes && (*c->at == '\0' || *c->at == ';') ? RIG_OK
                                                                    : bad(err, "a grant's size");
}

/* Takes the grant's device addresses and has them lead to its pages. Those of the process before
   are lost until they are found again. */
static enum rig_status load_translation(struct twin *w, struct twin_grant *grant,
                                        struct rig_error *err)
{
    enum rig_status status = iommu_take_at(w, grant->function, grant->device, grant->bytes, err);
    uint64_t at = grant->device;
    for (int i = 0; i < grant->pieces && status == RIG_OK; i++) {
        const struct twin_piece *piece = &grant->piece[i];
        struct twin_mapping mapping = {at, piece->bytes, piece->at, piece->own, piece->own};
        status = iommu_map(w, grant->function, &mapping, err);
        at += piece->bytes;
    }
    grant->translated = status == RIG_OK;
    return status == RIG_FAILED || status == RIG_OK ? status : bad(err, "a device address");
}

static enum rig_status take_pages(struct twin *w, const struct twin_grant *grant,
                                  struct rig_error *err)
{
    for (int i = 0; i < grant->pieces; i++) {
        const struct twin_piece *piece = &grant->piece[i];
        if (grant->pin) {
            for (uint64_t done = 0; !piece->own && done < piece->bytes;
                 done += w->machine.page_size)
                page_of(w, piece->at + done)->pins++;
            continue;
        }
        enum rig_status status = rig_ranges_take_at(w->pages, piece->at, piece->bytes, NULL);
        if (status != RIG_OK)
            return status == RIG_FAILED ? rig_fail_memory(err) : bad(err, "a grant's pages");
    }
    return RIG_OK;
}

static enum rig_status claim(struct twin *w, struct twin_grant *grant, struct rig_error *err)
{
    enum rig_status status = memory_claim(w, grant->memory, grant->bytes, err);
    return status == RIG_OK ? grant_see(w, grant, err) : status;
}

static enum rig_status load_grant(struct twin *w, struct line_cursor *c, struct rig_error *err)
{
    uint64_t id = line_hex(c), function = line_number(c), end;
    line_expect(c, ' ');
    bool pin = line_take(c, 'p'), translated;
    line_need(c, pin || line_take(c, '-'));
    if (c->failed || function >= (uint64_t)w->count)
        return bad(err, "a grant's function");
    struct twin_grant *grant = grant_new(w, (int)function, pin);
    if (!grant)
        return rig_fail_memory(err);
    w->last_grant--;
    grant->id = id;
    grant->memory = line_number(c);
    grant->bytes = line_number(c);
    grant->device = line_field(c, &translated);
    enum rig_status status = RIG_OK;
    if (c->failed || id == 0 || id > w->last_grant || grant_find(w, id) ||
        grant->bytes > INT64_MAX || ((grant->memory | grant->bytes) & (w->machine.page_size - 1)) ||
        !rig_add(grant->memory, grant->bytes, &end) || (!pin && grant_at(w, grant->memory)))
        status = bad(err, "a grant");
    if (status == RIG_OK)
        status = load_pieces(w, grant, c, err);
    if (status == RIG_OK)
        status = take_pages(w, grant, err);
    if (status == RIG_OK && translated)
        status = w->function[function].translated ? load_translation(w, grant, err)
                                                  : bad(err, "a grant's device address");
    /* In reserved addresses nothing else can land: there the process is to see it when it asks. */
    if (status == RIG_OK && !pin && !memory_is_reserved(w, grant->memory, grant->bytes))
        status = claim(w, grant, err);
    if (status == RIG_OK)
        status = grant_enter(w, grant, NULL, err);
    if (status != RIG_OK) {
        if (grant->seen)
            memory_window_end(w, grant->memory, grant->bytes);
        grant_drop(grant);
    }
    return status;
}

static enum rig_status load_grants(struct twin *w, const json_t *state, struct rig_error *err)
{
    struct line_cursor c = {.failed = false};
    if (!json_get_text(state, "grants", &c.at))
        return bad(err, "grants");
    enum rig_status status = RIG_OK;
    for (bool more = *c.at != '\0'; more && status == RIG_OK; more = line_take(&c, ';'))
        status = load_grant(w, &c, err);
    return status;
}

static enum rig_status load_orphan(struct twin *w, const json_t *j, struct rig_error *err)
{
    uint64_t at, window;
    uint64_t unit = w->machine.page_size;
    if (!json_hex_value(json_array_get(j, 0), &at) ||
        !json_hex_value(json_array_get(j, 1), &window) || !in_system(w, at, unit) ||
        (window & (unit - 1)) != 0)
        return bad(err, "a pinned page");
    struct twin_page *page = page_of(w, at);
    if (page->orphan)
        return RIG_OK;
    if (page->pins == 0)
        return bad(err, "a pinned page");
    enum rig_status status = rig_ranges_take_at(w->pages, at, unit, NULL);
    if (status != RIG_OK)
        return status == RIG_FAILED ? rig_fail_memory(err) : bad(err, "a pinned page");
    page->orphan = true;
    page->window = window;
    struct twin_piece piece = {at, unit, false};
    status = window ? memory_claim(w, window, unit, err) : RIG_OK;
    return window && status == RIG_OK ? memory_window(w, window, &piece, 1, err) : status;
}

enum rig_status memory_load(struct twin *w, const json_t *state, struct rig_error *err)
{
    if (!json_get_count(state, "last_grant", &w->last_grant))
        return bad(err, "last_grant");
    size_t i;
    const json_t *reserved, *orphans, *one;
    enum rig_status status = RIG_OK;
    if (!json_get_list(state, "reserved", &reserved) || !json_get_list(state, "orphans", &orphans))
        return bad(err, "reserved or orphans");
    json_array_foreach(reserved, i, one)
    {
        uint64_t start;
        const json_t *bytes = json_array_get(one, 1);
        if (!json_hex_value(json_array_get(one, 0), &start) || !json_is_integer(bytes) ||
            json_integer_value(bytes) <= 0)
            return bad(err, "a reserved range");
        status = memory_reserve(w, start, (uint64_t)json_integer_value(bytes), err);
        if (status != RIG_OK)
            return status;
    }
    status = load_grants(w, state, err);
    if (status != RIG_OK)
        return status;
    json_array_foreach(orphans, i, one)
    {
        status = load_orphan(w, one, err);
        if (status != RIG_OK)
            return status;
    }
    return RIG_OK;
}
