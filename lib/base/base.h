/* Shared by all rooms of the library: outcomes, checked arithmetic, growing arrays of text. Not
 * public. */
#ifndef RIG_BASE_H
#define RIG_BASE_H

#include "rigmem.h"

#include <stdarg.h>

#define RIG_ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* rig_fail fills *err, unless it is NULL or already holds an error, with status, the thing and a
   printf-formatted reason, and returns status. `what` may be NULL. */
enum rig_status rig_fail(struct rig_error *err, enum rig_status status, const char *what,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/* rig_fail_at is rig_fail for bad input, with FILE:LINE:COLUMN; column 0 leaves the column out,
   line 0 both. Its status is RIG_BAD_INPUT. */
enum rig_status rig_fail_at(struct rig_error *err, const char *file, size_t line, size_t column,
                            const char *format, ...) __attribute__((format(printf, 5, 6)));

/* rig_hint adds the hint to an error that has none yet. NULL err is allowed. */
void rig_hint(struct rig_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* rig_fail_memory is RIG_FAILED: out of memory. */
enum rig_status rig_fail_memory(struct rig_error *err);

/* rig_is_memory is true iff err is what rig_fail_memory makes. */
bool rig_is_memory(const struct rig_error *err);

/* clang's analyzer sees one file at a time: this tells it what the three above return. */
#if defined(__clang_analyzer__) && !defined(RIG_DEFINES_FAIL)
#define rig_fail(err, status, ...) ((void)(rig_fail)((err), (status), __VA_ARGS__), (status))
#define rig_fail_at(...) ((void)(rig_fail_at)(__VA_ARGS__), RIG_BAD_INPUT)
#define rig_fail_memory(err) ((void)(rig_fail_memory)(err), RIG_FAILED)
#endif

/* Checked arithmetic: true, and *out holds the result, iff it fits in 64 bits. */
static inline bool rig_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool rig_multiply(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* rig_round_up makes *out the least multiple of `unit` (a power of two) that is not below a; false
 * where that does not fit. */
static inline bool rig_round_up(uint64_t a, uint64_t unit, uint64_t *out)
{
    uint64_t sum;
    if (!rig_add(a, unit - 1, &sum))
        return false;
    *out = sum & ~(unit - 1);
    return true;
}

static inline bool rig_power_of_two(uint64_t a)
{
    return a != 0 && (a & (a - 1)) == 0;
}

#endif
