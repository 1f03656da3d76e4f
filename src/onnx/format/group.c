#include "onnx/format/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "core/rng.h"

bool cr_onnx_is_restored(const char *type) {
  static const char *const types[] = {
#define CR_ONNX_RESTORED(name) name,
#define CR_ONNX_PARTLY(name) name,
#include "onnx/format/restored.inc"
#undef CR_ONNX_PARTLY
#undef CR_ONNX_RESTORED
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (strcmp(types[i], type) == 0) return true;
  }
  return false;
}

/* Adds a hash of bytes (Fowler, Noll and Vo's). */
static crema_status add_bytes(cr_buffer *out, const void *bytes, size_t size) {
  const uint8_t *at = bytes;
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size; ++i) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
  return cr_buffer_print(out, ":%016" PRIx64, hash);
}

static crema_status add_attribute(cr_buffer *out, const Onnx__AttributeProto *a) {
  CR_TRY(cr_buffer_print(out, " %s:%d:%" PRId64 ":", a->name == NULL ? "" : a->name, (int)a->type,
                         a->i));
  CR_TRY(add_bytes(out, &a->f, sizeof a->f));
  CR_TRY(add_bytes(out, a->s.data, a->s.len));
  for (size_t i = 0; i < a->n_ints; ++i) CR_TRY(cr_buffer_print(out, ",%" PRId64, a->ints[i]));
  return add_bytes(out, a->floats, a->n_floats * sizeof *a->floats);
}

/* The initializers that a node reads and that no node before it reads. */
static crema_status add_constants(cr_buffer *out, const Onnx__NodeProto *node,
                                  const cr_name_map *constants, cr_name_map *done,
                                  Onnx__TensorProto *const *initializer) {
  for (size_t i = 0; i < node->n_input; ++i) {
    const int at = cr_name_map_get(constants, node->input[i]);
    if (at < 0 || cr_name_map_get(done, node->input[i]) >= 0) continue;
    CR_TRY(cr_name_map_set(done, node->input[i], 1));
    const Onnx__TensorProto *t = initializer[at];
    CR_TRY(cr_buffer_print(out, "[%d", (int)t->data_type));
    for (size_t d = 0; d < t->n_dims; ++d) CR_TRY(cr_buffer_print(out, ",%" PRId64, t->dims[d]));
    CR_TRY(cr_buffer_print(out, "]"));
    CR_TRY(add_bytes(out, t->raw_data.data, t->raw_data.len));
  }
  return CREMA_OK;
}

static crema_status add_node(cr_buffer *out, const Onnx__NodeProto *node) {
  CR_TRY(cr_buffer_print(out, "%s %s(", node->domain == NULL ? "" : node->domain,
                         node->op_type == NULL ? "" : node->op_type));
  for (size_t i = 0; i < node->n_input; ++i) CR_TRY(cr_buffer_print(out, "%s;", node->input[i]));
  for (size_t i = 0; i < node->n_output; ++i) CR_TRY(cr_buffer_print(out, ">%s", node->output[i]));
  for (size_t i = 0; i < node->n_attribute; ++i) CR_TRY(add_attribute(out, node->attribute[i]));
  return cr_buffer_print(out, ")");
}

crema_status cr_onnx_hash_nodes(Onnx__NodeProto *const *node, size_t count,
                                const cr_name_map *constants, Onnx__TensorProto *const *initializer,
                                char text[CR_ONNX_HASH_TEXT]) {
  cr_buffer all = {0};
  cr_name_map done = {0};
  crema_status status = CREMA_OK;
  for (size_t i = 0; i < count && status == CREMA_OK; ++i) {
    status = add_node(&all, node[i]);
    if (status == CREMA_OK) status = add_constants(&all, node[i], constants, &done, initializer);
  }
  cr_name_map_free(&done);
  if (status == CREMA_OK) {
    const uint64_t hash = cr_hash_text(all.data == NULL ? "" : all.data);
    snprintf(text, CR_ONNX_HASH_TEXT, "%016" PRIx64, hash);
  }
  cr_buffer_free(&all);
  return status;
}
