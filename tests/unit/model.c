#include "model.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE UINT64_C(4096)

static bool owns(const struct model *m, const struct model_map *p)
{
    return m->block[p->block].life == p->life;
}

static bool own_memory(const struct model_block *b)
{
    return b->kind == MODEL_GPU || b->kind == MODEL_BAR;
}

static bool pins(const struct model *m, const struct model_map *p)
{
    const struct model_block *b = &m->block[p->block];
    return owns(m, p) ? b->kind == MODEL_LENT : !own_memory(b);
}

static enum model_tri least(enum model_tri a, enum model_tri b)
{
    return a < b ? a : b;
}

static enum model_tri most(enum model_tri a, enum model_tri b)
{
    return a > b ? a : b;
}

void model_end(struct model *m)
{
    for (int i = 0; i < m->blocks; i++)
        free(m->block[i].page);
}

/* The owner's map of a block: the first, as it is made with it. */
static struct model_map *owners(struct model *m, int block)
{
    for (int i = 0; i < m->maps; i++)
        if (m->map[i].block == block && owns(m, &m->map[i]))
            return &m->map[i];
    return NULL;
}

/* Whether peers' mappings reach the block now. */
static enum model_tri peers_reach(const struct model *m, int block)
{
    enum model_tri reached = MODEL_NO;
    for (int i = 0; i < m->maps; i++) {
        const struct model_map *p = &m->map[i];
        if (p->block == block && !owns(m, p) && p->state != MODEL_GONE)
            reached = most(reached, p->held);
    }
    return reached;
}

static bool taken(const struct model *m, int life)
{
    return life >= 0 && m->life[life].life == RIG_LIFE_TAKEN;
}

static bool is_gone(const struct model *m, int life)
{
    return m->failed || m->gpu[m->life[life].gpu].gone;
}

static struct model_map *new_map(struct model *m, int life, int block, enum model_state state)
{
    struct model_life *l = &m->life[life];
    struct model_map *p = &m->map[m->maps++];
    *p = (struct model_map){.life = life, .block = block, .state = state};
    p->held = state == MODEL_CUT ? MODEL_MAYBE : MODEL_MUST;
    /* Both ends of a range, on each level, and its middle; twice for dual directories. */
    l->spread += 2 * PAGE * (2 * (uint64_t)m->gpu[l->gpu].levels + (m->block[block].bytes >> 21));
    return p;
}

static void new_region(struct model *m, const struct model_map *p, int original,
                       struct rig_region handle)
{
    m->region[m->regions++] = (struct model_region){
        .handle = handle, .map = (int)(p - m->map), .original = original, .out = true};
}

/* ---- how a request may end */

static uint64_t round_own(uint64_t bytes)
{
    uint64_t unit = bytes >= UINT64_C(8) << 20 ? UINT64_C(2) << 20 : PAGE;
    return (bytes + unit - 1) & ~(unit - 1);
}

/* Page tables may be as many more as this. */
static uint64_t tables_for(const struct model *m, int life, uint64_t bytes)
{
    return 2 * PAGE * (2 * (uint64_t)m->gpu[m->life[life].gpu].levels + (bytes >> 21));
}

/* How many blocks of `bytes` bytes the free runs of what the BAR shows have room for, and how many
   bytes of it are free, tables not counted. */
static uint64_t slots(const struct model *m, int life, uint64_t bytes, uint64_t *out_free)
{
    const struct model_gpu *g = &m->gpu[m->life[life].gpu];
    uint64_t end = g->end < g->window ? g->end : g->window, count = 0, run = 0;
    uint8_t used[MODEL_PAGES] = {0};
    for (int i = 0; i < m->maps; i++) {
        const struct model_map *p = &m->map[i];
        const struct model_block *b = &m->block[p->block];
        if (p->life == life && owns(m, p) && own_memory(b) && b->known && p->held != MODEL_NO)
            for (uint64_t k = 0; k < b->bytes / PAGE; k++)
                used[b->page[k] & ((UINT64_C(1) << 52) - 1)] = 1;
    }
    *out_free = 0;
    for (uint64_t at = g->first; at < end; at += PAGE) {
        if (used[at / PAGE]) {
            run = 0;
            continue;
        }
        *out_free += PAGE;
        run += PAGE;
        if (run == bytes) {
            count++;
            run = 0;
        }
    }
    return count;
}

