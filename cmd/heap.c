#include "heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What malloc writes beside a block lies within it. */
#define BESIDE ((size_t)4096)
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
    struct mallinfo2 heap = mallinfo2();
    if (heap.arena >= bytes)
        return;
    mallopt(M_MMAP_THRESHOLD, BLOCK_MOST);
    mallopt(M_TRIM_THRESHOLD, (int)HEAP_MOST);
    /* A block that nobody writes to reaches close to where a large page begins, since a large page
       in which something was written is none; with it malloc asks for all that is to come. */
    uintptr_t end = (uintptr_t)sbrk(0), top = end - heap.keepcost;
    uintptr_t large = (end + 2 * BESIDE + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    mallopt(M_TOP_PAD, (int)(bytes + 2 * BESIDE));
    void *volatile spacer = malloc(large - BESIDE - top); /* which the compiler leaves alone */
    mallopt(M_TOP_PAD, (int)LARGE_PAGE);
    if ((uintptr_t)spacer < large && (uintptr_t)sbrk(0) >= large + bytes)
        madvise((void *)large, bytes, MADV_HUGEPAGE);
    else
        free(spacer);
}
