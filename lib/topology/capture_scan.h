/* From bytes to a JSON document whose size, depth and number of values are bounded. */
#ifndef RIG_CAPTURE_SCAN_H
#define RIG_CAPTURE_SCAN_H

#include "base/base.h"

#include <jansson.h>

/* A capture of 65536 functions, each with all its facts, has about 100 MiB. */
#define CAPTURE_MAX_BYTES ((size_t)256 << 20)
#define CAPTURE_MAX_DEPTH 16
#define CAPTURE_MAX_VALUES 8000000

/* capture_scan makes *out_root the JSON object in `bytes` bytes at data; json_decref it.

   RIG_BAD_INPUT  no JSON, or not an object, or too large, too deep, too many values; err says where
   RIG_FAILED     memory ran out */
enum rig_status capture_scan(const char *name, const char *data, size_t bytes, json_t **out_root,
                             struct rig_error *err);

/* capture_refuse_foreign says in *err what the JSON of some other program is, and what to run
   instead. */
void capture_refuse_foreign(const char *name, json_t *root, struct rig_error *err);

/* read_capture_object is read_capture of a document that was parsed; the root stays the
   caller's. */
enum rig_status read_capture_object(const char *name, json_t *root, struct rig_topology **out,
                                    struct rig_error *err);

#endif
