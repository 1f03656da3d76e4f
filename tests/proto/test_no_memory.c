/* Every allocation fails once while messages are read, changed and written, in text and wire
 * format: a status and a text each time, and all that was allocated before is given back. */
#include "allocations.h"
#include "check.h"

#include <stdio.h>
#include <unistd.h>

#include "interpose.h"
#include "proto/proto.h"

static char folder[] = "/tmp/crema-proto-XXXXXX";

static const char *path_of(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* Of today's dialect, with what a reader has to allocate for: texts, lists, messages in messages,
 * bytes, and a field that the schema lacks. */
static const char today[] =
    "name: 'net'\n"
    "layer { name: 'in' type: 'Input' top: 'a' top: 'b'\n"
    "  input_param { shape { dim: 1 dim: 2 dim: 3 } shape { dim: 4 } } }\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'a' top: 'c'\n"
    "  param { lr_mult: 1 name: 'w' } param { lr_mult: 2 }\n"
    "  convolution_param { num_output: 2 kernel_size: 1 kernel_size: 1 stride: [1, 1]\n"
    "    weight_filler { type: 'gaussian' std: 0.01 } }\n"
    "  blobs { shape { dim: 2 } data: 1 data: 2.5 } loss_weight: 0.5\n"
    "  include { phase: TEST stage: 'one' stage: 'two' } }\n";

/* Of the two dialects before, which are upgraded. */
static const char first[] =
    "input: 'data' input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n"
    "layers { layer { name: 'pad' type: 'padding' pad: 1 } bottom: 'data' top: 'padded' }\n"
    "layers { layer { name: 'conv' type: 'conv' num_output: 2 kernelsize: 3\n"
    "  weight_filler { type: 'xavier' } blobs_lr: 1 blobs_lr: 2 weight_decay: 1 }\n"
    "  bottom: 'padded' top: 'conv' }\n";
static const char second[] =
    "layers { name: 'data' type: DATA top: 'data' top: 'label'\n"
    "  data_param { source: 'db' batch_size: 2 scale: 0.5 mean_file: 'mean' } }\n"
    "layers { name: 'ip' type: INNER_PRODUCT bottom: 'data' top: 'ip' blobs_lr: 1 blobs_lr: 2\n"
    "  param: 'w' param: 'b' inner_product_param { num_output: 2 } }\n";

/* Of other forks, whose layers become several. */
static const char forks[] =
    "layer { name: 'a' type: 'BN' bottom: 'x' top: 'x' param { lr_mult: 2 } bn_param { frozen: "
    "true\n"
    "  slope_filler { value: 1 } } blobs { data: 1 } blobs { data: 2 } blobs { data: 3 }\n"
    "  blobs { data: 4 } }\n"
    "layer { name: 'b' type: 'BatchNorm' bottom: 'x' top: 'x' batch_norm_param { relu: true\n"
    "  filler { value: 1 } } blobs { data: 1 } blobs { data: 2 } blobs { data: 1 } blobs { data: 4 "
    "}\n"
    "  blobs { data: 5 } }\n"
    "layer { name: 'c' type: 'Dropout' bottom: 'x' top: 'x' dropout_param { scale_train: false } "
    "}\n";

static const char solver[] =
    "solver_type: ADAGRAD base_lr: 0.1 test_iter: 1 test_iter: 2 snapshot_prefix: 'here'\n"
    "net_param { layers { name: 'relu' type: RELU bottom: 'a' top: 'a' } }\n"
    "test_state { stage: 'one' }\n";

INTERPOSED int fsync(int fd) {
  (void)fd;
  return 0;
}

/* One thing to do; frees what it makes. */
typedef crema_status operation(const void *what, size_t size);

static crema_status read_net(const char *text, size_t size, Caffe__NetParameter **out) {
  ProtobufCMessage *message = NULL;
  crema_status status = cr_text_parse(&caffe__net_parameter__descriptor, text, size, "text",
                                      CR_UNKNOWN_ERROR, &message);
  *out = (Caffe__NetParameter *)message;
  return status == CREMA_OK ? cr_net_param_upgrade(*out, "text", NULL) : status;
}

static crema_status parse_net(const void *what, size_t size) {
  Caffe__NetParameter *net = NULL;
  crema_status status = read_net(what, size, &net);
  if (net != NULL) cr_message_free(&net->base);
  return status;
}

static crema_status parse_wire(const void *what, size_t size) {
  ProtobufCMessage *message = NULL;
  crema_status status =
      cr_wire_parse(&caffe__net_parameter__descriptor, what, size, "bytes", &message);
  cr_message_free(message);
  return status;
}

static crema_status copy(const void *what, size_t size) {
  ProtobufCMessage *made = NULL;
  (void)size;
  crema_status status = cr_message_copy(what, &made);
  cr_message_free(made);
  return status;
}

static crema_status print_text(const void *what, size_t size) {
  cr_buffer text = {0};
  (void)size;
  crema_status status = cr_text_print(what, &text);
  cr_buffer_free(&text);
  return status;
}

static crema_status print_wire(const void *what, size_t size) {
  cr_buffer bytes = {0};
  (void)size;
  crema_status status = cr_wire_print(what, &bytes);
  cr_buffer_free(&bytes);
  return status;
}

static crema_status write_files(const void *what, size_t size) {
  (void)size;
  crema_status status = cr_message_write_text(what, path_of("text"));
  return status == CREMA_OK ? cr_message_write_binary(what, path_of("wire")) : status;
}

static crema_status read_files(const void *what, size_t size) {
  Caffe__NetParameter *net = NULL;
  (void)what, (void)size;
  crema_status status = cr_net_param_read_text(path_of("text"), CR_UNKNOWN_ERROR, &net);
  if (net != NULL) cr_message_free(&net->base);
  if (status != CREMA_OK) return status;
  net = NULL;
  status = cr_net_param_read_binary(path_of("wire"), &net);
  if (net != NULL) cr_message_free(&net->base);
  return status;
}

static crema_status read_solver(const void *what, size_t size) {
  ProtobufCMessage *message = NULL;
  (void)what, (void)size;
  crema_status status = cr_message_read_text(&caffe__solver_parameter__descriptor,
                                             path_of("solver"), CR_UNKNOWN_ERROR, &message);
  if (status == CREMA_OK) {
    status = cr_solver_param_upgrade((Caffe__SolverParameter *)message, "solver");
  }
  cr_message_free(message);
  return status;
}

static void every_allocation_fails(const char *name, operation *run, const void *what, size_t size,
                                   crema_status expected) {
  assert_int_equal(run(what, size), expected); /* makes what the process keeps */
  const long before = live_blocks();
  for (long n = 0;; ++n) {
    no_memory_arm(n);
    crema_status status = run(what, size);
    bool hit = no_memory_end();
    if (live_blocks() != before) {
      fail_msg("%s, allocation %ld: %ld blocks are lost", name, n, live_blocks() - before);
    }
    if (!hit) {
      assert_int_equal(status, expected);
      assert_true(n > 0);
      print_message("%s: %ld allocations\n", name, n);
      return;
    }
    if (status == expected) continue; /* memory that is not essential causes no failure */
    if (status != CREMA_E_NO_MEMORY || crema_error_text()[0] == '\0') {
      fail_msg("%s, allocation %ld: %s: %s", name, n, crema_status_name(status),
               crema_error_text());
    }
  }
}

TEST(reading_text) {
  static const char unknown[] = "name: 'net' layer { nmae: 'x' }", open[] = "layer { name: 'x'";
  every_allocation_fails("text", parse_net, today, sizeof today - 1, CREMA_OK);
  every_allocation_fails("oldest dialect", parse_net, first, sizeof first - 1, CREMA_OK);
  every_allocation_fails("older dialect", parse_net, second, sizeof second - 1, CREMA_OK);
  every_allocation_fails("other forks", parse_net, forks, sizeof forks - 1, CREMA_OK);
  every_allocation_fails("unknown field", parse_net, unknown, sizeof unknown - 1, CREMA_E_PARSE);
  every_allocation_fails("no end", parse_net, open, sizeof open - 1, CREMA_E_PARSE);
}

TEST(messages) {
  Caffe__NetParameter *net = NULL;
  cr_buffer bytes = {0};
  ok(read_net(today, sizeof today - 1, &net));
  every_allocation_fails("copying", copy, net, 0, CREMA_OK);
  every_allocation_fails("writing text", print_text, net, 0, CREMA_OK);
  every_allocation_fails("writing bytes", print_wire, net, 0, CREMA_OK);
  ok(cr_wire_print(&net->base, &bytes));
  /* A field that the schema lacks is kept: number 2000, a text of three bytes. */
  ok(cr_buffer_append(&bytes,
                      "\x82\x7d\x03"
                      "abc",
                      6));
  every_allocation_fails("bytes", parse_wire, bytes.data, bytes.size, CREMA_OK);
  every_allocation_fails("cut bytes", parse_wire, bytes.data, bytes.size - 1, CREMA_E_CORRUPT);
  cr_buffer_free(&bytes);
  cr_message_free(&net->base);
}

TEST(files) {
  Caffe__NetParameter *net = NULL;
  assert_non_null(mkdtemp(folder));
  ok(read_net(today, sizeof today - 1, &net));
  every_allocation_fails("writing files", write_files, net, 0, CREMA_OK);
  every_allocation_fails("reading files", read_files, NULL, 0, CREMA_OK);
  ok(cr_file_write(path_of("solver"), solver, sizeof solver - 1));
  every_allocation_fails("reading a solver", read_solver, NULL, 0, CREMA_OK);
  cr_message_free(&net->base);
  unlink(path_of("text"));
  unlink(path_of("wire"));
  unlink(path_of("solver"));
  /* No other file was left there. */
  assert_int_equal(rmdir(folder), 0);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
