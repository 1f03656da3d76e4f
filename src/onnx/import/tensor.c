/* The numbers of a tensor in the file. */
#include <string.h>

#include "core/fail.h"
#include "device/backend/half.h"
#include "onnx/import/external.h"

static crema_status read_dims(const cr_import *import, const Onnx__TensorProto *tensor,
                              crema_shape *out) {
  const char *name = tensor->name == NULL ? "" : tensor->name;
  if (tensor->n_dims > CREMA_MAX_AXES) {
    return cr_fail(CREMA_E_SHAPE, "%s: tensor '%s' has %zu axes", import->model->path, name,
                   tensor->n_dims);
  }
  out->axes = (int)tensor->n_dims;
  for (int i = 0; i < out->axes; ++i) out->dim[i] = tensor->dims[i];
  return cr_fail_in(crema_shape_check(out), "%s: tensor '%s'", import->model->path, name);
}

static crema_status fail_size(const cr_import *import, const Onnx__TensorProto *tensor,
                              int64_t count) {
  char text[CR_ONNX_TYPE_TEXT];
  return cr_fail(CREMA_E_CORRUPT, "%s: tensor '%s' does not hold %lld values of type %s",
                 import->model->path, tensor->name == NULL ? "" : tensor->name, (long long)count,
                 cr_onnx_type_name(tensor->data_type, text));
}

/* The size of a value in raw_data; 0: the type has no constants. */
static size_t width_of(int32_t type) {
  switch (type) {
    case CR_ONNX_UINT8:
    case CR_ONNX_INT8:
    case CR_ONNX_BOOL: return 1;
    case CR_ONNX_UINT16:
    case CR_ONNX_INT16:
    case CR_ONNX_FLOAT16:
    case CR_ONNX_BFLOAT16: return 2;
    case CR_ONNX_FLOAT:
    case CR_ONNX_INT32:
    case CR_ONNX_UINT32: return 4;
    case CR_ONNX_INT64:
    case CR_ONNX_UINT64:
    case CR_ONNX_DOUBLE: return 8;
    default: return 0;
  }
}

static float float_at(int32_t type, const uint8_t *at) {
  uint16_t half;
  float single;
  double wide;
  switch (type) {
    case CR_ONNX_FLOAT16: memcpy(&half, at, 2); return cr_f16_to_f32(half);
    case CR_ONNX_BFLOAT16: memcpy(&half, at, 2); return cr_bf16_to_f32(half);
    case CR_ONNX_DOUBLE: memcpy(&wide, at, 8); return (float)wide;
    default: memcpy(&single, at, 4); return single;
  }
}

static int64_t int_at(int32_t type, const uint8_t *at) {
  uint64_t bits = 0;
  memcpy(&bits, at, width_of(type));
  switch (type) {
    case CR_ONNX_INT8: return (int8_t)bits;
    case CR_ONNX_INT16: return (int16_t)bits;
    case CR_ONNX_INT32: return (int32_t)bits;
    default: return (int64_t)bits;
  }
}

/* The values of the typed fields: *count of them, read by `typed_value`. */
static size_t typed_count(const Onnx__TensorProto *tensor) {
  switch (tensor->data_type) {
    case CR_ONNX_FLOAT: return tensor->n_float_data;
    case CR_ONNX_DOUBLE: return tensor->n_double_data;
    case CR_ONNX_INT64: return tensor->n_int64_data;
    case CR_ONNX_UINT32:
    case CR_ONNX_UINT64: return tensor->n_uint64_data;
    default: return tensor->n_int32_data;
  }
}

/* Value `i` of a typed field that may not be aligned. */
static const uint8_t *typed_at(const Onnx__TensorProto *tensor, size_t i) {
  switch (tensor->data_type) {
    case CR_ONNX_FLOAT: return (const uint8_t *)tensor->float_data + i * 4;
    case CR_ONNX_DOUBLE: return (const uint8_t *)tensor->double_data + i * 8;
    case CR_ONNX_INT64: return (const uint8_t *)tensor->int64_data + i * 8;
    case CR_ONNX_UINT32:
    case CR_ONNX_UINT64: return (const uint8_t *)tensor->uint64_data + i * 8;
    default: return (const uint8_t *)tensor->int32_data + i * 4;
  }
}

/* Where the values are: in raw_data, or in the field of their type. */
typedef struct number_source {
  const Onnx__TensorProto *tensor;
  const uint8_t *raw; /* NULL: the typed field */
  size_t width;
} number_source;

static const uint8_t *number_at(const number_source *source, size_t i) {
  return source->raw != NULL ? source->raw + i * source->width : typed_at(source->tensor, i);
}