/* Tables need pages that the BAR shows. */
static bool tables_short(const struct model *m, int life, uint64_t bytes, uint64_t left)
{
    const struct model_gpu *g = &m->gpu[m->life[life].gpu];
    uint64_t shown;
    slots(m, life, PAGE, &shown);
    uint64_t have = model_tables(m, life);
    shown = shown > have ? shown - have : 0;
    uint64_t need = tables_for(m, life, bytes);
    return left < need || (g->window < g->bytes && shown < need);
}

static unsigned begin(const struct model *m, int life)
{
    if (!taken(m, life))
        return MODEL_SET(RIG_INVALID);
    return is_gone(m, life) ? MODEL_SET(RIG_FAILED) : 0;
}

unsigned model_may_alloc(const struct model *m, int life, enum model_kind kind, uint64_t bytes,
                         struct model_room room)
{
    unsigned set = begin(m, life);
    if (bytes == 0)
        return MODEL_SET(RIG_INVALID);
    if (set)
        return set;
    set = MODEL_SET(RIG_OK);
    uint64_t pool = room.pool, shown = 0;
    if (kind == MODEL_HOST) {
        bytes = (bytes + PAGE - 1) & ~(PAGE - 1);
        if (room.system < bytes)
            return MODEL_SET(RIG_NO_ROOM) | (bytes > m->system ? MODEL_SET(RIG_REFUSED) : 0) |
                   (room.system + room.more >= bytes ? MODEL_SET(RIG_OK) : 0);
    } else {
        bytes = round_own(bytes);
        if (pool < bytes)
            return set | MODEL_SET(RIG_NO_ROOM);
        pool -= bytes;
        /* A page table spoils one slot at most. */
        if (kind == MODEL_BAR && slots(m, life, bytes, &shown) <= model_tables(m, life) / PAGE)
            set |= MODEL_SET(RIG_NO_ROOM);
        /* Where the BAR shows a part, page tables have a pool of their own in it, a quarter at
         * most. */
        const struct model_gpu *g = &m->gpu[m->life[life].gpu];
        if (kind == MODEL_BAR && g->window < g->bytes &&
            2 * bytes + (g->window - g->first) / 4 > shown)
            set |= MODEL_SET(RIG_NO_ROOM);
    }
    if (tables_short(m, life, bytes, pool))
        set |= MODEL_SET(RIG_NO_ROOM);
    return set;
}

unsigned model_may_map_host(const struct model *m, int life, uint64_t bytes, int under,
                            struct model_room room)
{
    unsigned set = begin(m, life);
    if (bytes == 0)
        return MODEL_SET(RIG_INVALID);
    if (set)
        return set;
    if (under < 0 && !m->gpu[m->life[life].gpu].translated)
        return MODEL_SET(RIG_REFUSED);
    set = MODEL_SET(RIG_OK);
    if (tables_short(m, life, bytes + PAGE, room.pool))
        set |= MODEL_SET(RIG_NO_ROOM);
    return set;
}

/* The map by which the life maps the block, with that state, or NULL. */
static struct model_map *find(struct model *m, int life, int block, enum model_state state)
{
    for (int i = 0; i < m->maps; i++)
        if (m->map[i].life == life && m->map[i].block == block && m->map[i].state == state)
            return &m->map[i];
    return NULL;
}

static bool freed(const struct model *m, int region)
{
    const struct model_region *r = &m->region[region];
    return !r->out || (r->original >= 0 && !m->region[r->original].out);
}

