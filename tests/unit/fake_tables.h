/* A GPU as far as a page table sees it: pages for tables, writes, flushes, each of which can be
   made to fail; and a walker that reads the bytes with the decoders alone. It ends the test at once
   where a page is written or given back that must not be. */
#ifndef FAKE_TABLES_H
#define FAKE_TABLES_H

#include "gpu/page_table.h"

#define FAKE_PAGES 4096

struct fake_gpu {
    const struct rig_format *f;
    uint64_t own_base;
    uint64_t *page[FAKE_PAGES]; /* bytes of page i, at offset fake_offset(i); NULL: never taken */
    uint64_t *block;            /* NULL, or where pages lie side by side (fake_adjoin) */
    bool taken[FAKE_PAGES];
    bool seen[FAKE_PAGES];         /* reached by the walker since the last confirmed flush */
    bool watch;                    /* keep `seen`: slow */
    int room;                      /* pages left to take */
    int used;                      /* pages taken now */
    long operations;               /* so far */
    long fail_at;                  /* this one fails; -1: none */
    long fail_for;                 /* and so many after it */
    bool half_written;             /* a failing write writes its first half */
    bool confirms;                 /* flushes are confirmed */
    bool placed;                   /* tables are stored into directly */
    long writes, written, flushes; /* calls, bytes, calls */
    struct rig_table root;
};

extern const struct rig_page_table_ops fake_ops;

/* fake_new is a GPU of the format with room for all its pages. Free it with fake_free. */
struct fake_gpu *fake_new(const struct rig_format *f, uint64_t own_base);
void fake_free(struct fake_gpu *g);

/* fake_adjoin has pages taken from now on be seen by the process in runs of four that follow on
   each other, and each two runs the wrong way round. */
void fake_adjoin(struct fake_gpu *g);

/* Where an address leads by the bytes of the tables. */
struct fake_end {
    bool mapped;
    struct rig_target target;
    uint64_t physical; /* own memory: an offset */
    uint64_t page;
    unsigned fragment;
};

struct fake_end fake_walk(struct fake_gpu *g, uint64_t address);

/* fake_tables is how many tables can be reached from the root, itself included; with mark, their
   pages are then in g->seen. */
int fake_tables(struct fake_gpu *g, bool mark);

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

#define OWN ((struct rig_target){.memory = RIG_MEMORY_OWN})
#define SYSTEM ((struct rig_target){.memory = RIG_MEMORY_SYSTEM, .uncached = true, .snooped = true})

/* A GPU and its page table. Addresses are given from the start of the format's space. */
struct fake_rig {
    struct fake_gpu *g;
    struct rig_page_table *t;
    uint64_t base;
};

struct fake_rig fake_set_up(const struct rig_format *f);
void fake_tear_down(struct fake_rig *r);

enum rig_status fake_map(struct fake_rig *r, uint64_t at, struct rig_target target,
                         uint64_t physical, uint64_t bytes);

/* fake_unmap is whether the flush was confirmed; the unmap succeeds. */
bool fake_unmap(struct fake_rig *r, uint64_t at, uint64_t bytes);

/* fake_end_at is where the GPU's address r->base + at leads. */
struct fake_end fake_end_at(struct fake_rig *r, uint64_t at);

/* fake_check ends the test unless the GPU's address leads to that memory, reached so, and its
   leaf's fragment holds. */
void fake_check(struct fake_rig *r, uint64_t address, struct rig_target target, uint64_t physical);

#endif
