/* ONNX files from the text of their graph, and what an import of them says. */
#ifndef CR_TESTS_ONNX_MODEL_TEXT_H
#define CR_TESTS_ONNX_MODEL_TEXT_H

#include "crema/onnx.h"
#include "folder.h"
#include "onnx/format/model_file.h"

/* Fields of a graph. */
#define NODE(op, in, out) "node { op_type: '" op "' input: '" in "' output: '" out "' } "
#define INPUT(name, type, dims) \
  "input { name: '" name "' type { tensor_type { elem_type: " type " shape { " dims " } } } } "
#define DIM(extent) "dim { dim_value: " extent " } "
#define OUTPUT(name) "output { name: '" name "' } "
/* An input x of 2 x 3 floats. */
#define X INPUT("x", "1", DIM("2") DIM("3"))

/* Writes a model of any fields, in text format, to the folder. */
static inline void write_model(const char *name, const char *fields) {
  ProtobufCMessage *message = NULL;
  ok(cr_text_parse(&onnx__model_proto__descriptor, fields, strlen(fields), "model",
                   CR_UNKNOWN_ERROR, &message));
  ok(cr_message_write_binary(message, path_of(name)));
  cr_message_free(message);
}

/* Writes a model of operator set 13 with this graph as "m.onnx". */
static inline void write_graph(const char *graph) {
  cr_buffer text = {0};
  ok(cr_buffer_print(&text, "ir_version: 8 opset_import { version: 13 } graph { name: 'g' %s }",
                     graph));
  write_model("m.onnx", text.data);
  cr_buffer_free(&text);
}

/* The import of "m.onnx" fails with `code` and exactly "<path>: <text>"; it writes nothing. */
static inline void check_import_says(crema_status code, const char *text) {
  char expected[4096];
  snprintf(expected, sizeof expected, "%s: %s", path_of("m.onnx"), text);
  assert_says(crema_onnx_import(path_of("m.onnx"), path_of("net"), path_of("weights")), code,
              expected);
  assert_int_equal(access(path_of("net"), F_OK), -1);
  assert_int_equal(access(path_of("weights"), F_OK), -1);
}

static inline void check_graph_says(const char *graph, crema_status code, const char *text) {
  write_graph(graph);
  check_import_says(code, text);
}

static inline int remove_model(void **state) {
  unlink(path_of("m.onnx"));
  unlink(path_of("net"));
  unlink(path_of("weights"));
  return remove_folder(state);
}

#endif
