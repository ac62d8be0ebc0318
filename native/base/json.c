/* json.c: see json.h. */
#include "json.h"

#include <inttypes.h>
#include <math.h>

/* Bytes from 0x80 on are passed: text is UTF-8. */
static void quote(FILE *out, const char *text) {
  fputc('"', out);
  for (; *text != '\0'; text++) {
    unsigned char byte = (unsigned char)*text;
    if (byte == '"' || byte == '\\')
      fprintf(out, "\\%c", byte);
    else if (byte < 0x20)
      fprintf(out, "\\u%04x", byte);
    else
      fputc(byte, out);
  }
  fputc('"', out);
}

static void json_begin(struct mr_json *json, const char *name) {
  if (json->comma)
    fputs(name != NULL ? ", " : ",\n", json->out);
  json->comma = true;
  if (name != NULL) {
    quote(json->out, name);
    fputs(": ", json->out);
  }
}

void mr_json_object(struct mr_json *json, const char *name) {
  json_begin(json, name);
  fputc('{', json->out);
  json->comma = false;
}

void mr_json_end_object(struct mr_json *json) {
  fputc('}', json->out);
  json->comma = true;
}

void mr_json_array(struct mr_json *json, const char *name) {
  json_begin(json, name);
  fputs("[\n", json->out);
  json->comma = false;
}

void mr_json_end_array(struct mr_json *json) {
  fputs("\n]", json->out);
  json->comma = true;
}

void mr_json_text(struct mr_json *json, const char *name, const char *text) {
  json_begin(json, name);
  quote(json->out, text);
}

void mr_json_bool(struct mr_json *json, const char *name, bool value) {
  json_begin(json, name);
  fputs(value ? "true" : "false", json->out);
}

void mr_json_whole(struct mr_json *json, const char *name, uint64_t value) {
  json_begin(json, name);
  fprintf(json->out, "%" PRIu64, value);
}

void mr_json_real(struct mr_json *json, const char *name, double value, int decimals) {
  json_begin(json, name);
  if (isfinite(value))
    fprintf(json->out, "%.*f", decimals, value);
  else
    fputs("null", json->out);
}
