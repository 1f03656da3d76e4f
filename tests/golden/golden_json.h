/* A reader for the JSON files of the golden set. */
#ifndef CR_TESTS_GOLDEN_JSON_H
#define CR_TESTS_GOLDEN_JSON_H

#include <stdbool.h>
#include <stddef.h>

typedef enum golden_json_type {
  GOLDEN_JSON_NULL,
  GOLDEN_JSON_BOOL,
  GOLDEN_JSON_NUMBER,
  GOLDEN_JSON_TEXT,
  GOLDEN_JSON_LIST,
  GOLDEN_JSON_MAP
} golden_json_type;

typedef struct golden_json {
  golden_json_type type;
  double number; /* also a bool's 0 or 1 */
  char *text;
  size_t count; /* entries of a list or map */
  struct golden_json *item;
  char **key; /* of a map, one per item */
} golden_json;

/* Reads the whole file; false when it is not there or not JSON. Free with golden_json_free. */
bool golden_json_read(const char *path, golden_json *out);
void golden_json_free(golden_json *json);

/* The entry of a map; an empty value when there is none. */
const golden_json *golden_json_get(const golden_json *map, const char *key);

#endif
