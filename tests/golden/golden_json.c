#include "golden_json.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"

enum { DEPTH_MAX = 32 };

static bool read_value(const char **at, int depth, golden_json *out);

static void skip_space(const char **at) {
  *at += strspn(*at, " \t\r\n");
}

static bool accept(const char **at, char c) {
  skip_space(at);
  if (**at != c) return false;
  *at += 1;
  return true;
}

/* The golden files hold no escapes; one is an error. */
static bool read_text(const char **at, char **out) {
  if (!accept(at, '"')) return false;
  size_t length = strcspn(*at, "\"\\");
  if ((*at)[length] != '"') return false;
  *out = strndup(*at, length);
  *at += length + 1;
  return *out != NULL;
}

static bool add_item(golden_json *out, golden_json **added) {
  golden_json *item = realloc(out->item, (out->count + 1) * sizeof *item);
  if (item == NULL) return false;
  out->item = item;
  char **key = realloc(out->key, (out->count + 1) * sizeof *key);
  if (key == NULL) return false;
  out->key = key;
  out->item[out->count] = (golden_json){0};
  out->key[out->count] = NULL;
  *added = &out->item[out->count++];
  return true;
}

static bool read_entries(const char **at, int depth, golden_json *out) {
  bool map = out->type == GOLDEN_JSON_MAP;
  char close = map ? '}' : ']';
  if (accept(at, close)) return true;
  do {
    golden_json *item = NULL;
    if (!add_item(out, &item)) return false;
    if (map && (!read_text(at, &out->key[out->count - 1]) || !accept(at, ':'))) return false;
    if (!read_value(at, depth + 1, item)) return false;
  } while (accept(at, ','));
  return accept(at, close);
}

static bool read_word(const char **at, const char *word) {
  size_t length = strlen(word);
  if (strncmp(*at, word, length) != 0) return false;
  *at += length;
  return true;
}

static bool read_value(const char **at, int depth, golden_json *out) {
  if (depth > DEPTH_MAX) return false;
  skip_space(at);
  if (**at == '{' || **at == '[') {
    out->type = **at == '{' ? GOLDEN_JSON_MAP : GOLDEN_JSON_LIST;
    *at += 1;
    return read_entries(at, depth, out);
  }
  if (**at == '"') {
    out->type = GOLDEN_JSON_TEXT;
    return read_text(at, &out->text);
  }
  if (read_word(at, "null")) return true;
  out->type = GOLDEN_JSON_BOOL;
  if (read_word(at, "false")) return true;
  out->number = 1.0;
  if (read_word(at, "true")) return true;
  out->type = GOLDEN_JSON_NUMBER;
  char *end = NULL;
  out->number = strtod(*at, &end);
  if (end == *at) return false;
  *at = end;
  return true;
}

bool golden_json_read(const char *path, golden_json *out) {
  cr_buffer text = {0};
  *out = (golden_json){0};
  if (cr_file_read(path, &text) != CREMA_OK) return false;
  const char *at = text.data;
  bool ok = read_value(&at, 0, out);
  if (ok) skip_space(&at);
  ok = ok && *at == '\0';
  cr_buffer_free(&text);
  if (!ok) golden_json_free(out);
  return ok;
}

void golden_json_free(golden_json *json) {
  for (size_t i = 0; i < json->count; ++i) {
    golden_json_free(&json->item[i]);
    free(json->key[i]);
  }
  free(json->item);
  free(json->key);
  free(json->text);
  *json = (golden_json){0};
}

const golden_json *golden_json_get(const golden_json *map, const char *key) {
  static const golden_json none = {0};
  for (size_t i = 0; i < map->count; ++i) {
    if (map->key[i] != NULL && strcmp(map->key[i], key) == 0) return &map->item[i];
  }
  return &none;
}
