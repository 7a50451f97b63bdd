/* A pool of text that only grows. A copy of a topology gets a pool of its own behind which the
   original's stays alive, so that text need not be copied and two threads never write one pool. */
#ifndef RIG_STRINGS_H
#define RIG_STRINGS_H

#include <stddef.h>

struct string_pool;

/* string_pool_new makes an empty pool that keeps `behind` (or NULL) alive; NULL when memory ran
 * out. */
struct string_pool *string_pool_new(struct string_pool *behind);

/* string_pool_drop lets go of the pool; NULL is allowed. */
void string_pool_drop(struct string_pool *pool);

/* string_pool_add keeps a copy of text up to `bytes` bytes or its first NUL, or returns an equal
   one that this pool holds. NULL when memory ran out. */
const char *string_pool_add(struct string_pool *pool, const char *text, size_t bytes);

#endif
