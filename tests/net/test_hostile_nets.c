/* Random legal nets with one thing broken: a status and a text that names file, line and layer, or
 * a net that runs. Then sizes that no machine has, names of a megabyte, and nesting that is too
 * deep.
 *
 * Each layer is on a line of its own, so the line that a message has to name is known. */
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "crema/log.h"
#include "net_case.h"

enum { LAYERS = 6, TEXT = 1 << 14, LINE = 2048, ROUNDS = 2000 };

static uint64_t random_state;

static uint32_t draw(uint32_t below) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % below;
}

#define PICK(...)         \
  ((const char *const[]){ \
      __VA_ARGS__}[draw((uint32_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))])

/* Layers with one bottom of four axes and one top of as many, and where their parameters stand. */
static const struct {
  const char *type, *param, *body;
} kinds[] = {
    {"Convolution", "convolution_param", "num_output: 2 kernel_size: 1"},
    {"Convolution", "convolution_param", "num_output: 4 kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0"},
    {"Deconvolution", "convolution_param", "num_output: 3 kernel_size: 1"},
    {"Pooling", "pooling_param", "pool: MAX kernel_size: 2 stride: 1"},
    {"LRN", "lrn_param", "local_size: 3"},
    {"BatchNorm", "batch_norm_param", ""},
    {"Scale", "scale_param", "bias_term: true"},
    {"Bias", "bias_param", ""},
    {"PReLU", "prelu_param", ""},
    {"ReLU", "relu_param", ""},
    {"ELU", "elu_param", ""},
    {"GELU", "gelu_param", ""},
    {"Clip", "clip_param", "min: -1 max: 1"},
    {"Dropout", "dropout_param", ""},
    {"Power", "power_param", ""},
    {"Exp", "exp_param", ""},
    {"Log", "log_param", "shift: 9"},
    {"MVN", "mvn_param", ""},
    {"Softmax", "softmax_param", ""},
    {"Tile", "tile_param", "tiles: 1"},
    {"Reshape", "reshape_param", "shape { dim: 0 dim: 0 dim: 0 dim: -1 }"},
    {"Crop", "crop_param", ""},
    {"Slice", "slice_param", ""},
    {"Concat", "concat_param", ""},
    {"Eltwise", "eltwise_param", ""},
    {"Permute", "permute_param", "order: 0 order: 1 order: 3 order: 2"},
    {"ArgMax", "argmax_param", "axis: 1"},
    {"Threshold", "threshold_param", ""},
    {"Swish", "swish_param", ""},
    {"SPP", "spp_param", "pyramid_height: 1"},
    {"Im2col", "convolution_param", "kernel_size: 1"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

typedef struct sketch {
  uint32_t kind[LAYERS];
  char line[LAYERS + 1][LINE]; /* the first is the input */
} sketch;

static const char *shape_text(void) {
  return "dim: 2 dim: 3 dim: 5 dim: 4";
}

/* A layer with the text before and after its parameters. */
static void write_layer(sketch *s, int i, const char *fields, const char *body) {
  const uint32_t kind = s->kind[i];
  snprintf(s->line[i + 1], LINE, "layer { name: 'l%d' type: '%s' %s %s { %s } }", i,
           kinds[kind].type, fields, kinds[kind].param, body);
}

/* Bottom and top as they should be. Some take a second bottom, which is the same here. */
static const char *good_fields(const sketch *s, int i) {
  static char text[128];
  const char *type = kinds[s->kind[i]].type;
  if (strcmp(type, "Crop") == 0 || strcmp(type, "Eltwise") == 0) {
    snprintf(text, sizeof text, "bottom: 'b%d' bottom: 'b%d' top: 'b%d'", i, i, i + 1);
  } else {
    snprintf(text, sizeof text, "bottom: 'b%d' top: 'b%d'", i, i + 1);
  }
  return text;
}

static void draw_layers(sketch *s) {
  snprintf(s->line[0], LINE,
           "layer { name: 'in' type: 'Input' top: 'b0' input_param { shape { %s } } }",
           shape_text());
  for (int i = 0; i < LAYERS; ++i) {
    s->kind[i] = draw(KINDS);
    write_layer(s, i, good_fields(s, i), kinds[s->kind[i]].body);
  }
}

/* ---- breaking ---- */

/* Memory is limited to what a test may take; what asks for more is refused by the allocator. Not
 * with a sanitizer, which needs the whole address space. */
static bool limit_memory(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  struct rlimit limit = {(rlim_t)4 << 30, (rlim_t)4 << 30};
  return setrlimit(RLIMIT_AS, &limit) == 0;
#endif
}

static bool limited;

static const char *extreme(const ProtobufCFieldDescriptor *field) {
  static char text[64];
  switch (field->type) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE: return PICK("nan", "inf", "-inf", "0", "-1", "1e38", "-3e-39");
    case PROTOBUF_C_TYPE_BOOL: return PICK("true", "false");
    case PROTOBUF_C_TYPE_STRING: return PICK("''", "'nonsense'", "'\\xff\\x00'");
    case PROTOBUF_C_TYPE_ENUM: {
      const ProtobufCEnumDescriptor *values = field->descriptor;
      return values->values[draw(values->n_values)].name;
    }
    case PROTOBUF_C_TYPE_UINT32:
      return limited ? PICK("0", "1", "7", "2147483647", "2147483648", "4294967295")
                     : PICK("0", "1", "7");
    case PROTOBUF_C_TYPE_INT64:
      return limited ? PICK("0", "-1", "-9223372036854775808", "9223372036854775807",
                            "4611686018427387904")
                     : PICK("0", "-1", "-2", "-9223372036854775808");
    case PROTOBUF_C_TYPE_MESSAGE: return NULL;
    default:
      snprintf(text, sizeof text, "%s",
               limited ? PICK("0", "-1", "5", "-2147483648", "2147483647")
                       : PICK("0", "-1", "5", "-2147483648"));
      return text;
  }
}

/* The name as the text has it: the compiler adds an underscore to names that C needs itself. */
static void field_name(const ProtobufCFieldDescriptor *field, char out[128]) {
  snprintf(out, 128, "%s", field->name);
  size_t size = strlen(out);
  if (out[size - 1] == '_') out[size - 1] = '\0';
}

/* One field of a message with an extreme value, also inside the messages of it. */
static void print_extreme(const ProtobufCMessageDescriptor *type, char out[LINE]) {
  const ProtobufCFieldDescriptor *field = &type->fields[draw(type->n_fields)];
  char name[128], inner[LINE / 2];
  field_name(field, name);
  const char *value = extreme(field);
  if (value != NULL) {
    snprintf(out, LINE, "%s: %s", name, value);
    return;
  }
  char deeper[LINE];
  print_extreme(field->descriptor, deeper);
  snprintf(inner, sizeof inner, "%.1000s", deeper);
  snprintf(out, LINE, "%s { %s }", name, inner);
}

/* The body without the field that `extra` begins with, followed by `extra`. */
static void replace_field(const char *body, const char *extra, char out[LINE]) {
  char name[128], copy[LINE];
  size_t used = 0;
  snprintf(name, sizeof name, "%.*s:", (int)strcspn(extra, ": "), extra);
  snprintf(copy, sizeof copy, "%s", body);
  out[0] = '\0';
  if (strchr(copy, '{') != NULL) copy[0] = '\0';
  for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
    char *value = strtok(NULL, " ");
    if (strcmp(word, name) == 0) continue;
    used += (size_t)snprintf(out + used, LINE - used, "%s %s ", word, value == NULL ? "" : value);
  }
  snprintf(out + used, LINE - used, "%s", extra);
}