unsigned model_may_map_peer(const struct model *m, int life, int region, struct model_room room)
{
    const struct model_region *r = &m->region[region];
    if (!taken(m, life) || freed(m, region))
        return MODEL_SET(RIG_INVALID);
    if (is_gone(m, life))
        return MODEL_SET(RIG_FAILED);
    const struct model_block *b = &m->block[m->map[r->map].block];
    if (b->life == life)
        return MODEL_SET(RIG_OK);
    int by = m->life[life].gpu, to = m->life[b->life].gpu;
    const struct model_map *live =
        find((struct model *)(uintptr_t)m, life, m->map[r->map].block, MODEL_LIVE);
    if (!taken(m, b->life))
        return MODEL_SET(RIG_REFUSED) | (live ? MODEL_SET(RIG_OK) : 0);
    if (m->gpu[by].space != m->gpu[to].space)
        return MODEL_SET(RIG_REFUSED);
    if (live)
        return MODEL_SET(RIG_OK);
    if (own_memory(b) && !m->gpu[by].reach[to])
        return MODEL_SET(RIG_REFUSED);
    if (b->kind == MODEL_LENT && b->under < 0 && !m->gpu[by].translated)
        return MODEL_SET(RIG_REFUSED);
    unsigned set = MODEL_SET(RIG_OK);
    /* Whose pages they are may have let them go, or does so in this request, and behind an IOMMU
       the process's window with them. */
    const struct model_map *lender =
        b->under >= 0 ? owners((struct model *)(uintptr_t)m, b->under) : NULL;
    if (lender && m->gpu[m->life[lender->life].gpu].translated &&
        (lender->held != MODEL_MUST || (lender->state == MODEL_WAIT && lender->life == life)))
        set |= MODEL_SET(RIG_REFUSED);
    if (is_gone(m, b->life))
        set |= MODEL_SET(RIG_REFUSED) | MODEL_SET(RIG_FAILED);
    if (tables_short(m, life, b->bytes, room.pool))
        set |= MODEL_SET(RIG_NO_ROOM);
    return set;
}

unsigned model_may_free(const struct model *m, int life, int region)
{
    const struct model_region *r = &m->region[region];
    if (!r->out || m->map[r->map].life != life)
        return MODEL_SET(RIG_INVALID);
    return MODEL_SET(RIG_OK);
}

unsigned model_may_bus(const struct model *m, int life, int region)
{
    const struct model_region *r = &m->region[region];
    if (!taken(m, life) || !r->out || r->original >= 0 || m->map[r->map].life != life ||
        m->block[m->map[r->map].block].kind == MODEL_LENT)
        return MODEL_SET(RIG_INVALID);
    const struct model_gpu *g = &m->gpu[m->life[life].gpu];
    if (is_gone(m, life))
        return MODEL_SET(RIG_FAILED) | MODEL_SET(RIG_OK) | MODEL_SET(RIG_REFUSED);
    if (g->translated)
        return MODEL_SET(RIG_REFUSED);
    bool reached = !own_memory(&m->block[m->map[r->map].block]) || g->client_reaches;
    return MODEL_SET(reached ? RIG_OK : RIG_REFUSED);
}

unsigned model_may_take(const struct model *m, int gpu)
{
    int life = m->now[gpu];
    if (life >= 0 && !model_may_live(m, life, RIG_LIFE_STOPPED, true))
        return MODEL_SET(RIG_REFUSED) | (m->failed || m->gpu[gpu].gone ? MODEL_SET(RIG_FAILED) : 0);
    if (m->failed || m->gpu[gpu].gone)
        return MODEL_SET(RIG_FAILED) | MODEL_SET(RIG_REFUSED);
    bool sure = life < 0 || model_may_live(m, life, RIG_LIFE_STOPPED, true) !=
                                model_may_live(m, life, RIG_LIFE_KEPT, true);
    return MODEL_SET(RIG_OK) | (sure ? 0 : MODEL_SET(RIG_REFUSED));
}

/* ---- what happened */

