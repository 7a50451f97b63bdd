#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The range of the byte after the first, and how many follow it; 0 for no first byte of several. */
static int sequence(unsigned char first, unsigned char *out_low, unsigned char *out_high)
{
    *out_low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *out_high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first >= 0xc2 && first <= 0xdf)
        return 1;
    if (first >= 0xe0 && first <= 0xef)
        return 2;
    return first >= 0xf0 && first <= 0xf4 ? 3 : 0;
}

bool json_is_utf8(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        unsigned char low, high;
        if (*s < 0x80) {
            s++;
            continue;
        }
        int more = sequence(*s++, &low, &high);
        if (more == 0)
            return false;
        for (; more > 0; more--, s++, low = 0x80, high = 0xbf)
            if (*s < low || *s > high)
                return false;
    }
    return true;
}

json_t *json_hex(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "0x%" PRIx64, value);
    return json_string(text);
}

bool json_hex_value(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    if (!text || strncmp(text, "0x", 2) != 0)
        return false;
    size_t digits = strspn(text + 2, "0123456789abcdef");
    if (digits < 1 || digits > 16 || text[2 + digits] != '\0')
        return false;
    *out = strtoull(text + 2, NULL, 16);
    return true;
}

bool json_get_hex(const json_t *object, const char *key, uint64_t *out)
{
    return json_hex_value(json_object_get(object, key), out);
}

bool json_get_count(const json_t *object, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

bool json_get_bool(const json_t *object, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value))
        return false;
    *out = json_is_true(value);
    return true;
}

bool json_get_text(const json_t *object, const char *key, const char **out)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text)
        return false;
    *out = text;
    return true;
}

bool json_get_list(const json_t *object, const char *key, const json_t **out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_array(value))
        return false;
    *out = value;
    return true;
}

bool json_get_bdf(const json_t *object, const char *key, struct rig_bdf *out)
{
    const char *text;
    return json_get_text(object, key, &text) && rig_bdf_parse(text, out);
}

json_t *json_ranges(const struct rig_bus_range *ranges, int count)
{
    json_t *all = json_array();
    bool whole = all != NULL;
    for (int i = 0; i < count && whole; i++) {
        json_t *one = json_array();
        whole = one && json_array_append_new(one, json_hex(ranges[i].address)) == 0 &&
                json_array_append_new(one, json_integer((json_int_t)ranges[i].bytes)) == 0;
        whole = json_array_append_new(all, one) == 0 && whole;
    }
    if (!whole) {
        json_decref(all);
        return NULL;
    }
    return all;
}

enum rig_status json_get_ranges(const json_t *object, const char *key, int most,
                                struct rig_bus_range **out_ranges, int *out_count)
{
    const json_t *all = json_object_get(object, key);
    size_t count = json_array_size(all);
    if (count < 1 || count > (size_t)most)
        return RIG_BAD_INPUT;
    struct rig_bus_range *ranges = calloc(count, sizeof *ranges);
    if (!ranges)
        return RIG_FAILED;
    bool whole = true;
    for (size_t i = 0; i < count && whole; i++) {
        const json_t *one = json_array_get(all, i);
        const json_t *bytes = json_array_get(one, 1);
        uint64_t end;
        whole = json_array_size(one) == 2 &&
                json_hex_value(json_array_get(one, 0), &ranges[i].address) &&
                json_is_integer(bytes) && json_integer_value(bytes) > 0;
        if (!whole)
            break;
        ranges[i].bytes = (uint64_t)json_integer_value(bytes);
        whole = rig_add(ranges[i].address, ranges[i].bytes, &end);
    }
    if (!whole) {
        free(ranges);
        return RIG_BAD_INPUT;
    }
    *out_ranges = ranges;
    *out_count = (int)count;
    return RIG_OK;
}