static void break_parameter(sketch *s, int i) {
  char extra[LINE], body[LINE];
  const ProtobufCFieldDescriptor *param = protobuf_c_message_descriptor_get_field_by_name(
      &caffe__layer_parameter__descriptor, kinds[s->kind[i]].param);
  assert_non_null(param);
  print_extreme(param->descriptor, extra);
  replace_field(kinds[s->kind[i]].body, extra, body);
  write_layer(s, i, good_fields(s, i), body);
}

/* Ways to break a layer for sure; %d: its number, that of its bottom; %d again: its top's. */
static const struct {
  const char *fields;
  crema_status status;
} wrong[] = {
    {"bottom: 'b%d' bottom: 'nobody' top: 'b%d'", CREMA_E_UNKNOWN_NAME},
    {"bottom: 'b%d' bottom: 'b6' top: 'b%d'", CREMA_E_UNKNOWN_NAME},
    {"bottom: 'b%d' bottom: 'b0' bottom: '' top: 'b%d'", CREMA_E_UNKNOWN_NAME},
    {"bottom: 'b%d' top: 'b%d' include { phase: TRAIN } exclude { phase: TEST }", CREMA_E_ARGUMENT},
    {"bottom: 'b%d' top: 'b%d' top: 'b0'", CREMA_OK}, /* one of several errors */
    {"bottom: 'b%d' top: 'b%d' propagate_down: true propagate_down: true propagate_down: true",
     CREMA_E_ARGUMENT},
    {"bottom: 'b%d' top: 'b%d' loss_weight: 1 loss_weight: 2 loss_weight: 3", CREMA_E_ARGUMENT},
    {"bottom: 'b%d' top: 'b%d' blobs { data: 1 } blobs { data: 2 } blobs { } blobs { } blobs { }",
     CREMA_E_ARGUMENT},
    {"bottom: 'b%d' top: 'b%d' param {} param {} param {} param {} param {}", CREMA_E_ARGUMENT},
};
enum { WRONG = sizeof wrong / sizeof wrong[0] };

