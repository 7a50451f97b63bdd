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

#endif
