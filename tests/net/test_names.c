/* Layers that are found by their names: for weights, for samples, for rules. */
#include <stdlib.h>
#include <unistd.h>

#include "crema/memory_data.h"
#include "folder.h"
#include "net_case.h"

/* ---- one name, two layers ---- */

#define IP(name, bottom, top)                                                     \
  "layer { name: '" name "' type: 'InnerProduct' bottom: '" bottom "' top: '" top \
  "' inner_product_param { num_output: 2 bias_term: false } }\n"

/* The first takes what a file has under the name, and a layer without a name takes nothing. */
TEST(the_first_of_a_name_takes_the_weights) {
  crema_net *from = build(INPUT("data", DIM2(1, 2)) IP("same", "data", "a"), CREMA_TRAIN);
  fill(param_of(from, "same", 0), 5, 1);
  ok(crema_net_save_weights(from, path_of("w.caffemodel.h5")));
  crema_net_destroy(from);
  crema_net *net =
      build(INPUT("data", DIM2(1, 2)) IP("same", "data", "a") IP("same", "a", "b") IP("", "b", "c"),
            CREMA_TRAIN);
  for (int i = 1; i <= 3; ++i) fill(crema_net_layer_param(net, i, 0), (float)(10 * i), 0);
  ok(crema_net_load_weights(net, path_of("w.caffemodel.h5")));
  for (int k = 0; k < 4; ++k) {
    assert_true(data_of(crema_net_layer_param(net, 1, 0))[k] == (float)(5 + k));
    assert_true(data_of(crema_net_layer_param(net, 2, 0))[k] == 20);
    assert_true(data_of(crema_net_layer_param(net, 3, 0))[k] == 30);
  }
  crema_net_destroy(net);
  unlink(path_of("w.caffemodel.h5"));
}

/* ---- rules ---- */

#define RULES(more) \
  "layer { name: 'both' type: 'ReLU' bottom: 'data' top: 'data' include { phase: TRAIN } " more " }"

/* A layer may have rules of one kind only. */
TEST(rules_of_both_kinds_are_refused) {
  refuse(RULES("exclude { phase: TEST }") INPUT("data", DIM2(1, 2)), CREMA_E_ARGUMENT,
         WORDS("both", "has include and exclude rules; give one kind only"));
  refuse(INPUT("data", DIM2(1, 2)) RULES("exclude { phase: TEST }"), CREMA_E_ARGUMENT,
         WORDS("both", "has include and exclude rules; give one kind only"));
  crema_net_destroy(build(INPUT("data", DIM2(1, 2)) RULES("include { phase: TEST }"), CREMA_TRAIN));
}

/* ---- samples ---- */

static const char *const sampled =
    "layer { name: 'mem' type: 'MemoryData' top: 'x' top: 'y' memory_data_param {\n"
    "  batch_size: 2 channels: 1 height: 1 width: 2 } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'x' top: 'z' }\n";

TEST(samples_reach_the_layer_of_the_name) {
  float data[8] = {1, 2, 3, 4, 5, 6, 7, 8}, labels[4] = {10, 20, 30, 40};
  crema_net *net = build(sampled, CREMA_TEST);
  ok(crema_memory_data_set(net, "mem", data, labels, 4));
  for (int batch = 0; batch < 4; ++batch) {
    ok(crema_net_forward(net, NULL));
    int first = batch % 2 == 0 ? 0 : 2;
    for (int i = 0; i < 4; ++i) assert_true(data_of(blob_of(net, "x"))[i] == data[2 * first + i]);
    for (int i = 0; i < 2; ++i) assert_true(data_of(blob_of(net, "y"))[i] == labels[first + i]);
  }
  ok(crema_memory_data_set_batch_size(net, "mem", 1));
  ok(crema_memory_data_set(net, "mem", data + 2, labels + 1, 1));
  ok(crema_net_forward(net, NULL));
  assert_int_equal(crema_blob_count(blob_of(net, "x")), 2);
  assert_true(data_of(blob_of(net, "x"))[1] == 4);
  assert_true(data_of(blob_of(net, "y"))[0] == 20);
  crema_net_destroy(net);
}

TEST(other_layers_take_no_samples) {
  static const struct {
    const char *layer, *says;
    crema_status status;
  } rows[] = {{"none", "the net has no layer 'none'", CREMA_E_UNKNOWN_NAME},
              {"relu", "takes no samples; only MemoryData layers do", CREMA_E_TYPE}};
  float values[4] = {0};
  uint8_t pixel[2] = {0};
  crema_labeled_image image = {.pixels = pixel, .width = 2, .height = 1, .channels = 1};
  crema_net *net = build(sampled, CREMA_TEST);
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(crema_memory_data_set(net, rows[i].layer, values, values, 2), rows[i].status);
    assert_names(WORDS(rows[i].says));
    assert_int_equal(crema_memory_data_set_images(net, rows[i].layer, &image, 1), rows[i].status);
    assert_names(WORDS(rows[i].says));
    assert_int_equal(crema_memory_data_set_batch_size(net, rows[i].layer, 1), rows[i].status);
    assert_names(WORDS(rows[i].says));
  }
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