/* ---- what must happen ---- */

static bool is_small(const crema_net *net) {
  for (int i = 0; i < net->blobs; ++i) {
    if (crema_blob_count(net->blob[i]) > 1 << 16) return false;
  }
  return true;
}

static void complain(const char *why, const sketch *s, int i, crema_status status) {
  print_error("%s: %s: %.300s\nfor line %d: %s\n", why, crema_status_name(status),
              crema_error_text(), i + 2, s->line[i + 1]);
  fail();
}

static size_t print_net(const sketch *s, char text[TEXT]) {
  size_t used = 0;
  for (int k = 0; k <= LAYERS; ++k) {
    used += (size_t)snprintf(text + used, TEXT - used, "%s\n", s->line[k]);
  }
  return used;
}

/* A net that can be built: windows may not fit what windows before have left. */
static void draw_net(sketch *s) {
  for (;;) {
    static char text[TEXT];
    crema_net *net = NULL;
    draw_layers(s);
    crema_status status = crema_net_parse(text, print_net(s, text), "net", NULL, &net);
    crema_net_destroy(net);
    if (status == CREMA_OK) return;
    assert_int_equal(status, CREMA_E_SHAPE);
  }
}

/* A net that is built runs, or says which layer does not. */
static void run_net(crema_net *net, const sketch *s, int i) {
  if (!is_small(net)) return;
  crema_status status = crema_net_forward(net, NULL);
  if (status == CREMA_OK) status = crema_net_backward(net);
  if (status == CREMA_OK) return;
  if (status == CREMA_E_INTERNAL || strstr(crema_error_text(), "layer 'l") == NULL) {
    complain("running", s, i, status);
  }
}

/* The line that the message names, 0 for none. */
static int line_of_message(void) {
  int line = 0;
  return sscanf(crema_error_text(), "net:%d:", &line) == 1 ? line : 0;
}

/* `expected` CREMA_OK: the outcome is not known, but a failure names this line or a later one,
 * where the shapes no longer fit. */
static bool try_net(const sketch *s, int i, bool must_fail, crema_status expected) {
  static char text[TEXT];
  crema_net *net = NULL;
  crema_net_options options = phase_options(draw(2) == 0 ? CREMA_TRAIN : CREMA_TEST);
  options.force_backward = draw(4) == 0;
  crema_status status = crema_net_parse(text, print_net(s, text), "net", &options, &net);
  if (status == CREMA_OK) {
    if (must_fail) complain("built", s, i, status);
    run_net(net, s, i);
    crema_net_destroy(net);
    return true;
  }
  assert_null(net);
  const int line = line_of_message();
  char layer[32];
  snprintf(layer, sizeof layer, ": layer 'l%d", line - 2);
  if (expected != CREMA_OK && status != expected) complain("another status", s, i, status);
  if (status == CREMA_E_INTERNAL) complain("internal", s, i, status);
  if (must_fail ? line != i + 2 : line < i + 2) complain("another line", s, i, status);
  if (status != CREMA_E_PARSE && strstr(crema_error_text(), layer) == NULL) {
    complain("no layer", s, i, status);
  }
  return false;
}

