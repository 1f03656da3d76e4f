#include "layers/data/adapters/input_base.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"

crema_status cr_layer_check_batch(const cr_layer *layer, const char *message, uint32_t batch_size) {
  if (batch_size >= 1 && batch_size <= INT32_MAX) return CREMA_OK;
  if (batch_size == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "%s: batch_size is required, as in batch_size: 64", message);
  }
  return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s: batch_size must be 1 to %d, found %" PRIu32,
                       message, INT32_MAX, batch_size);
}

crema_status cr_layer_root_folder(const cr_layer *layer, const char *root, char **out) {
  char *found = NULL;
  cr_buffer text = {0};
  if (root == NULL || root[0] == '\0') {
    CR_TRY(cr_buffer_print(&text, "%s", ""));
    *out = cr_buffer_take(&text);
    return CREMA_OK;
  }
  CR_TRY(cr_file_resolve(layer->source_dir_file, root, &found));
  const char *slash = found[strlen(found) - 1] == '/' ? "" : "/";
  crema_status status = cr_buffer_print(&text, "%s%s", found, slash);
  *out = cr_buffer_take(&text);
  free(found);
  return status;
}

crema_status cr_layer_cursor_open(cr_layer_cursor *cursor, const cr_layer *layer) {
  *cursor = (cr_layer_cursor){.sharers = cr_layer_sharers(layer)};
  return CR_NEW(cursor->step, cursor->sharers, "positions in the data");
}

void cr_layer_cursor_close(cr_layer_cursor *cursor) {
  free(cursor->step);
  *cursor = (cr_layer_cursor){0};
}

void cr_layer_cursor_set(cr_layer_cursor *cursor, uint64_t start) {
  cursor->start = start;
  memset(cursor->step, 0, (size_t)cursor->sharers * sizeof *cursor->step);
}

void cr_layer_cursor_advance(cr_layer_cursor *cursor, const cr_layer *layer) {
  ++cursor->step[cr_layer_sharer(layer)];
}

uint64_t cr_layer_cursor_end(const cr_layer_cursor *cursor, const cr_layer *layer, uint64_t items) {
  uint64_t step = cursor->step[cr_layer_sharer(layer)];
  return cursor->start + step * (uint64_t)layer->solver.solvers * items;
}

crema_status cr_layer_cursor_print(uint64_t key, const char *unit, uint64_t end, cr_buffer *out) {
  return cr_buffer_print(out, "draws %" PRIx64 " %s %" PRIu64 ".", key, unit, end);
}

crema_status cr_layer_cursor_parse(const char *bytes, size_t size, const char *unit, uint64_t *key,
                                   uint64_t *end) {
  char text[96] = "", found[16] = "";
  int used = 0;
  if (size < sizeof text) snprintf(text, sizeof text, "%.*s", (int)size, bytes);
  int fields = sscanf(text, "draws %" SCNx64 " %15s %" SCNu64 ".%n", key, found, end, &used);
  if (fields == 3 && used > 0 && (size_t)used == size && strcmp(found, unit) == 0) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "the saved position in the data cannot be read");
}
