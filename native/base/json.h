/* json.h: writes JSON to a stream, a value at a time (internal).
 *
 * The writer puts commas, quotes and escapes where they belong; the caller opens and closes
 * objects and arrays. A name is needed in an object and NULL in an array. Whether all was written
 * is the stream's to say (ferror), as with printf.
 *
 * Thread-safety: a writer belongs to one thread.
 */
#ifndef MARU_JSON_H
#define MARU_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct mr_json {
  FILE *out;
  bool comma; /* a value precedes in what is open */
};

void mr_json_object(struct mr_json *json, const char *name);
void mr_json_end_object(struct mr_json *json);
/* Each element begins a line. */
void mr_json_array(struct mr_json *json, const char *name);
void mr_json_end_array(struct mr_json *json);

void mr_json_text(struct mr_json *json, const char *name, const char *text);
void mr_json_bool(struct mr_json *json, const char *name, bool value);
void mr_json_whole(struct mr_json *json, const char *name, uint64_t value);
/* With so many decimals; null where the value is not finite, which JSON cannot say. */
void mr_json_real(struct mr_json *json, const char *name, double value, int decimals);

#endif
