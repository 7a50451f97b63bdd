/* What state documents are made of, over jansson: addresses as hex strings, sizes and counts as
   integers. Getters are false, leaving *out alone, where the key is missing or holds anything else.
   Not public. */
#ifndef RIG_JSON_H
#define RIG_JSON_H

#include "base/base.h"

#include <jansson.h>

/* json_is_utf8 is true iff the text is UTF-8 (RFC 3629), as JSON's strings are. */
bool json_is_utf8(const char *text);

/* json_hex is a new string "0x..." of the value; NULL when memory ran out. */
json_t *json_hex(uint64_t value);

/* json_hex_value reads one: 0x and 1 to 16 lower-case hex digits, no more. */
bool json_hex_value(const json_t *value, uint64_t *out);

bool json_get_hex(const json_t *object, const char *key, uint64_t *out);

/* json_get_count: an integer that is not negative. */
bool json_get_count(const json_t *object, const char *key, uint64_t *out);

bool json_get_bool(const json_t *object, const char *key, bool *out);

/* json_get_text makes *out the text, owned by the document. */
bool json_get_text(const json_t *object, const char *key, const char **out);

/* json_get_list makes *out the array, which may be empty. */
bool json_get_list(const json_t *object, const char *key, const json_t **out);

/* json_get_bdf: a function's full name. */
bool json_get_bdf(const json_t *object, const char *key, struct rig_bdf *out);

/* json_ranges is a new array [["0x...", bytes], ...]; NULL when memory ran out. json_get_ranges
   makes *out_ranges, which the caller frees, what such an array holds, 1 to `most` ranges.
   RIG_BAD_INPUT: it holds none such. RIG_FAILED: memory ran out. */
json_t *json_ranges(const struct rig_bus_range *ranges, int count);
enum rig_status json_get_ranges(const json_t *object, const char *key, int most,
                                struct rig_bus_range **out_ranges, int *out_count);

/* json_text is the value as compact JSON, NUL-terminated, to be freed, its members in the order
   they were set in; NULL when memory ran out. */
char *json_text(const json_t *value, size_t *out_bytes);

/* json_whole is json_loadb with duplicate keys refused, but that its error is
   json_error_out_of_memory wherever memory ran out. json_ran_out is true iff an error is that. */
json_t *json_whole(const char *text, size_t bytes, json_error_t *out_error);
bool json_ran_out(const json_error_t *error);

/* json_plain is how many of `most` bytes come before one that does not stand for itself in a string
   of JSON, or is not ASCII. */
size_t json_plain(const char *text, size_t most);

#endif
