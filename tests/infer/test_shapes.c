/* Layers of compiled models whose values depend on shapes alone: they run when shapes have changed,
 * and in no other pass. */
#include "infer/pair.h"
#include "infer/session.h"

#define PRIORS(name, map)                                                                  \
  "layer { name: '" name "' type: 'PriorBox' bottom: '" map "' bottom: 'data' top: '" name \
  "' prior_box_param { min_size: 2 aspect_ratio: 2 variance: 0.1 } }"

/* 'map' has 4 x 3 positions for pictures of 7 x 6 and of 8 x 6. */
static const char net_text[] =
    DATA(3)
    "layer { name: 'map' type: 'Convolution' bottom: 'data' top: 'map' convolution_param { "
    "num_output: 4 kernel_size: 1 stride: 2 weight_filler { type: 'gaussian' std: 0.1 } } }"
    PRIORS("a", "map") PRIORS("b", "map")
    "layer { name: 'boxes' type: 'Concat' bottom: 'a' bottom: 'b' top: 'boxes' concat_param { "
    "axis: 2 } }"
    "layer { name: 'half' type: 'Power' bottom: 'boxes' top: 'boxes' power_param { scale: 0.5 } }"
    "layer { name: 'out' type: 'Power' bottom: 'boxes' top: 'out' power_param { power: 2 } }"
    "layer { name: 'sum' type: 'Reduction' bottom: 'map' top: 'sum' }";

static void set_extents(pair *p, int64_t high, int64_t wide) {
  uint64_t random = (uint64_t)(high * 16 + wide);
  const crema_shape shape = cr_shape_4(1, 3, high, wide);
  ok(crema_blob_reshape(crema_net_input(p->net, 0), &shape));
  draw_inputs(p->net, &random);
  ok(crema_net_forward(p->net, NULL));
}

/* The top of the layer before the output. */
static crema_blob *frozen_top(const pair *p) {
  crema_net *net = cr_session_net(p->session);
  for (int i = 0; i < net->layers; ++i) {
    if (net->layer[i].once && strcmp(net->layer[i].layer->name, "half") == 0) {
      return net->layer[i].top[0];
    }
  }
  fail_msg("'half' does not run once");
  return NULL;
}

static float first_output(const pair *p) {
  const float *values = NULL;
  for (int i = 0; i < crema_session_output_count(p->session); ++i) {
    if (strcmp(crema_session_output_name(p->session, i), "out") != 0) continue;
    ok(crema_blob_cpu_data(crema_session_output(p->session, i), &values));
  }
  assert_non_null(values);
  return values[0];
}

static bool tells(const pair *p, const char *what) {
  return strstr(crema_model_explain(p->model), what) != NULL;
}

/* Values that somebody else has put there stay until shapes change. */
TEST(they_run_when_shapes_have_changed) {
  static const int64_t high[] = {7, 8, 7, 12};
  pair p;
  open_pair(net_text, &p);
  assert_true(tells(&p, "constants: PriorBox 'a' is computed when shapes change\n"));
  assert_true(tells(&p, "constants: Concat 'boxes' is computed when shapes change\n"));
  assert_false(tells(&p, "constants: Power 'out'"));
  assert_false(tells(&p, "constants: Reduction"));
  for (size_t i = 0; i < sizeof high / sizeof high[0]; ++i) {
    float *values = NULL;
    set_extents(&p, high[i], 6);
    check_equal(&p);
    ok(crema_blob_mutable_cpu_data(frozen_top(&p), &values));
    values[0] = 5;
    ok(crema_session_run(p.session));
    assert_float_equal(first_output(&p), 25, 1e-6);
  }
  close_pair(&p);
}

TEST(blobs_that_are_asked_for_are_right) {
  pair p;
  open_pair(net_text, &p);
  for (int64_t high = 7; high < 9; ++high) {
    set_extents(&p, high, 6);
    check_blobs(&p);
  }
  close_pair(&p);
}

TEST(the_pass_can_be_left_out) {
  pair p;
  open_pair(net_text, &p);
  leave_out(&p, "constants");
  assert_false(tells(&p, "when shapes change"));
  for (int64_t high = 7; high < 9; ++high) {
    set_extents(&p, high, 6);
    check_equal(&p);
  }
  close_pair(&p);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
