#include "base/base.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *text;
    unsigned shift;
} suffixes[] = {
    {"", 0},     {"B", 0},  {"K", 10},   {"KiB", 10}, {"M", 20},
    {"MiB", 20}, {"G", 30}, {"GiB", 30}, {"T", 40},   {"TiB", 40},
};

static int digit_of(char c, unsigned base)
{
    int d = -1;
    if (c >= '0' && c <= '9')
        d = c - '0';
    else if (c >= 'a' && c <= 'f')
        d = c - 'a' + 10;
    else if (c >= 'A' && c <= 'F')
        d = c - 'A' + 10;
    return d >= 0 && (unsigned)d < base ? d : -1;
}

static enum rig_status invalid(struct rig_error *err, const char *text, const char *why)
{
    return rig_fail(err, RIG_INVALID, text, "%s", why);
}

/* Reads digits from *text and moves it past them; false and a reason when they are no number. */
static const char *read_digits(const char **text, unsigned base, uint64_t *out)
{
    uint64_t value = 0;
    const char *p = *text;
    if (digit_of(*p, base) < 0)
        return "not a size";
    for (;; p++) {
        if (*p == '_' && digit_of(p[1], base) >= 0)
            continue;
        int d = digit_of(*p, base);
        if (d < 0)
            break;
        if (!rig_multiply(value, base, &value) || !rig_add(value, (uint64_t)d, &value))
            return "does not fit in 64 bits";
    }
    *text = p;
    *out = value;
    return NULL;
}

enum rig_status rig_size_parse(const char *text, uint64_t *out_bytes, struct rig_error *err)
{
    const char *p = text;
    bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    uint64_t value;
    if (hex)
        p += 2;
    const char *why = read_digits(&p, hex ? 16 : 10, &value);
    if (why)
        return invalid(err, text, why);
    /* In hex a final B is a digit, so it takes a suffix that is none. */
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(suffixes); i++) {
        if (strcmp(p, suffixes[i].text) != 0)
            continue;
        if (suffixes[i].shift && value >> (64 - suffixes[i].shift))
            return invalid(err, text, "does not fit in 64 bits");
        *out_bytes = value << suffixes[i].shift;
        return RIG_OK;
    }
    invalid(err, text, *p == '.' ? "fractions are not sizes" : "not a size");
    if (p[1] == 'B' && !p[2] && strchr("kKMGT", p[0]))
        rig_hint(err, "write %ciB: sizes here are binary", p[0] == 'k' ? 'K' : p[0]);
    else
        rig_hint(err, "digits and one of B K KiB M MiB G GiB T TiB");
    return RIG_INVALID;
}

char *rig_size_format(uint64_t bytes, char text[RIG_SIZE_MAX])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    while (u + 1 < RIG_ARRAY_LENGTH(unit) && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        u++;
    }
    snprintf(text, RIG_SIZE_MAX, "%" PRIu64 " %s", bytes, unit[u]);
    return text;
}