void model_sweep(struct model *m, int life, bool certain, bool cut)
{
    for (int i = 0; i < m->maps; i++) {
        struct model_map *p = &m->map[i];
        const struct model_block *b = &m->block[p->block];
        if (p->life != life || !owns(m, p) || p->state != MODEL_WAIT || b->reserved)
            continue;
        enum model_tri kept = most(peers_reach(m, p->block), b->stuck);
        if (kept == MODEL_MUST)
            continue;
        p->held = least(p->held, certain ? kept : MODEL_MAYBE);
        if (p->held == MODEL_NO)
            p->state = MODEL_GONE;
        else if (cut)
            p->state = MODEL_STUCK;
    }
}

void model_print(const struct model *m)
{
    static const char *const held[] = {"no", "maybe", "held"};
    static const char *const state[] = {"live", "cut", "wait", "stuck", "gone"};
    for (int i = 0; i < m->lives; i++)
        fprintf(stderr, "#    life %d: gpu%d %s%s\n", i, m->life[i].gpu,
                rig_life_name(m->life[i].life), m->life[i].reserved ? ", reserved" : "");
    for (int i = 0; i < m->maps; i++) {
        const struct model_map *p = &m->map[i];
        const struct model_block *b = &m->block[p->block];
        fprintf(stderr,
                "#    map %d: life %d of block %d (kind %d of life %d, %llu bytes): %s %s, %d\n", i,
                p->life, p->block, (int)b->kind, b->life, (unsigned long long)b->bytes,
                state[p->state], held[p->held], p->regions);
    }
}

/* Whether somebody borrowed pages of the block. */
static bool lent(const struct model *m, int block)
{
    for (int i = 0; i < m->maps; i++)
        if (m->map[i].held != MODEL_NO && m->block[m->map[i].block].under == block)
            return true;
    return false;
}

struct model_room model_due(const struct model *m, int life)
{
    struct model_room due = {.pool = 0};
    for (int i = 0; i < m->maps; i++) {
        const struct model_map *p = &m->map[i];
        const struct model_block *b = &m->block[p->block];
        if (p->life != life || !owns(m, p) || p->state != MODEL_WAIT || b->reserved)
            continue;
        enum model_tri kept = most(peers_reach(m, p->block), b->stuck);
        bool sure = p->held == MODEL_MUST && kept == MODEL_NO;
        if (p->held == MODEL_NO || kept == MODEL_MUST || (own_memory(b) && !sure))
            continue;
        if (own_memory(b))
            due.pool += b->bytes;
        else if (sure && b->kind == MODEL_HOST && !lent(m, p->block))
            due.system += b->bytes;
        else
            due.more += b->bytes; /* pages that only a pin kept, or that something keeps yet */
    }
    return due;
}

void model_handed_out(struct model *m, uint64_t page)
{
    for (int i = 0; i < m->maps; i++) {
        struct model_map *p = &m->map[i];
        const struct model_block *b = &m->block[p->block];
        for (uint64_t k = 0; p->held == MODEL_MAYBE && b->known && k < b->bytes / PAGE; k++)
            if (b->page[k] == page && (owns(m, p) || pins(m, p))) {
                p->held = MODEL_NO;
                p->state = MODEL_GONE;
                p->lingers = m->life[p->life].life != RIG_LIFE_TAKEN;
            }
    }
}

static int add_block(struct model *m, int life, enum model_kind kind, uint64_t bytes)
{
    struct model_block *b = &m->block[m->blocks];
    *b = (struct model_block){.life = life, .kind = kind, .under = -1, .bytes = bytes};
    b->page = calloc(bytes / PAGE, sizeof *b->page);
    return m->blocks++;
}

int model_new_block(struct model *m, int life, enum model_kind kind, uint64_t address,
                    uint64_t bytes, int under, struct rig_region handle)
{
    int block = add_block(m, life, kind, bytes);
    m->block[block].known = true;
    m->block[block].address = address;
    m->block[block].under = under;
    struct model_map *p = new_map(m, life, block, MODEL_LIVE);
    p->regions = 1;
    new_region(m, p, -1, handle);
    return block;
}

