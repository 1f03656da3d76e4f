/* ONNX files: reading and writing the message, and the numbers that a tensor holds. */
#ifndef CR_ONNX_FORMAT_MODEL_FILE_H
#define CR_ONNX_FORMAT_MODEL_FILE_H

#include "core/buffer.h"
#include "onnx.pb-c.h"
#include "proto/proto.h"

/* The element types of TensorProto.data_type and TypeProto.Tensor.elem_type. */
typedef enum cr_onnx_type {
  CR_ONNX_FLOAT = 1,
  CR_ONNX_UINT8 = 2,
  CR_ONNX_INT8 = 3,
  CR_ONNX_UINT16 = 4,
  CR_ONNX_INT16 = 5,
  CR_ONNX_INT32 = 6,
  CR_ONNX_INT64 = 7,
  CR_ONNX_STRING = 8,
  CR_ONNX_BOOL = 9,
  CR_ONNX_FLOAT16 = 10,
  CR_ONNX_DOUBLE = 11,
  CR_ONNX_UINT32 = 12,
  CR_ONNX_UINT64 = 13,
  CR_ONNX_BFLOAT16 = 16
} cr_onnx_type;

/* The values of AttributeProto.type. */
typedef enum cr_onnx_attribute_type {
  CR_ONNX_ATTRIBUTE_FLOAT = 1,
  CR_ONNX_ATTRIBUTE_INT = 2,
  CR_ONNX_ATTRIBUTE_STRING = 3,
  CR_ONNX_ATTRIBUTE_TENSOR = 4,
  CR_ONNX_ATTRIBUTE_GRAPH = 5,
  CR_ONNX_ATTRIBUTE_FLOATS = 6,
  CR_ONNX_ATTRIBUTE_INTS = 7,
  CR_ONNX_ATTRIBUTE_STRINGS = 8
} cr_onnx_attribute_type;

/* A model. Large values of tensors stay in `bytes`, unaligned, and are read by cr_onnx_model_load.
 */
typedef struct cr_onnx_model {
  Onnx__ModelProto *proto;
  uint8_t *bytes; /* all bytes of the file */
  size_t size;
  cr_paged_file pages;
  cr_buffer whole; /* instead of pages */
  char *path;      /* external data is relative to its folder */
} cr_onnx_model;

/* Whether a file is ONNX by the end of its name, ".onnx". */
bool cr_onnx_is_path(const char *path);

/* Reads the file `path`. Free with cr_onnx_model_close, also after a failure. Errors name the path:
 *
 * - CREMA_E_NOT_FOUND, CREMA_E_IO.
 * - CREMA_E_RANGE: the file is above the limit.
 * - CREMA_E_CORRUPT: the file is damaged, has no graph, or its messages need more than ten times
 *   its size in memory. */
crema_status cr_onnx_model_open(const char *path, cr_onnx_model *out) CREMA_MUST_USE;
void cr_onnx_model_close(cr_onnx_model *model);

/* Reads values that stay in the bytes, which are then there. Errors: CREMA_E_IO, CREMA_E_CORRUPT if
 * the file was changed meanwhile. */
crema_status cr_onnx_model_load(cr_onnx_model *model, const void *values,
                                size_t size) CREMA_MUST_USE;

/* Whether values can be read from the file to another place, with cr_onnx_model_copy, so that their
 * place in the bytes uses no memory. */
bool cr_onnx_model_is_in_file(const cr_onnx_model *model, const void *values);
crema_status cr_onnx_model_copy(const cr_onnx_model *model, const void *values, size_t size,
                                void *out) CREMA_MUST_USE;

/* The version of the standard operators that the model uses; 0 if it states none. */
int64_t cr_onnx_model_opset(const Onnx__ModelProto *proto);

/* The name of an element type, such as "FLOAT16"; "type 77" for an unknown type. */
enum { CR_ONNX_TYPE_TEXT = 24 };
const char *cr_onnx_type_name(int32_t type, char text[CR_ONNX_TYPE_TEXT]);

#endif
