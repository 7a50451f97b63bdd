#include "reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum rig_status reading_of(const char *name, const char *text, size_t bytes,
                           struct rig_topology **out, struct rig_error *err)
{
    *out = NULL;
    rig_error_clear(err);
    char *data = malloc(bytes ? bytes : 1);
    assert_non_null(data);
    memcpy(data, text, bytes);
    enum rig_status status = read_lspci(name, data, bytes, out, err);
    free(data);
    return status;
}

struct rig_topology *reading_accepted(const char *name, const char *text)
{
    struct rig_topology *t;
    struct rig_error err;
    if (reading_of(name, text, strlen(text), &t, &err) != RIG_OK)
        fail_msg("%s: %s: %s", text, err.where, err.why);
    return t;
}

void reading_refused(const char *name, const char *text, const char *part)
{
    struct rig_topology *t;
    struct rig_error err;
    assert_int_equal(reading_of(name, text, strlen(text), &t, &err), RIG_BAD_INPUT);
    assert_null(t);
    char all[1200];
    snprintf(all, sizeof all, "%s: %s", err.where, err.why);
    if (!strstr(all, part))
        fail_msg("\"%s\" is not in \"%s\"", part, all);
}

const struct rig_function *function_named(const struct rig_topology *t, const char *name)
{
    int i = rig_topology_find(t, name);
    if (i < 0)
        fail_msg("no function %s", name);
    return rig_topology_function(t, i);
}

void expect_fact(const char *what, struct rig_fact f, uint64_t value)
{
    bool right = value == FACT_UNKNOWN  ? f.know == RIG_FACT_UNKNOWN
                 : value == FACT_ABSENT ? f.know == RIG_FACT_ABSENT
                                        : rig_fact_has(f) && f.value == value;
    if (!right)
        fail_msg("%s: know %d, value %#llx", what, (int)f.know, (unsigned long long)f.value);
}
