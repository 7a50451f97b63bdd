#include "heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define LARGE_PAGE ((uintptr_t)2 << 20)

/* Below it, clearing a large page costs more than the faults it saves. */
#define FILE_LEAST (64 << 10)

/* What is made of a file takes up to nine times its bytes. */
#define TIMES 9
#define HEAP_MOST ((size_t)256 << 20)

/* Blocks of a session's size come from the heap; the page tables' and allocators' own tables,
   larger and nearly empty, from elsewhere. */
#define BLOCK_MOST (4 << 20)

void heap_expect(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || st.st_size < FILE_LEAST)
        return;
    size_t bytes = (size_t)st.st_size > HEAP_MOST / TIMES ? HEAP_MOST : (size_t)st.st_size * TIMES;
    bytes = (bytes + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    /* The heap goes on a little before a large page begins, with a block that has malloc ask for
       all at once; it writes beside that block, and a large page in which something is is none. */
    malloc_trim(0);
    size_t block_bytes = mallinfo2().keepcost + PAGE, before = block_bytes + 4 * PAGE;
    uintptr_t end = (uintptr_t)sbrk(0), large = (end + before + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    if (sbrk((intptr_t)(large - before - end)) == (void *)-1)
        return;
    mallopt(M_MMAP_THRESHOLD, BLOCK_MOST);
    mallopt(M_TRIM_THRESHOLD, (int)HEAP_MOST);
    mallopt(M_TOP_PAD, (int)(bytes + before));
    void *volatile block = malloc(block_bytes); /* which the compiler leaves alone */
    free(block);
    mallopt(M_TOP_PAD, (int)LARGE_PAGE);
    if ((uintptr_t)sbrk(0) >= large + bytes)
        madvise((void *)large, bytes, MADV_HUGEPAGE);
}
