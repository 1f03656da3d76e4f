#include "onnx/format/model_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "proto/wire_format.h"

/* Values of this size stay in the file's bytes. */
enum { RUN = 256 };
/* The memory for messages: TIMES the size of the file, and SMALL bytes for small files. */
enum { TIMES = 10, SMALL = 1 << 16 };

static cr_wire_input input_of(cr_onnx_model *model) {
  cr_wire_input input = {.bytes = model->bytes,
                         .size = model->size,
                         .run = RUN,
                         .run_type = &onnx__tensor_proto__descriptor,
                         .budget = TIMES * model->size + SMALL};
  if (model->pages.bytes == NULL) return input;
  input.load = cr_paged_file_load;
  input.user = &model->pages;
  return input;
}

bool cr_onnx_is_path(const char *path) {
  static const char end[] = ".onnx";
  const size_t length = strlen(path), size = sizeof end - 1;
  return length >= size && strcmp(path + length - size, end) == 0;
}

crema_status cr_onnx_model_open(const char *path, cr_onnx_model *out) {
  ProtobufCMessage *message = NULL;
  *out = (cr_onnx_model){0};
  CR_TRY(cr_paged_file_open(path, CR_STORED_RUN, &out->pages));
  out->bytes = out->pages.bytes;
  out->size = out->pages.size;
  if (out->bytes == NULL) {
    CR_TRY(cr_file_read_up_to(path, CR_FILE_MODEL, &out->whole));
    out->bytes = (uint8_t *)out->whole.data;
    out->size = out->whole.size;
  }
  out->path = strdup(path);
  if (out->path == NULL) return cr_fail_memory(strlen(path) + 1, "a path");
  const cr_wire_input input = input_of(out);
  CR_TRY(cr_message_parse(&onnx__model_proto__descriptor, path, &input, &message));
  out->proto = (Onnx__ModelProto *)message;
  if (out->proto->graph != NULL) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "%s: the model has no graph", path);
}

void cr_onnx_model_close(cr_onnx_model *model) {
  const cr_wire_input input = input_of(model);
  cr_wire_free(&input, model->proto == NULL ? NULL : &model->proto->base);
  cr_paged_file_close(&model->pages);
  cr_buffer_free(&model->whole);
  free(model->path);
  *model = (cr_onnx_model){0};
}

crema_status cr_onnx_model_load(cr_onnx_model *model, const void *values, size_t size) {
  if (!cr_onnx_model_is_in_file(model, values)) return CREMA_OK;
  const size_t at = (size_t)((const uint8_t *)values - model->bytes);
  const size_t left = model->size - at;
  return cr_paged_file_load(&model->pages, at, at + (size < left ? size : left));
}

bool cr_onnx_model_is_in_file(const cr_onnx_model *model, const void *values) {
  const uintptr_t at = (uintptr_t)values, start = (uintptr_t)model->pages.bytes;
  return start != 0 && at >= start && at < start + model->pages.size;
}

crema_status cr_onnx_model_copy(const cr_onnx_model *model, const void *values, size_t size,
                                void *out) {
  return cr_piece_file_read(model->pages.file, (uint64_t)((const uint8_t *)values - model->bytes),
                            out, size);
}

int64_t cr_onnx_model_opset(const Onnx__ModelProto *proto) {
  for (size_t i = 0; i < proto->n_opset_import; ++i) {
    const char *domain = proto->opset_import[i]->domain;
    const bool standard = domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
    if (standard) return proto->opset_import[i]->version;
  }
  return 0;
}

const char *cr_onnx_type_name(int32_t type, char text[CR_ONNX_TYPE_TEXT]) {
  static const char *const names[] = {
      [CR_ONNX_FLOAT] = "FLOAT",     [CR_ONNX_UINT8] = "UINT8",      [CR_ONNX_INT8] = "INT8",
      [CR_ONNX_UINT16] = "UINT16",   [CR_ONNX_INT16] = "INT16",      [CR_ONNX_INT32] = "INT32",
      [CR_ONNX_INT64] = "INT64",     [CR_ONNX_STRING] = "STRING",    [CR_ONNX_BOOL] = "BOOL",
      [CR_ONNX_FLOAT16] = "FLOAT16", [CR_ONNX_DOUBLE] = "DOUBLE",    [CR_ONNX_UINT32] = "UINT32",
      [CR_ONNX_UINT64] = "UINT64",   [CR_ONNX_BFLOAT16] = "BFLOAT16"};
  const size_t count = sizeof names / sizeof *names;
  if (type > 0 && (size_t)type < count && names[type] != NULL) return names[type];
  snprintf(text, CR_ONNX_TYPE_TEXT, "type %d", (int)type);
  return text;
}
