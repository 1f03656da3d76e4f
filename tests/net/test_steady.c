/* A net that runs at unchanged shapes asks for no memory. Under a sanitizer, where nothing is
 * counted, only the run is checked. */
#include <stdlib.h>

#include "allocations.h"
#include "net_case.h"

#define NET \
  INPUT("data", DIM4(4, 3, 12, 12)) INPUT("label", "dim: 4")                                  \
  "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param {"   \
  "  num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n"              \
  "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }\n"                          \
  "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'"                           \
  "  pooling_param { kernel_size: 2 stride: 2 } }\n"                                          \
  "layer { name: 'lrn' type: 'LRN' bottom: 'pool' top: 'lrn' lrn_param { local_size: 3 } }\n" \
  "layer { name: 'a' type: 'Convolution' bottom: 'lrn' top: 'a' convolution_param {"          \
  "  num_output: 8 kernel_size: 1 weight_filler { type: 'xavier' } } }\n"                     \
  "layer { name: 'cat' type: 'Concat' bottom: 'a' bottom: 'lrn' top: 'cat' }\n"               \
  "layer { name: 'fc' type: 'InnerProduct' bottom: 'cat' top: 'fc' inner_product_param {"     \
  "  num_output: 10 weight_filler { type: 'xavier' } } }\n"                                   \
  "layer { name: 'sig' type: 'Sigmoid' bottom: 'fc' top: 'fc' }\n"                            \
  "layer { name: 'drop' type: 'Dropout' bottom: 'fc' top: 'drop' }\n"                         \
  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'drop' bottom: 'label' top: 'loss' }\n"

static long count_layer(crema_net *net, int index, bool forward) {
  long before = own_allocations();
  double loss = 0.0;
  if (forward) ok(cr_net_forward_range(net, index, index, &loss));
  else ok(cr_net_backward_range(net, index, index));
  return own_allocations() - before;
}

/* One pass; each layer that allocates is named. */
static long count_pass(crema_net *net) {
  long total = 0;
  for (int i = 0; i < 2 * net->layers; ++i) {
    bool forward = i < net->layers;
    int index = forward ? i : 2 * net->layers - 1 - i;
    long count = count_layer(net, index, forward);
    if (count > 0) {
      print_message("%s %s: %ld allocations\n", crema_net_layer_name(net, index),
                    forward ? "forward" : "backward", count);
    }
    total += count;
  }
  crema_net_clear_param_diffs(net);
  return total;
}

TEST(running_allocates_nothing) {
  crema_net *net = build(NET, CREMA_TRAIN);
  fill(blob_of(net, "data"), -1.0f, 0.001f);
  fill(blob_of(net, "label"), 0.0f, 1.0f);
  for (int warm = 0; warm < 3; ++warm) {
    ok(crema_net_forward(net, NULL));
    ok(crema_net_backward(net));
    crema_net_clear_param_diffs(net);
  }
  long total = 0;
  for (int pass = 0; pass < 3; ++pass) total += count_pass(net);
  assert_int_equal(total, 0);
  if (COUNTS) { /* The counter counts at all. */
    long before = own_allocations();
    crema_net_destroy(build(NET, CREMA_TRAIN));
    assert_true(own_allocations() > before);
  }
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
