/* An allocator that fails when it is told, for the one test program that includes this. Under
   sanitizers, which bring their own, nothing fails. */
#ifndef RIG_TEST_FAILING_H
#define RIG_TEST_FAILING_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_FAIL 0
static long countdown;
__attribute__((unused)) static long live;
static bool tripped, for_good;
#else
#define CAN_FAIL 1
static long countdown = -1; /* the allocation that fails; counts down */
static long live;           /* allocations that are out */
static bool tripped;        /* one failed */
static bool for_good;       /* those that follow fail too */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
static int fails(void)
{
    if (countdown < 0)
        return 0;
    if (countdown > 0) {
        countdown--;
        return 0;
    }
    tripped = true;
    errno = ENOMEM;
    countdown = for_good ? 0 : -1;
    return 1;
}

void *malloc(size_t bytes)
{
    void *p = fails() ? NULL : __libc_malloc(bytes);
    live += p != NULL;
    return p;
}

void *calloc(size_t count, size_t bytes)
{
    void *p = fails() ? NULL : __libc_calloc(count, bytes);
    live += p != NULL;
    return p;
}

void *realloc(void *old, size_t bytes)
{
    void *p = fails() ? NULL : __libc_realloc(old, bytes);
    live += p != NULL && !old;
    return p;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    void *p = fails() ? NULL : __libc_memalign(alignment, bytes);
    live += p != NULL;
    return p;
}

void free(void *memory)
{
    live -= memory != NULL;
    __libc_free(memory);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* jansson 2.14 leaks, and calls it a syntax error, where some of its own allocations fail: give it
   this one. */
static void *never_fails(size_t bytes)
{
    void *p = __libc_malloc(bytes);
    live += p != NULL;
    return p;
}
#endif

#endif