TEST(one_thing_is_broken) {
  const char *given = getenv("CREMA_TEST_SEED");
  int built = 0, refused = 0;
  random_state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
  print_message("seed %llu (set CREMA_TEST_SEED to repeat)\n", (unsigned long long)random_state);
  for (int round = 0; round < ROUNDS; ++round) {
    sketch s;
    draw_net(&s);
    const int i = (int)draw(LAYERS);
    const uint32_t how = draw(2 * WRONG);
    if (how >= WRONG) {
      break_parameter(&s, i);
      if (try_net(&s, i, false, CREMA_OK)) ++built;
      else ++refused;
      continue;
    }
    char fields[256];
    snprintf(fields, sizeof fields, wrong[how].fields, i, i + 1);
    write_layer(&s, i, fields, kinds[s.kind[i]].body);
    (void)try_net(&s, i, true, wrong[how].status);
  }
  print_message("%d built, %d refused\n", built, refused);
  assert_true(built > ROUNDS / 10 && refused > ROUNDS / 20);
}

/* ---- sizes ---- */

TEST(shapes_that_overflow) {
  static const char *const dims[] = {
      "dim: -1",
      "dim: 0 dim: -9223372036854775808",
      "dim: 9223372036854775807",
      "dim: 9223372036854775807 dim: 2",
      "dim: 4294967296 dim: 4294967296",
      "dim: 0 dim: 4294967296 dim: 4294967296",
      "dim: 1048576 dim: 1048576 dim: 1048576 dim: 2",
  };
  static const char *const layers[] = {
      "type: 'Input' input_param",
      "type: 'Parameter' parameter_param",
      "type: 'DummyData' dummy_data_param",
  };
  for (size_t l = 0; l < sizeof layers / sizeof layers[0]; ++l) {
    for (size_t d = 0; d < sizeof dims / sizeof dims[0]; ++d) {
      char text[512];
      snprintf(text, sizeof text, "# a line\nlayer { name: 'x' top: 'x' %s { shape { %s } } }",
               layers[l], dims[d]);
      refuse(text, CREMA_E_SHAPE, WORDS("test.prototxt:2: layer 'x' ("));
    }
  }
}

static const size_t mega = 1 << 20;

static char *repeat(char c, size_t count) {
  char *text = malloc(count + 1);
  assert_non_null(text);
  memset(text, c, count);
  text[count] = '\0';
  return text;
}

/* Wherever a name of a megabyte stands: the message says what is wrong. */
TEST(long_names) {
  static const struct {
    const char *text; /* %s: the name */
    crema_status status;
    const char *said;
  } cases[] = {
      {"layer { name: '%s' type: 'ReLU' bottom: 'x' top: 'y' }", CREMA_E_UNKNOWN_NAME,
       "is not made by any earlier layer"},
      {"layer { name: 'l' type: 'ReLU' bottom: '%s' top: 'y' }", CREMA_E_UNKNOWN_NAME,
       "layer 'l' (ReLU): bottom 0 'nnnn"},
      {"layer { name: 'l' type: 'ReLU' bottom: '%s' top: 'y' }", CREMA_E_UNKNOWN_NAME,
       "is not made by any earlier layer"},
      {"layer { name: 'l' type: '%s' }", CREMA_E_UNKNOWN_NAME, "known types: "},
      {"layer { name: 'l' type: 'Input' top: '%s' top: '%1$s' }", CREMA_E_EXISTS, "is made twice"},
      {"layer { name: 'l' %s: 3 }", CREMA_E_PARSE, "net:1:19: "},
      {"layer { name: 'l' phase: %s }", CREMA_E_PARSE, "net:1:26: "},
      {"layer { name: 'l' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 1 } } } "
       "layer { name: 'k' type: 'InnerProduct' bottom: 'x' top: 'a' param { name: '%s' } "
       "inner_product_param { num_output: 1 bias_term: false } } "
       "layer { name: 'm' type: 'InnerProduct' bottom: 'x' top: 'b' param { name: '%1$s' } "
       "inner_product_param { num_output: 2 bias_term: false } }",
       CREMA_E_SHAPE, "with layer 'k': shapes differ"},
  };
  char *name = repeat('n', mega);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    cr_buffer text = {0};
    crema_net *net = NULL;
    for (const char *at = cases[i].text; *at != '\0';) {
      const char *mark = strchr(at, '%');
      size_t size = mark == NULL ? strlen(at) : (size_t)(mark - at);
      ok(cr_buffer_append(&text, at, size));
      if (mark != NULL) ok(cr_buffer_append(&text, name, mega));
      at += size;
      if (mark != NULL) at = strchr(mark, 's') + 1;
    }
    assert_int_equal(crema_net_parse(text.data, text.size, "net", NULL, &net), cases[i].status);
    assert_names(WORDS("net:1", cases[i].said));
    cr_buffer_free(&text);
  }
  free(name);
}

