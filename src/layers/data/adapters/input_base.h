/* What layers share that produce samples. */
#ifndef CR_LAYERS_INPUT_BASE_H
#define CR_LAYERS_INPUT_BASE_H

#include "layers/common/input_class.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_share.h"

/* The members of classes whose layers bring samples into the net: no bottoms; setup, forward or the
 * caller shapes the tops. */
#define CR_LAYER_INPUT(type_name, state_bytes, least_tops, most_tops)            \
  .type = type_name, .state_size = state_bytes, .tops = {least_tops, most_tops}, \
  .reshape = cr_layer_noop, .backward = cr_layer_noop_backward

/* Whether a batch_size is usable; `message` is the name of the field that holds it. Errors:
 * CREMA_E_ARGUMENT. */
crema_status cr_layer_check_batch(const cr_layer *layer, const char *message,
                                  uint32_t batch_size) CREMA_MUST_USE;

/* A root_folder that is put before the names of a list: resolved like a file, with a slash at its
 * end; empty when `root` is empty or NULL. The caller frees the result. */
crema_status cr_layer_root_folder(const cr_layer *layer, const char *root,
                                  char **out) CREMA_MUST_USE;

/* The position of each solver that works on a layer's state in a stream of samples (or of batches:
 * then a step is one item). Zero-initialise, then cr_layer_cursor_open. */
typedef struct cr_layer_cursor {
  uint64_t start; /* samples before the first step that is counted here */
  uint64_t *step; /* steps after `start`, one per sharer */
  int sharers;
} cr_layer_cursor;

crema_status cr_layer_cursor_open(cr_layer_cursor *cursor, const cr_layer *layer) CREMA_MUST_USE;
/* Accepts a zeroed one. */
void cr_layer_cursor_close(cr_layer_cursor *cursor);
/* Every solver begins at sample `start` of the stream. */
void cr_layer_cursor_set(cr_layer_cursor *cursor, uint64_t start);
void cr_layer_cursor_advance(cr_layer_cursor *cursor, const cr_layer *layer);
/* The number of samples that all solvers have read after this solver's number of steps, with
 * `items` samples per step. It is the position for cr_layer_cursor_set to resume here. */
uint64_t cr_layer_cursor_end(const cr_layer_cursor *cursor, const cr_layer *layer, uint64_t items);

/* A position as text: "draws <key of the random stream> <unit> <number>.", and back. Errors:
 * CREMA_E_CORRUPT. */
crema_status cr_layer_cursor_print(uint64_t key, const char *unit, uint64_t end,
                                   cr_buffer *out) CREMA_MUST_USE;
crema_status cr_layer_cursor_parse(const char *bytes, size_t size, const char *unit, uint64_t *key,
                                   uint64_t *end) CREMA_MUST_USE;

#endif
