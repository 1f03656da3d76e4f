/* ONNX files that are damaged, hostile or not supported: a status with a text that names the place,
 * and no files. */
#include "onnx/model_text.h"

/* A graph that reads the constant c. */
#define C(fields)                                \
  X "initializer { name: 'c' data_type: " fields \
    " } node { op_type: 'Add' input: 'x' input: 'c' output: 'y' } " OUTPUT("y")

TEST(graphs) {
  static const struct {
    const char *graph;
    crema_status code;
    const char *text;
  } rows[] = {
      {X NODE("Relu", "y", "x2") NODE("Relu", "x2", "y") OUTPUT("y"), CREMA_E_CORRUPT,
       "no node before '' (Relu) makes its input 'y'"},
      {X "node { name: 'self' op_type: 'Relu' input: 'y' output: 'y' } " OUTPUT("y"),
       CREMA_E_CORRUPT, "no node before 'self' (Relu) makes its input 'y'"},
      {X NODE("Relu", "missing", "y") OUTPUT("y"), CREMA_E_CORRUPT,
       "no node before '' (Relu) makes its input 'missing'"},
      {X NODE("Relu", "x", "y") OUTPUT("z"), CREMA_E_CORRUPT, "no node makes the output 'z'"},
      {X NODE("Relu", "x", "y") NODE("Relu", "x", "y") OUTPUT("y"), CREMA_E_CORRUPT,
       "two nodes make the value 'y'"},
      {X NODE("Relu", "x", "x") OUTPUT("x"), CREMA_E_CORRUPT, "two nodes make the value 'x'"},
      {"initializer { name: 'c' data_type: 1 dims: 1 float_data: 1 } " C("1 dims: 1 float_data: 2"),
       CREMA_E_CORRUPT, "two nodes make the value 'c'"},
      {"input { type { tensor_type { elem_type: 1 shape { } } } } ", CREMA_E_CORRUPT,
       "an input has no name"},
      {"input { name: 'x' } ", CREMA_E_UNSUPPORTED, "input 'x' has no shape"},
      {INPUT("x", "1", DIM("1") "dim { dim_param: 'height' } ") OUTPUT("x"), CREMA_E_UNSUPPORTED,
       "axis 1 of input 'x' has no fixed size ('height'); export the model with a fixed size"},
      {X "sparse_initializer { } " OUTPUT("x"), CREMA_E_UNSUPPORTED,
       "sparse tensors are not supported"},
      {C("1 dims: 2 float_data: 1"), CREMA_E_CORRUPT,
       "tensor 'c' does not hold 2 values of type FLOAT"},
      {C("1 dims: 1 raw_data: '123'"), CREMA_E_CORRUPT,
       "tensor 'c' does not hold 1 values of type FLOAT"},
      {C("7 dims: 1 raw_data: '1234'"), CREMA_E_CORRUPT,
       "tensor 'c' does not hold 1 values of type INT64"},
      {C("8 dims: 1 string_data: 'a'"), CREMA_E_UNSUPPORTED,
       "tensor 'c' of type STRING is not supported"},
      {C("77 dims: 1 raw_data: 'a'"), CREMA_E_UNSUPPORTED,
       "tensor 'c' of type type 77 is not supported"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    check_graph_says(rows[i].graph, rows[i].code, rows[i].text);
  }
}

/* Values in other files are read from the folder of the model only, and in full. */
TEST(external_data) {
  static const struct {
    const char *entries, *text;
  } rows[] = {
      {"", "'', whose name is missing"},
      {"external_data { key: 'location' value: 'none.bin' }",
       "'none.bin', which is no file in the folder of the model; links and '..' are not followed"},
      {"external_data { key: 'location' value: '../m.bin' }",
       "'../m.bin', which is no file in the folder of the model; links and '..' are not followed"},
      {"external_data { key: 'location' value: '/etc/passwd' }",
       "'/etc/passwd', which is no file in the folder of the model; links and '..' are not "
       "followed"},
      {"external_data { key: 'location' value: 'link.bin' }",
       "'link.bin', which is no file in the folder of the model; links and '..' are not followed"},
      {"external_data { key: 'location' value: 'm.bin' } "
       "external_data { key: 'offset' value: '4' }",
       "'m.bin', which is too short"},
      {"external_data { key: 'location' value: 'm.bin' } "
       "external_data { key: 'offset' value: '-4' }",
       "'m.bin', and its offset or length is no number"},
      {"external_data { key: 'location' value: 'm.bin' } "
       "external_data { key: 'length' value: '8' }",
       "'m.bin', and its length does not fit its shape"},
  };
  write_text("m.bin", "0123456789ab");
  assert_int_equal(symlink("m.bin", path_of("link.bin")), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char graph[1024], text[512];
    snprintf(graph, sizeof graph, C("1 dims: 3 data_location: 1 %s"), rows[i].entries);
    snprintf(text, sizeof text, "tensor 'c' is in the file %s", rows[i].text);
    check_graph_says(graph, CREMA_E_CORRUPT, text);
  }
  char graph[1024];
  snprintf(graph, sizeof graph, C("1 dims: 3 data_location: 1 %s"),
           "external_data { key: 'location' value: 'm.bin' }");
  write_graph(graph);
  crema_net *net = NULL;
  ok(crema_net_load(path_of("m.onnx"), NULL, &net));
  crema_net_destroy(net);
  unlink(path_of("link.bin"));
  unlink(path_of("m.bin"));
}

TEST(extents) {
  static const char *const graphs[] = {
      INPUT("x", "1", DIM("9223372036854775807")) OUTPUT("x"),
      INPUT("x", "1", DIM("4294967296") DIM("4294967296")) OUTPUT("x"),
      C("1 dims: 4294967296 dims: 4294967296"),
      C("1 dims: -1"),
      C("1 dims: 2147483647 float_data: 1"),
  };
  char many[4096] = "";
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; ++i) {
    write_graph(graphs[i]);
    crema_net *net = NULL; /* an import writes shapes that no memory has */
    assert_int_not_equal(crema_net_load(path_of("m.onnx"), NULL, &net), CREMA_OK);
    assert_true(crema_error_text()[0] != '\0');
  }
  for (int i = 0; i <= CREMA_MAX_AXES; ++i) strcat(many, DIM("1"));
  char graph[4200];
  snprintf(graph, sizeof graph,
           "input { name: 'x' type { tensor_type { elem_type: 1 shape { %s } } } }", many);
  check_graph_says(graph, CREMA_E_SHAPE, "input 'x' has 33 axes");
}