void model_cut_block(struct model *m, int life, enum model_kind kind, uint64_t bytes, int under)
{
    int block = add_block(m, life, kind, round_own(bytes));
    m->block[block].under = under;
    new_map(m, life, block, MODEL_CUT);
    m->life[life].dirty = true;
}

void model_map_peer(struct model *m, int life, int region, struct rig_region handle)
{
    const struct model_region *r = &m->region[region];
    int block = m->map[r->map].block;
    int original = r->original >= 0 ? r->original : region;
    struct model_map *p = find(m, life, block, MODEL_LIVE);
    if (!p) {
        p = find(m, life, block, MODEL_CUT);
        if (!p)
            p = new_map(m, life, block, MODEL_LIVE);
        p->state = MODEL_LIVE;
        p->held = MODEL_MUST;
    }
    p->regions++;
    new_region(m, p, original, handle);
}

void model_cut_map_peer(struct model *m, int life, int region)
{
    int block = m->map[m->region[region].map].block;
    m->life[life].dirty = true;
    if (m->block[block].life == life || find(m, life, block, MODEL_LIVE))
        return;
    struct model_map *p = find(m, life, block, MODEL_CUT);
    if (!p)
        new_map(m, life, block, MODEL_CUT);
}

/* The map's regions ended and its entries, or translations, may be there for good. */
static void stick(struct model *m, struct model_map *p, enum model_tri sure)
{
    p->state = MODEL_STUCK;
    p->held = least(p->held, sure);
    m->life[p->life].dirty = true;
    if (!owns(m, p))
        m->block[p->block].stuck = most(m->block[p->block].stuck, sure);
}

/* The map's entries are gone; it holds on for others alone. */
static void let_go(struct model *m, struct model_map *p)
{
    const struct model_block *b = &m->block[p->block];
    enum model_tri kept = MODEL_NO;
    if (owns(m, p))
        kept = b->reserved ? MODEL_MUST : most(peers_reach(m, p->block), b->stuck);
    p->held = least(p->held, kept);
    p->state = p->held == MODEL_NO ? MODEL_GONE : MODEL_WAIT;
}

void model_free(struct model *m, int region, bool confirmed, bool cut)
{
    struct model_region *r = &m->region[region];
    struct model_map *p = &m->map[r->map];
    const struct model_life *l = &m->life[p->life];
    r->out = false;
    p->regions--;
    bool last = p->regions == 0 && p->state != MODEL_GONE;
    switch (l->life) {
    case RIG_LIFE_TAKEN:
        if (last && cut)
            stick(m, p, MODEL_MAYBE);
        else if (last && confirmed)
            let_go(m, p);
        else if (last)
            stick(m, p, MODEL_MUST);
        model_sweep(m, p->life, !cut, cut);
        break;
    case RIG_LIFE_STOPPED:
        break;
    case RIG_LIFE_KEPT:
        /* The give-back holds nothing up for others' sake but a reservation. */
        if (last && l->reserved && !cut)
            let_go(m, p);
        else if (last)
            p->state = MODEL_WAIT;
        if (l->reserved)
            model_sweep(m, p->life, false, cut);
        break;
    default:
        if (last)
            stick(m, p, cut ? MODEL_MAYBE : p->held);
    }
}

void model_bus(struct model *m, int region)
{
    struct model_block *b = &m->block[m->map[m->region[region].map].block];
    b->reserved = true;
    m->life[b->life].reserved = true;
}

int model_take(struct model *m, int gpu, uint64_t pool)
{
    if (m->now[gpu] >= 0)
        model_stopped(m, m->now[gpu]);
    m->life[m->lives] = (struct model_life){.gpu = gpu, .life = RIG_LIFE_TAKEN, .pool = pool};
    m->now[gpu] = m->lives;
    return m->lives++;
}