/* Lets the numbers of a large tensor of floats stay in the file until they are needed. Their place
 * in its bytes may be odd. Floats then start up to three bytes earlier, over the length of their
 * field. */
static bool keep_floats(const cr_import *import, const Onnx__TensorProto *tensor,
                        cr_import_value *out) {
  uint8_t *values = tensor->has_raw_data ? tensor->raw_data.data : (uint8_t *)tensor->float_data;
  const uintptr_t at = (uintptr_t)values, start = (uintptr_t)import->model->bytes;
  if (at < start + sizeof(float) || at >= start + import->model->size) return false;
  out->floats = (const float *)(const void *)(values - at % sizeof(float));
  out->unread = values;
  return true;
}

crema_status cr_import_load(cr_import *import, cr_import_value *value) {
  if (value->unread == NULL) return CREMA_OK;
  const size_t size = (size_t)cr_import_count(value) * sizeof *value->floats;
  CR_TRY(cr_onnx_model_load(import->model, value->unread, size));
  memmove((void *)(uintptr_t)value->floats, value->unread, size);
  value->unread = NULL;
  return CREMA_OK;
}

static crema_status find_values(cr_import *import, const Onnx__TensorProto *tensor, size_t count,
                                number_source *source) {
  void *bytes;
  if (tensor->data_location == 1) {
    CR_TRY(cr_import_read_external(import, tensor, count * source->width, &bytes));
    source->raw = bytes;
    return CREMA_OK;
  }
  if (tensor->has_raw_data) {
    source->raw = tensor->raw_data.data;
    if (tensor->raw_data.len / source->width != count ||
        tensor->raw_data.len % source->width != 0) {
      return fail_size(import, tensor, (int64_t)count);
    }
    return CREMA_OK;
  }
  return typed_count(tensor) == count ? CREMA_OK : fail_size(import, tensor, (int64_t)count);
}

/* Reads the values, if they are in pages of the file that are not in memory. */
static crema_status load_values(cr_import *import, const number_source *source, size_t count) {
  if (count == 0 || source->tensor->data_location == 1) return CREMA_OK;
  const uint8_t *first = number_at(source, 0), *last = number_at(source, count - 1);
  return cr_onnx_model_load(import->model, first, (size_t)(last - first) + sizeof(int64_t));
}

static crema_status read_floats(cr_import *import, const number_source *source,
                                const crema_shape *shape, cr_import_value *out) {
  const Onnx__TensorProto *tensor = source->tensor;
  const size_t count = (size_t)crema_shape_count(shape, 0, shape->axes);
  const bool plain = tensor->data_type == CR_ONNX_FLOAT && count > 0;
  const bool external = tensor->data_location == 1;
  if (plain && (external || keep_floats(import, tensor, out))) {
    if (external) out->floats = (const float *)(const void *)source->raw;
    return cr_import_set_shape(import, out, shape);
  }
  float *floats;
  CR_TRY(load_values(import, source, count));
  CR_TRY(cr_import_make_floats(import, out, shape, &floats));
  if (plain) memcpy(floats, number_at(source, 0), count * sizeof *floats);
  for (size_t i = 0; i < count && !plain; ++i) {
    floats[i] = float_at(tensor->data_type, number_at(source, i));
  }
  return CREMA_OK;
}

crema_status cr_import_tensor(cr_import *import, const Onnx__TensorProto *tensor,
                              cr_import_value *out) {
  const int32_t type = tensor->data_type;
  crema_shape shape;
  number_source source = {.tensor = tensor, .width = width_of(type)};
  CR_TRY(read_dims(import, tensor, &shape));
  const size_t count = (size_t)crema_shape_count(&shape, 0, shape.axes);
  if (source.width == 0) {
    char text[CR_ONNX_TYPE_TEXT];
    return cr_fail(CREMA_E_UNSUPPORTED, "%s: tensor '%s' of type %s is not supported",
                   import->model->path, tensor->name == NULL ? "" : tensor->name,
                   cr_onnx_type_name(type, text));
  }
  CR_TRY(find_values(import, tensor, count, &source));
  if (type == CR_ONNX_FLOAT || type == CR_ONNX_DOUBLE || type == CR_ONNX_FLOAT16 ||
      type == CR_ONNX_BFLOAT16) {
    CR_TRY(read_floats(import, &source, &shape, out));
    out->type = type;
    return CREMA_OK;
  }
  int64_t *ints;
  CR_TRY(load_values(import, &source, count));
  CR_TRY(cr_import_make_ints(import, out, &shape, &ints));
  for (size_t i = 0; i < count; ++i) ints[i] = int_at(type, number_at(&source, i));
  out->type = type;
  return CREMA_OK;
}
