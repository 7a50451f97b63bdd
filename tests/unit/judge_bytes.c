/* What stands in memory, as the GPUs that map it and a bus client that was given it see it:
   nobody's bytes come to lie where another's are, or where a client may still write. */
#include "judge.h"

#include <string.h>

#define PAGE UINT64_C(4096)
#define OF_PAGE(page) (((page) & ((UINT64_C(1) << 52) - 1)) << 12)

static uint64_t mark(int block)
{
    return UINT64_C(0x6d61726b00000000) | (unsigned)block;
}

static uint64_t clients_mark(int block)
{
    return UINT64_C(0x6e69630000000000) | (unsigned)block;
}

/* The n-th page that bears a mark, n below 3. */
static uint64_t marked(const struct model_block *b, int n)
{
    uint64_t last = b->bytes / PAGE - 1;
    return n == 0 ? 0 : n == 1 ? last / 2 : last;
}

void judge_tag(struct judge *j, int block, struct rig_region region)
{
    const struct model_block *b = &j->model.block[block];
    uint64_t word = mark(block), old = 0;
    int function = j->function[j->model.life[b->life].gpu];
    for (int n = 0; n < 3 && b->kind != MODEL_LENT; n++) {
        uint64_t k = marked(b, n);
        enum rig_status status = RIG_OK;
        if (b->kind != MODEL_HOST) {
            status = twin_memory_write(j->machine, function, OF_PAGE(b->page[k]), &word,
                                       sizeof word, NULL);
        } else {
            rig_region_read(region, k * PAGE, &old, sizeof old, NULL);
            if (old != 0 && old != word)
                judge_wrong(j, "new host memory holds 0x%llx", (unsigned long long)old);
            status = rig_region_write(region, k * PAGE, &word, sizeof word, NULL);
        }
        if (status != RIG_OK)
            judge_wrong(j, "a new block cannot be written");
    }
}

void judge_client_writes(struct judge *j)
{
    for (unsigned i = 0; i < j->grants && !j->failed; i++) {
        const struct judge_granted *g = &j->granted[i];
        const struct model_block *b = &j->model.block[g->block];
        uint64_t word = clients_mark(g->block);
        enum rig_status status = RIG_OK;
        for (uint64_t at = 0; at < g->bytes && status == RIG_OK; at += PAGE)
            status = rig_twin_write(j->machine, NIC, g->address + at, &word, sizeof word, NULL);
        bool gone = j->model.failed || j->model.gpu[j->model.life[b->life].gpu].gone;
        if (status != RIG_OK && !gone)
            judge_wrong(j, "the client does not reach what it was given of block %d", g->block);
    }
}

/* The word that a GPU's work reads at a marked page of what it maps. */
static void look(struct judge *j, int gpu, int block, uint64_t at, int of)
{
    const struct model_block *b = &j->model.block[of];
    uint64_t word = 0;
    enum rig_status status =
        rig_twin_gpu_read(j->machine, j->shape->name[gpu], at, &word, sizeof word, NULL);
    if (status != RIG_OK)
        judge_wrong(j, "%s does not read block %d at 0x%llx", j->shape->name[gpu], block,
                    (unsigned long long)at);
    else if (word != mark(of) && !(b->reserved && word == clients_mark(of)))
        judge_wrong(j, "%s reads 0x%llx in block %d, which is not its own", j->shape->name[gpu],
                    (unsigned long long)word, block);
}

static void look_at_map(struct judge *j, int gpu, const struct model_map *p)
{
    const struct model_block *b = &j->model.block[p->block];
    if (b->kind != MODEL_LENT) {
        for (int n = 0; n < 3 && !j->failed; n++)
            look(j, gpu, p->block, b->address + marked(b, n) * PAGE, p->block);
        return;
    }
    /* Of what was borrowed, the pages that bear the lender's mark. */
    const struct model_block *u = b->under >= 0 ? &j->model.block[b->under] : NULL;
    for (int n = 0; u && n < 3 && !j->failed; n++)
        for (uint64_t k = 0; k < b->bytes / PAGE; k++)
            if (b->page[k] == u->page[marked(u, n)])
                look(j, gpu, p->block, b->address + k * PAGE, b->under);
}

void judge_contents(struct judge *j)
{
    for (int gpu = 0; gpu < j->model.gpus; gpu++)
        if (j->model.gpu[gpu].gone)
            return;
    for (int i = 0; i < j->model.maps && !j->failed; i++) {
        const struct model_map *p = &j->model.map[i];
        int gpu = j->model.life[p->life].gpu;
        if (p->state == MODEL_LIVE && p->life == j->model.now[gpu] && judge_works(j, gpu) &&
            j->model.block[p->block].known)
            look_at_map(j, gpu, p);
    }
}