void model_stopped(struct model *m, int life)
{
    m->life[life].life = RIG_LIFE_STOPPED;
    for (int i = 0; i < m->maps; i++)
        if (m->map[i].life == life) {
            m->map[i].held = MODEL_NO;
            m->map[i].state = MODEL_GONE;
            m->map[i].lingers = false;
        }
}

enum model_tri model_kept(const struct model *m, int life)
{
    enum model_tri k = m->life[life].reserved ? MODEL_MUST : MODEL_NO;
    for (int i = 0; i < m->blocks; i++)
        if (m->block[i].life == life && own_memory(&m->block[i]))
            k = most(k, peers_reach(m, i));
    return k;
}

/* A life that masters no more: it ends what it maps of others' memory. What it holds itself may go
   back, unless there is a reservation: others that reach it hold its addresses and pins of their
   own, and its GPU memory is nobody's as long as its function stays taken. */
static void settle(struct model *m, int life, bool cut)
{
    for (int i = 0; i < m->maps; i++) {
        struct model_map *p = &m->map[i];
        if (p->life != life || p->state == MODEL_GONE)
            continue;
        if (!owns(m, p) && !m->life[life].reserved && !cut) {
            p->held = MODEL_NO;
            p->state = MODEL_GONE;
        } else if (!owns(m, p)) {
            p->held = least(p->held, MODEL_MAYBE);
            p->state = cut ? MODEL_STUCK : p->state;
        } else if (!m->life[life].reserved) {
            p->held = least(p->held, MODEL_MAYBE);
        }
    }
}

void model_release(struct model *m, int life, bool cut, enum rig_life now)
{
    struct model_life *l = &m->life[life];
    bool first = l->life == RIG_LIFE_TAKEN;
    if (l->life == RIG_LIFE_STOPPED)
        return;
    model_sweep(m, life, false, cut);
    if (now == RIG_LIFE_STOPPED) {
        model_stopped(m, life);
        return;
    }
    l->life = now;
    l->dirty = true;
    if (now == RIG_LIFE_KEPT || cut)
        settle(m, life, cut);
    if (now == RIG_LIFE_KEPT || !first)
        return;
    for (int i = 0; i < m->maps; i++) {
        struct model_map *p = &m->map[i];
        if (p->life == life && !owns(m, p) && p->state != MODEL_GONE)
            m->block[p->block].stuck = most(m->block[p->block].stuck, least(p->held, MODEL_MAYBE));
    }
}

bool model_may_live(const struct model *m, int life, enum rig_life now, bool finish)
{
    const struct model_life *l = &m->life[life];
    if (l->life == now && !(finish && now == RIG_LIFE_KEPT))
        return true;
    if (l->life == RIG_LIFE_KEPT && now == RIG_LIFE_KEPT)
        return model_kept(m, life) != MODEL_NO;
    /* Its give-back may be cut short, and go on at the next attempt. */
    if (l->life == RIG_LIFE_KEPT && (now == RIG_LIFE_STOPPED || now == RIG_LIFE_RELEASING))
        return model_kept(m, life) != MODEL_MUST;
    /* A release that was cut short goes on by and by. Of a function that left the bus nobody can
       read that it masters no more, where that was not read before: a machine that failed masters
       nothing. */
    bool off = l->life == RIG_LIFE_RELEASING ||
               (l->life == RIG_LIFE_RELEASED && (m->failed || !m->gpu[l->gpu].gone));
    return off &&
           (now == RIG_LIFE_STOPPED ? model_kept(m, life) != MODEL_MUST : now == RIG_LIFE_KEPT);
}

/* ---- what is held */

static void add(struct model_span *s, enum model_tri held, uint64_t count)
{
    s->least += held == MODEL_MUST ? count : 0;
    s->most += held != MODEL_NO ? count : 0;
}

struct model_span model_grants(const struct model *m)
{
    struct model_span s = {0, 0};
    for (int i = 0; i < m->maps; i++)
        if (owns(m, &m->map[i]) && m->block[m->map[i].block].kind == MODEL_HOST)
            add(&s, m->map[i].held, 1);
    return s;
}