/* Many bottoms, tops and readers take time in proportion. */
TEST(many_blobs) {
  enum { MANY = 100000 };
  cr_buffer text = {0};
  crema_net *net = NULL;
  ok(cr_buffer_print(&text, "layer { name: 'many' type: 'Input' input_param { shape { dim: 1 } }"));
  for (int i = 0; i < MANY; ++i) ok(cr_buffer_print(&text, " top: 't%d'", i));
  ok(cr_buffer_print(&text, " }\nlayer { name: 'end' type: 'Silence'"));
  for (int i = 0; i < MANY; ++i) ok(cr_buffer_print(&text, " bottom: 't%d'", i / 2));
  ok(cr_buffer_print(&text, " }\n"));
  ok(crema_net_parse(text.data, text.size, "net", NULL, &net));
  assert_int_equal(crema_net_input_count(net), MANY);
  assert_int_equal(crema_net_layer_count(net), 2 + MANY / 2);
  crema_net_destroy(net);
  net = NULL;
  ok(cr_buffer_print(&text, "layer { name: 'bad' type: 'Silence' bottom: 'nobody' }"));
  assert_int_equal(crema_net_parse(text.data, text.size, "net", NULL, &net), CREMA_E_UNKNOWN_NAME);
  assert_names(WORDS("net:3: layer 'bad' (Silence): bottom 0 'nobody'"));
  cr_buffer_free(&text);
}

/* ---- nesting ---- */

TEST(deep_text) {
  static const char *const opening[] = {
      "layer {", "layer <",         "layer: [",           "x {", "x: <", "x [",
      "x: [",    "layer { param {", "net_param { layer {"};
  enum { DEPTH = 10000 };
  for (size_t i = 0; i < sizeof opening / sizeof opening[0]; ++i) {
    for (int policy = 0; policy < 2; ++policy) {
      cr_buffer text = {0};
      crema_net *net = NULL;
      crema_net_options options;
      crema_net_options_init(&options);
      options.warn_unknown_fields = policy == 1;
      for (int k = 0; k < DEPTH; ++k) ok(cr_buffer_print(&text, "%s", opening[i]));
      assert_int_equal(crema_net_parse(text.data, text.size, "net", &options, &net), CREMA_E_PARSE);
      assert_names(WORDS("net:1:"));
      cr_buffer_free(&text);
    }
  }
}

static void put_varint(cr_buffer *out, size_t value) {
  for (; value >= 0x80; value >>= 7) {
    ok(cr_buffer_append(out, &(uint8_t){(uint8_t)(value | 0x80)}, 1));
  }
  ok(cr_buffer_append(out, &(uint8_t){(uint8_t)value}, 1));
}

/* Messages of a field in messages of it: those that the schema has at that place, and unknown ones.
 */
TEST(deep_wire) {
  static const uint32_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 101, 106, 9999};
  enum { DEPTH = 10000 };
  for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; ++n) {
    /* From the innermost to the outermost, each header in front of what is there. */
    static uint8_t bytes[DEPTH * 6];
    size_t at = sizeof bytes;
    for (int i = 0; i < DEPTH; ++i) {
      cr_buffer header = {0};
      put_varint(&header, (size_t)numbers[n] << 3 | 2);
      put_varint(&header, sizeof bytes - at);
      assert_true(header.size <= at);
      at -= header.size;
      memcpy(bytes + at, header.data, header.size);
      cr_buffer_free(&header);
    }
    ProtobufCMessage *message = NULL;
    crema_status status = cr_wire_parse(&caffe__net_parameter__descriptor, bytes + at,
                                        sizeof bytes - at, "wire", &message);
    assert_true(status == CREMA_OK || status == CREMA_E_CORRUPT);
    if (status != CREMA_OK) assert_names(WORDS("wire: byte "));
    cr_message_free(message);
  }
}

int main(void) {
  limited = limit_memory();
  return run_all_tests(NULL, NULL);
}
