/* A small net of convolutions learns alike in every element type; FLOAT16 needs the gradients'
 * factor. */
#include <math.h>

#include "core/rng.h"
#include "solver_case.h"

enum { BATCH = 16, SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 4, ITERATIONS = 100 };

/* With so small a weight of the loss, gradients are nearer to zero than to the smallest half,
 * 2^-24. The rate makes up for it: 0.1 * 2^18 for this weight is 0.0125 for a weight of 1. */
#define LOSS_WEIGHT 0x1p-21
#define RATES "param { lr_mult: 262144 } param { lr_mult: 262144 }\n"
#define SETTINGS                                                                \
  "lr_policy: 'fixed' momentum: 0.9 max_iter: 100 display: 0 average_loss: 20 " \
  "snapshot_after_train: false"

static const char *const net_text =
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
    "  input_param { shape { dim: 16 dim: 1 dim: 8 dim: 8 } shape { dim: 16 } } }\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'\n" RATES
    "  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'\n"
    "  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool' top: 'ip1'\n" RATES
    "  inner_product_param { num_output: 16 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n"
    "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'\n" RATES
    "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss'\n"
    "  loss_weight: 4.76837158203125e-7 }\n";

typedef struct lesson {
  float pattern[CLASSES][PIXELS];
  double loss;
} lesson;

/* A random pattern for each class, with noise that depends on the pass only. */
static crema_status feed(void *user, crema_net *net, int64_t pass) {
  const lesson *l = user;
  float *data, *label;
  cr_mt19937 rng;
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &label));
  cr_mt19937_seed(&rng, (uint32_t)pass);
  for (int i = 0; i < BATCH; ++i) {
    uint32_t class = cr_mt19937_below(&rng, CLASSES);
    label[i] = (float)class;
    for (int k = 0; k < PIXELS; ++k) {
      data[i * PIXELS + k] = l->pattern[class][k] + cr_mt19937_normal(&rng);
    }
  }
  return CREMA_OK;
}

static void keep_loss(void *user, const crema_solver_progress *p) {
  lesson *l = user;
  l->loss = p->loss / LOSS_WEIGHT;
}

/* The mean of the last 20 of 100 losses. */
static double trained(solver_case *c, const char *type, double scale) {
  static lesson l;
  cr_mt19937 rng;
  char net[4096];
  cr_mt19937_seed(&rng, 1);
  for (int i = 0; i < CLASSES * PIXELS; ++i) {
    l.pattern[i / PIXELS][i % PIXELS] = cr_mt19937_normal(&rng);
  }
  snprintf(net, sizeof net,
           "default_forward_type: %s default_backward_type: %s global_grad_scale: %g\n%s", type,
           type, scale, net_text);
  c->options.feed = feed;
  c->options.progress = keep_loss;
  c->options.user = &l;
  case_load(c, net, SETTINGS);
  ok(crema_solver_solve(c->solver));
  return l.loss;
}

CASE_TEST(every_type_learns_alike) {
  static const struct {
    const char *type;
    crema_dtype blobs;
    double scale, tolerance; /* of the loss, against DOUBLE */
  } rows[] = {{"FLOAT", CREMA_F32, 1, 1e-5},
              {"FLOAT16", CREMA_F16, 65536, 2e-3},
              {"BFLOAT16", CREMA_BF16, 1, 5e-3}};
  solver_case *c = *state;
  double exact = trained(c, "DOUBLE", 1);
  print_message("DOUBLE: loss %.6f after %d iterations\n", exact, ITERATIONS);
  assert_true(exact < 0.1 * log(CLASSES));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    double loss = trained(c, rows[i].type, rows[i].scale);
    crema_blob *blob = NULL;
    print_message("%s: %+.6f\n", rows[i].type, loss - exact);
    ok(crema_net_blob(crema_solver_net(c->solver), "pool", &blob));
    assert_int_equal(crema_blob_data_type(blob), rows[i].blobs);
    assert_int_equal(crema_blob_diff_type(blob), rows[i].blobs);
    assert_true(fabs(loss - exact) < rows[i].tolerance);
  }
}

/* Gradients of these sizes are lost in halves without a factor; with one they are not. */
CASE_TEST(small_gradients_are_lost_without_a_factor) {
  solver_case *c = *state;
  double scaled = trained(c, "FLOAT16", 65536), bare = trained(c, "FLOAT16", 1);
  print_message("FLOAT16 without a factor: loss %.6f, with one %.6f\n", bare, scaled);
  assert_true(scaled < 0.5 * log(CLASSES));
  assert_true(bare > 0.9 * log(CLASSES));
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