struct model_span model_pins(const struct model *m)
{
    struct model_span s = {0, 0};
    for (int i = 0; i < m->maps; i++)
        if (pins(m, &m->map[i]))
            add(&s, m->map[i].held, 1);
    return s;
}

struct model_span model_addresses(const struct model *m)
{
    struct model_span s = {0, 0};
    for (int block = 0; block < m->blocks; block++) {
        enum model_tri held = MODEL_NO;
        for (int i = 0; i < m->maps; i++)
            if (m->map[i].block == block || m->block[m->map[i].block].under == block)
                held = most(held, m->map[i].lingers ? MODEL_MAYBE : m->map[i].held);
        add(&s, held, 1);
    }
    return s;
}

struct model_span model_system(const struct model *m)
{
    uint8_t page[MODEL_PAGES] = {MODEL_NO};
    struct model_span s = {0, 0};
    for (int i = 0; i < m->maps; i++) {
        const struct model_map *p = &m->map[i];
        const struct model_block *b = &m->block[p->block];
        if (own_memory(b))
            continue;
        for (uint64_t k = 0; b->known && k < b->bytes / PAGE; k++)
            if (b->page[k] >> 52 == 0) {
                uint8_t *held = &page[b->page[k] % MODEL_PAGES];
                *held = p->held > *held ? (uint8_t)p->held : *held;
            }
        if (!b->known)
            add(&s, p->held, b->bytes);
    }
    for (uint64_t i = 0; i < MODEL_PAGES; i++)
        add(&s, (enum model_tri)page[i], PAGE);
    return s;
}

struct model_span model_pool(const struct model *m, int life)
{
    struct model_span s = {0, 0};
    for (int i = 0; i < m->maps; i++) {
        const struct model_map *p = &m->map[i];
        if (p->life == life && owns(m, p) && own_memory(&m->block[p->block]))
            add(&s, p->held, m->block[p->block].bytes);
    }
    return s;
}

uint64_t model_tables(const struct model *m, int life)
{
    const struct model_life *l = &m->life[life];
    uint64_t bytes = 0;
    for (int i = 0; i < m->maps; i++) {
        const struct model_map *p = &m->map[i];
        if (p->life == life && p->state != MODEL_GONE && p->state != MODEL_WAIT)
            bytes += tables_for(m, life, m->block[p->block].bytes);
    }
    return l->dirty ? l->spread : bytes;
}

enum model_tri model_holds(const struct model *m, uint64_t page, int *out_block)
{
    enum model_tri held = MODEL_NO;
    *out_block = -1;
    for (int i = 0; i < m->maps; i++) {
        const struct model_map *p = &m->map[i];
        const struct model_block *b = &m->block[p->block];
        if (p->held == MODEL_NO || !b->known || (!owns(m, p) && !pins(m, p)))
            continue;
        for (uint64_t k = 0; k < b->bytes / PAGE; k++)
            if (b->page[k] == page && p->held > held) {
                held = p->held;
                *out_block = p->block;
            }
    }
    return held;
}

int model_reaches(const struct model *m, int life, uint64_t address, uint64_t page, bool *out_live)
{
    int found = -1, unknown = -1;
    *out_live = false;
    for (int i = 0; i < m->maps; i++) {
        const struct model_map *p = &m->map[i];
        const struct model_block *b = &m->block[p->block];
        if (p->life != life || p->held == MODEL_NO || p->state == MODEL_WAIT)
            continue;
        if (!b->known)
            unknown = i;
        else if (address >= b->address && address - b->address < b->bytes &&
                 b->page[(address - b->address) / PAGE] == page) {
            /* A mapping that is left of an earlier one may lie under a live one. */
            *out_live |= p->state == MODEL_LIVE;
            found = i;
        }
    }
    return found >= 0 ? found : unknown;
}
