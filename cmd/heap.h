/* The program's heap where it is about to be large. */
#ifndef RIGMEM_HEAP_H
#define RIGMEM_HEAP_H

/* heap_expect has what malloc gives from now on lie in large pages, where the file at `path` is so
   large that what is made of it takes many small ones. It changes nothing else, and need not
   succeed: a page fault for each 4 KiB is most of what a command takes that works on thousands of
   regions. */
void heap_expect(const char *path);

#endif