TEST(models) {
  static const struct {
    const char *fields;
    crema_status code;
    const char *text;
  } rows[] = {
      {"opset_import { version: 13 }", CREMA_E_CORRUPT, "the model has no graph"},
      {"graph { }", CREMA_E_UNSUPPORTED, "operator set 0; sets 7 to 21 are supported"},
      {"opset_import { version: 6 } graph { }", CREMA_E_UNSUPPORTED,
       "operator set 6; sets 7 to 21 are supported"},
      {"opset_import { domain: 'com.microsoft' version: 1 } opset_import { version: 22 } graph { }",
       CREMA_E_UNSUPPORTED, "operator set 22; sets 7 to 21 are supported"},
      {"opset_import { version: 13 } functions { name: 'f' } graph { }", CREMA_E_UNSUPPORTED,
       "models with local functions are not supported"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    write_model("m.onnx", rows[i].fields);
    check_import_says(rows[i].code, rows[i].text);
  }
}

/* One message lists all nodes. */
TEST(all_rejections) {
  check_graph_says(X OUTPUT("p") "node { name: 'a' op_type: 'Det' input: 'x' output: 'p' } "
                   "node { name: 'b' op_type: 'Relu' input: 'x' output: 'q' } "
                   "node { op_type: 'Fused' domain: 'com.example' input: 'q' output: 'r' } "
                   "node { name: 'after' op_type: 'Relu' input: 'r' output: 's' } "
                   "node { name: 'c' op_type: 'Unknown' input: 's' output: 't' } " OUTPUT("t"),
                   CREMA_E_UNSUPPORTED,
                   "3 nodes cannot be imported:"
                   "\n  node 'a' (Det): no layer computes this operator"
                   "\n  node 'r' (Fused): operators of the domain 'com.example' are not supported"
                   "\n  node 'c' (Unknown): no layer computes this operator");
  check_graph_says(X NODE("Det", "x", "y") OUTPUT("y"), CREMA_E_UNSUPPORTED,
                   "1 node cannot be imported:"
                   "\n  node 'y' (Det): no layer computes this operator");
}

/* Each pair of bytes is an empty node, tensor, input or unknown field of the graph, which takes
 * many times its size in memory. A small file may hold some. */
TEST(memory_of_messages) {
  static const unsigned char tags[] = {0x0a, 0x2a, 0x5a, 0xa2};
  enum { PAIRS = 60000 };
  static unsigned char bytes[PAIRS * 2 + 8];
  for (size_t t = 0; t < sizeof tags; ++t) {
    const int size = PAIRS * 2 - (tags[t] == 0xa2 ? PAIRS * 2 % 3 : 0);
    bytes[0] = 0x3a; /* the graph, and its size as a varint of three bytes */
    bytes[1] = (unsigned char)(0x80 | (size & 0x7f));
    bytes[2] = (unsigned char)(0x80 | (size >> 7 & 0x7f));
    bytes[3] = (unsigned char)(size >> 14);
    for (int i = 0; i < size; ++i) bytes[4 + i] = i % 2 == 0 ? tags[t] : 0;
    if (tags[t] == 0xa2) { /* field 20 */
      for (int i = 0; i < size; ++i) bytes[4 + i] = i % 3 == 0 ? tags[t] : i % 3 == 1;
    }
    ok(cr_file_write(path_of("m.onnx"), bytes, (size_t)size + 4));
    char text[100];
    snprintf(text, sizeof text, "its messages need more than %d bytes of memory",
             10 * (size + 4) + 65536);
    check_import_says(CREMA_E_CORRUPT, text);
  }
}

/* A model with each kind of field that is read. */
static const char whole[] =
    "ir_version: 8 producer_name: 'test' opset_import { domain: '' version: 13 } graph { "
    "name: 'g' " INPUT("x", "1", "dim { dim_param: 'n' } " DIM("1") DIM("3") DIM("3"))
        OUTPUT("y") "initializer { name: 'w' data_type: 1 dims: 1 dims: 1 dims: 2 dims: 2 "
                    "raw_data: '0123456789abcdef' } "
                    "initializer { name: 'b' data_type: 1 dims: 1 float_data: 0.5 } "
                    "node { name: 'c' op_type: 'Conv' input: 'x' input: 'w' input: 'b' "
                    "output: 'h' attribute { name: 'pads' ints: 1 ints: 1 ints: 1 ints: 1 "
                    "type: 7 } attribute { name: 'group' i: 1 type: 2 } "
                    "attribute { name: 'auto_pad' s: 'NOTSET' type: 3 } } "
                    "node { name: 'r' op_type: 'Relu' input: 'h' output: 'y' } }";

/* Each change of the file gives a net or an error, under the sanitizers nothing else. */
static void check_any(const char *bytes, size_t size) {
  ok(cr_file_write(path_of("m.onnx"), bytes, size));
  const crema_status status =
      crema_onnx_import(path_of("m.onnx"), path_of("net"), path_of("weights"));
  if (status != CREMA_OK) assert_error_has("m.onnx");
}

TEST(damaged_bytes) {
  cr_buffer bytes = {0};
  write_model("m.onnx", whole);
  ok(crema_onnx_import(path_of("m.onnx"), path_of("net"), path_of("weights")));
  ok(cr_file_read(path_of("m.onnx"), &bytes));
  for (size_t size = 0; size < bytes.size; ++size) check_any(bytes.data, size);
  for (size_t i = 0; i < bytes.size; ++i) {
    static const char values[] = {0, 1, 0x7f, -1, -128};
    const char kept = bytes.data[i];
    for (size_t v = 0; v < sizeof values; ++v) {
      bytes.data[i] = values[v];
      check_any(bytes.data, bytes.size);
    }
    bytes.data[i] = kept;
  }
  cr_buffer_free(&bytes);
}

TEST(other_files) {
  unlink(path_of("net"));
  unlink(path_of("weights"));
  write_text("m.onnx", "name: 'a net'");
  assert_int_equal(crema_onnx_import(path_of("m.onnx"), path_of("net"), path_of("weights")),
                   CREMA_E_CORRUPT);
  assert_error_has("m.onnx");
  write_text("m.onnx", "");
  assert_fails(crema_onnx_import(path_of("m.onnx"), path_of("net"), path_of("weights")),
               CREMA_E_CORRUPT, "m.onnx");
  unlink(path_of("m.onnx"));
  assert_fails(crema_onnx_import(path_of("m.onnx"), path_of("net"), path_of("weights")),
               CREMA_E_NOT_FOUND, "m.onnx");
  assert_int_equal(count_names(""), 0);
}

int main(void) {
  return run_all_tests(make_folder, remove_model);
}
