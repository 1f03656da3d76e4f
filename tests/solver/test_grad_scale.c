/* global_grad_scale and global_grad_scale_adaptive: training does not depend on the factor. */
#include <math.h>

#include "solver_case.h"

enum { WEIGHTS = 6 };

#define INPUT(shape)                                                   \
  "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"        \
  "  input_param { shape { dim: 4 dim: 3 } shape { " shape             \
  " } } }\n"                                                           \
  "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n" \
  "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
#define LOSS(type, more) \
  "layer { name: 'loss' type: '" type "' bottom: 'ip' bottom: 'label' top: 'loss' " more " }\n"

/* One net per loss. */
static const char *const losses[] = {
    INPUT("dim: 4") LOSS("SoftmaxWithLoss", "loss_weight: 0.3"),
    INPUT("dim: 4") LOSS("HingeLoss", "hinge_loss_param { norm: L2 }"),
    INPUT("dim: 4 dim: 2") LOSS("EuclideanLoss", ""),
    INPUT("dim: 4 dim: 2") LOSS("SigmoidCrossEntropyLoss", ""),
    INPUT("dim: 4")
    "layer { name: 'pair' type: 'InnerProduct' bottom: 'data' top: 'pair'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'ContrastiveLoss' bottom: 'ip' bottom: 'pair' bottom: 'label'\n"
    "  top: 'loss' }\n",
    INPUT("dim: 4") "layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }\n"
    "layer { name: 'loss' type: 'MultinomialLogisticLoss' bottom: 'prob' bottom: 'label'\n"
    "  top: 'loss' }\n",
    INPUT("dim: 4") "layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }\n"
    "layer { name: 'gain' type: 'DummyData' top: 'gain' dummy_data_param {\n"
    "  shape { dim: 1 dim: 1 dim: 2 dim: 2 } data_filler { type: 'constant' value: 0.7 } } }\n"
    "layer { name: 'loss' type: 'InfogainLoss' bottom: 'prob' bottom: 'label' bottom: 'gain'\n"
    "  top: 'loss' }\n",
    /* Two losses, one of which is a plain layer with a loss_weight. */
    INPUT("dim: 4") LOSS("SoftmaxWithLoss", "")
    "layer { name: 'size' type: 'Reduction' bottom: 'ip' top: 'size' loss_weight: 0.01\n"
    "  reduction_param { operation: SUMSQ } }\n",
};

enum { LOSSES = sizeof losses / sizeof *losses };

/* As case_feed, for labels of any number. */
static crema_status feed(void *user, crema_net *net, int64_t pass) {
  float *data, *label;
  (void)user;
  crema_blob *labels = crema_net_input(net, 1);
  crema_status status = crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data);
  if (status == CREMA_OK) status = crema_blob_mutable_cpu_data(labels, &label);
  if (status != CREMA_OK) return status;
  for (int i = 0; i < 12; ++i) data[i] = (float)((i * 7 + pass * 5) % 11) / 11.0f - 0.4f;
  for (int i = 0; i < crema_blob_count(labels); ++i) label[i] = (float)((i + pass) % 2);
  return CREMA_OK;
}

static void load_scaled(solver_case *c, const char *net, const char *head, const char *text) {
  char whole[2048], solver[512];
  snprintf(whole, sizeof whole, "%s\n%s", head, net);
  snprintf(solver, sizeof solver, "lr_policy: 'fixed' %s", text);
  c->options.feed = feed;
  case_load(c, whole, solver);
}

static const char *const rules[] = {
    "momentum: 0.9 weight_decay: 0.01",
    "momentum: 0.9 clip_gradients: 0.02",
    "momentum: 0.9 iter_size: 3 clip_gradients: 0.05",
    "momentum: 0.9 larc: true larc_eta: 0.1",
    "momentum: 0.9 larc: true larc_policy: 'clip' larc_turbo: true clip_gradients: 0.1",
    "type: 'Adam' momentum: 0.9 iter_size: 2",
    "type: 'RMSProp' rms_decay: 0.9 delta: 1e-3",
};

enum { RULES = sizeof rules / sizeof *rules };

TEST(s4_43_powers_of_two_change_no_bit) {
  static const char *const heads[] = {"", "global_grad_scale: 1024",
                                      "global_grad_scale: 0.0078125"};
  (void)state;
  solver_case c;
  case_begin(&c);
  for (int n = 0; n < LOSSES + RULES; ++n) {
    /* Each loss with the first rule, each rule with the first loss. */
    const char *net = losses[n < LOSSES ? n : 0], *rule = rules[n < LOSSES ? 0 : n - LOSSES];
    float start[WEIGHTS], expected[WEIGHTS], found[WEIGHTS];
    for (int h = 0; h < 3; ++h) {
      load_scaled(&c, net, heads[h], rule);
      if (h == 0) case_weights(&c, start);
      ok(crema_solver_step(c.solver, 5));
      case_weights(&c, h == 0 ? expected : found);
      if (h > 0 && memcmp(found, expected, sizeof found) != 0) {
        fail_msg("%s, %s: %s gives other weights", net, rule, heads[h]);
      }
    }
    assert_memory_not_equal(start, expected, sizeof start);
  }
  case_end(&c);
}

/* Any other factor only rounds otherwise. */
TEST(s4_43_any_factor) {
  float expected[WEIGHTS], found[WEIGHTS];
  (void)state;
  solver_case c;
  case_begin(&c);
  for (int r = 0; r < RULES; ++r) {
    load_scaled(&c, losses[0], "", rules[r]);
    assert_int_equal(crema_solver_step(c.solver, 5), CREMA_OK);
    case_weights(&c, expected);
    load_scaled(&c, losses[0], "global_grad_scale: 333", rules[r]);
    assert_int_equal(crema_solver_step(c.solver, 5), CREMA_OK);
    case_weights(&c, found);
    for (int i = 0; i < WEIGHTS; ++i) assert_true(fabsf(found[i] - expected[i]) < 1e-5f);
  }
  case_end(&c);
}

/* What debug_info shows and what clipping tells are gradients without the factor. */
TEST(reports_are_without_the_factor) {
  static log_lines lines[2];
  (void)state;
  solver_case c;
  case_begin(&c);
  for (int h = 0; h < 2; ++h) {
    char *to = lines[h].text;
    load_scaled(&c, losses[0], h == 0 ? "" : "global_grad_scale: 4096",
                "debug_info: true display: 1 clip_gradients: 0.01");
    listen(&lines[h]);
    assert_int_equal(crema_solver_step(c.solver, 3), CREMA_OK);
    crema_log_set(NULL, NULL, CREMA_LOG_WARNING);
    /* Without the lines that tell times. */
    assert_int_equal(count_lines(&lines[h], "[Backward]"), 3 * 4);
    assert_int_equal(count_lines(&lines[h], "Gradient clipping"), 3);
    for (const char *at = lines[h].text; *at != '\0';) {
      const char *end = strchr(at, '\n') + 1;
      const char *speed = strstr(at, " iter/s");
      if (speed == NULL || speed >= end) {
        memmove(to, at, (size_t)(end - at));
        to += end - at;
      }
      at = end;
    }
    *to = '\0';
  }
  assert_string_equal(lines[0].text, lines[1].text);
  case_end(&c);
}

/* ---- adaptive ---- */

#define HALVES "default_forward_type: FLOAT16 default_backward_type: FLOAT16 "
#define ADAPTIVE "global_grad_scale_adaptive: true "

/* The largest finite gradient, as it is in the diffs. */
static double largest(crema_net *net) {
  double max = 0;
  for (int p = 0; p < net->learnables; ++p) {
    const float *diff;
    assert_int_equal(crema_blob_cpu_diff(net->learnable[p], &diff), CREMA_OK);
    for (int i = 0; i < crema_blob_count(net->learnable[p]); ++i) {
      if (isfinite(diff[i])) max = fmax(max, fabs((double)diff[i]));
    }
  }
  return max;
}

TEST(s4_43_the_factor_follows_the_gradients) {
  solver_case c;
  case_begin(&c);
  load_scaled(&c, losses[0], HALVES ADAPTIVE "global_grad_scale: 100", "momentum: 0.9");
  crema_net *net = crema_solver_net(c.solver);
  assert_true(net->grad_scale == 1);
  for (int step = 0; step < 6; ++step) {
    const double before = net->grad_scale;
    assert_int_equal(crema_solver_step(c.solver, 1), CREMA_OK);
    double max = largest(net);
    assert_true(fabs(net->grad_scale * max / before - 400) < 1e-6);
    /* Gradients change little from step to step, so the largest is near 400. */
    if (step > 0) assert_in_range((int)max, 100, 1600);
  }
  assert_int_equal(c.solver->scaling.skipped, 0);
  case_end(&c);
}

/* Without gradients in half precision, and where all are zero or none is finite. */
TEST(s4_43_nothing_to_follow) {
  static const char *const heads[] = {ADAPTIVE "global_grad_scale: 100", ADAPTIVE
                                      "global_grad_scale: 100 default_forward_type: BFLOAT16 "
                                      "default_backward_type: BFLOAT16"};
  double next;
  bool skip;
  (void)state;
  solver_case c;
  case_begin(&c);
  for (int h = 0; h < 2; ++h) {
    load_scaled(&c, losses[0], heads[h], "");
    assert_int_equal(crema_solver_step(c.solver, 3), CREMA_OK);
    assert_true(crema_solver_net(c.solver)->grad_scale == 1);
  }
  load_scaled(&c, losses[0], HALVES ADAPTIVE "global_grad_scale: 100", "");
  crema_net *net = crema_solver_net(c.solver);
  assert_int_equal(crema_solver_step(c.solver, 2), CREMA_OK);
  assert_true(net->grad_scale != 1);
  crema_net_clear_param_diffs(net);
  assert_int_equal(cr_grad_scale_next(c.solver, &next, &skip), CREMA_OK);
  assert_true(next == 1 && !skip);
  /* A fixed factor stays. */
  load_scaled(&c, losses[0], HALVES "global_grad_scale: 64", "");
  assert_int_equal(crema_solver_step(c.solver, 3), CREMA_OK);
  assert_true(crema_solver_net(c.solver)->grad_scale == 64);
  case_end(&c);
}

/* With 4 million for the largest gradient, those of the scores do not fit. The factor comes down to
 * one with which they do, and stays there. */
TEST(updates_are_skipped_until_gradients_fit) {
  static const char head[] = HALVES ADAPTIVE "global_grad_scale: 1e6";
  static log_lines lines;
  float before[WEIGHTS], after[WEIGHTS];
  char path[256];
  int64_t skipped = 0;
  (void)state;
  solver_case c;
  case_begin(&c);
  load_scaled(&c, losses[0], head, "momentum: 0.9 snapshot_diff: true");
  crema_net *net = crema_solver_net(c.solver);
  listen(&lines);
  for (int i = 0; i < 100; ++i) {
    const double scale = net->grad_scale;
    if (i == 4) assert_int_equal(crema_solver_snapshot(c.solver), CREMA_OK);
    case_weights(&c, before);
    assert_int_equal(crema_solver_step(c.solver, 1), CREMA_OK);
    case_weights(&c, after);
    assert_int_equal(memcmp(before, after, sizeof before) == 0,
                     c.solver->scaling.skipped > skipped);
    if (c.solver->scaling.skipped > skipped) {
      ++skipped;
      assert_true(net->grad_scale <= scale / 2 && c.solver->scaling.limit == scale / 2);
      assert_true(largest(net) == 0); /* the step */
    }
    assert_int_equal(c.solver->scaling.skipped, skipped);
    assert_int_equal(crema_solver_iteration(c.solver), i + 1);
    if (i == 3) assert_true(skipped > 0);
    if (i == 60) lines.size = 0; /* none later */
  }
  crema_log_set(NULL, NULL, CREMA_LOG_WARNING);
  assert_in_range(skipped, 4, 30);
  assert_true(lines.size == 0 || count_lines(&lines, "is skipped") == 0);
  /* The state has the factor, its limit and the count. */
  const double scale = net->grad_scale;
  const cr_scaling scaling = c.solver->scaling;
  load_scaled(&c, losses[0], head, "momentum: 0.9");
  assert_int_equal(crema_solver_restore(c.solver, case_path(&c, "s_iter_4.solverstate", path)),
                   CREMA_OK);
  listen(&lines);
  assert_int_equal(crema_solver_step(c.solver, 96), CREMA_OK);
  crema_log_set(NULL, NULL, CREMA_LOG_WARNING);
  case_weights(&c, before);
  assert_memory_equal(before, after, sizeof before);
  assert_int_equal(c.solver->scaling.skipped, skipped);
  assert_true(crema_solver_net(c.solver)->grad_scale == scale);
  assert_true(c.solver->scaling.limit == scaling.limit);
  assert_int_equal(c.solver->scaling.updates, scaling.updates);
  char last[64];
  snprintf(last, sizeof last, "the update is skipped (%d so far)", (int)skipped);
  assert_int_equal(count_lines(&lines, last), 1);
  assert_true(count_lines(&lines, ": gradients are not finite with a factor of") < (int)skipped);
  case_end(&c);
}

/* Gradients of the first product are in FLOAT and come through a blob in FLOAT16, in which they do
 * not fit; those of the second one do. */
static const char mixed_net[] = HALVES ADAPTIVE
    "global_grad_scale: 256\n"
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label' forward_type: FLOAT\n"
    "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' backward_type: FLOAT\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'act' type: 'ReLU' bottom: 'ip' top: 'act' relu_param { negative_slope: 1 } }\n"
    "layer { name: 'top' type: 'InnerProduct' bottom: 'act' top: 'top'\n"
    "  inner_product_param { num_output: 2 bias_term: false\n"
    "    weight_filler { type: 'constant' value: 20000 } } }\n"
    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'top' bottom: 'label' top: 'loss' }\n";

TEST(gradients_of_other_types_are_looked_at_too) {
  float before[WEIGHTS], after[WEIGHTS];
  (void)state;
  solver_case c;
  case_begin(&c);
  load_scaled(&c, mixed_net, "", "base_lr: 1e-12");
  crema_net *net = crema_solver_net(c.solver);
  assert_int_equal(cr_tensor_type(net->learnable[0]->diff), CREMA_F32);
  int64_t skipped = 0;
  for (int i = 0; i < 40; ++i) {
    case_weights(&c, before);
    ok(crema_solver_step(c.solver, 1));
    case_weights(&c, after);
    for (int k = 0; k < WEIGHTS; ++k) assert_true(isfinite(after[k]));
    assert_int_equal(memcmp(before, after, sizeof before) == 0,
                     c.solver->scaling.skipped > skipped);
    skipped = c.solver->scaling.skipped;
  }
  assert_in_range(skipped, 1, 30); /* in the end they fit */
  case_end(&c);
}

/* After a thousand good updates the limit is tried again. */
TEST(limits_are_raised_again) {
  double next;
  bool skip;
  (void)state;
  solver_case c;
  case_begin(&c);
  load_scaled(&c, losses[0], HALVES ADAPTIVE "global_grad_scale: 1000", "");
  crema_net *net = crema_solver_net(c.solver);
  float *diff;
  assert_int_equal(crema_blob_mutable_cpu_diff(net->learnable[0], &diff), CREMA_OK);
  for (int i = 0; i < WEIGHTS; ++i) diff[i] = 0.5f;
  c.solver->scaling.limit = 8;
  for (int i = 1; i <= 2000; ++i) {
    assert_int_equal(cr_grad_scale_next(c.solver, &next, &skip), CREMA_OK);
    assert_true(!skip && next == (i < 1000 ? 8 : i < 2000 ? 16 : 32));
  }
  case_end(&c);
}

/* Beyond these, factors only turn values into zeros or infinities. */
TEST(factors_have_bounds) {
  static const struct {
    const char *head;
    double limit, next;
  } rows[] = {{HALVES ADAPTIVE "global_grad_scale: 1e30", 0x1p60, 0x1p60},
              {HALVES ADAPTIVE "global_grad_scale: 1e30", 0x1p59, 0x1p59},
              {HALVES ADAPTIVE "global_grad_scale: 1e-30", 0x1p60, 0x1p-60}};
  (void)state;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    double next = 0;
    bool skip = true;
    float *diff;
    solver_case c;
    case_begin(&c);
    load_scaled(&c, losses[0], rows[r].head, "");
    assert_true(c.solver->scaling.limit == 0x1p60);
    assert_int_equal(crema_blob_mutable_cpu_diff(c.solver->net->learnable[0], &diff), CREMA_OK);
    for (int i = 0; i < WEIGHTS; ++i) diff[i] = i == 3 ? -0.5f : 0.25f;
    c.solver->scaling.limit = rows[r].limit;
    c.solver->scaling.updates = 999;
    c.solver->scaling.skipped_in_row = 3;
    assert_int_equal(cr_grad_scale_next(c.solver, &next, &skip), CREMA_OK);
    /* The thousandth update doubles the limit, but not beyond the bound. */
    assert_true(!skip &&
                next == fmin(rows[r].next == 0x1p-60 ? 0x1p-60 : 0x1p60, 2 * rows[r].limit));
    assert_int_equal(c.solver->scaling.updates, 1000);
    assert_int_equal(c.solver->scaling.skipped_in_row, 0);
    case_end(&c);
  }
}

static void spoil_gradient(crema_net *net, float value) {
  float *diff;
  assert_int_equal(crema_blob_mutable_cpu_diff(net->learnable[0], &diff), CREMA_OK);
  for (int i = 0; i < WEIGHTS; ++i) diff[i] = 0.5f;
  diff[WEIGHTS - 1] = value;
}

/* Gradients that no factor makes finite end training, unless the caller wants to go on. */
TEST(skipping_has_an_end) {
  solver_case c;
  case_begin(&c);
  for (int on_nan = 0; on_nan < 2; ++on_nan) {
    double next = 0;
    bool skip;
    crema_status status = CREMA_OK;
    int calls = 0;
    c.options.on_nan = on_nan == 0 ? CREMA_SOLVER_NAN_STOP : CREMA_SOLVER_NAN_WARN;
    load_scaled(&c, losses[0], HALVES ADAPTIVE "global_grad_scale: 8", "");
    crema_net *net = crema_solver_net(c.solver);
    for (; status == CREMA_OK && calls < 200; ++calls) {
      spoil_gradient(net, calls % 2 == 0 ? NAN : -INFINITY);
      status = cr_grad_scale_next(c.solver, &next, &skip);
      if (status == CREMA_OK) assert_true(skip && next <= fmax(net->grad_scale / 2, 0x1p-60));
      cr_net_set_grad_scale(net, next);
    }
    assert_int_equal(status, on_nan == 0 ? CREMA_E_NUMERIC : CREMA_OK);
    assert_int_equal(calls, on_nan == 0 ? 65 : 200);
    if (on_nan == 0) assert_non_null(strstr(crema_error_text(), "gradients are not finite"));
  }
  /* A good one in between begins the count anew. */
  c.options.on_nan = CREMA_SOLVER_NAN_STOP;
  load_scaled(&c, losses[0], HALVES ADAPTIVE "global_grad_scale: 8", "");
  for (int i = 0; i < 200; ++i) {
    double next;
    bool skip;
    spoil_gradient(crema_solver_net(c.solver), i % 50 == 49 ? 0 : NAN);
    assert_int_equal(cr_grad_scale_next(c.solver, &next, &skip), CREMA_OK);
    assert_int_equal(skip, i % 50 != 49);
  }
  assert_int_equal(c.solver->scaling.skipped, 196);
  case_end(&c);
}

TEST(altered_states_are_refused) {
  static const struct {
    double scale, limit;
    int64_t updates, skipped;
  } wrong[] = {{0, 1, 0, 0},        {-1, 1, 0, 0}, {NAN, 1, 0, 0}, {INFINITY, 1, 0, 0},
               {1, INFINITY, 0, 0}, {1, 0, 0, 0},  {1, 1, -1, 0},  {1, 1, 0, -1}};
  ProtobufCMessage *message = NULL;
  char path[256];
  (void)state;
  solver_case c;
  case_begin(&c);
  load_scaled(&c, losses[0], HALVES ADAPTIVE "global_grad_scale: 8", "");
  case_train_and_save(&c, 2);
  assert_int_equal(cr_message_read_binary(&caffe__solver_state__descriptor,
                                          case_path(&c, "s_iter_2.solverstate", path), &message),
                   CREMA_OK);
  Caffe__SolverState *saved = (Caffe__SolverState *)message;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    saved->crema_state->grad_scale = wrong[i].scale;
    saved->crema_state->grad_scale_limit = wrong[i].limit;
    saved->crema_state->updates = wrong[i].updates;
    saved->crema_state->skipped = wrong[i].skipped;
    assert_int_equal(cr_message_write_binary(message, case_path(&c, "new.solverstate", path)),
                     CREMA_OK);
    assert_int_equal(crema_solver_restore(c.solver, path), CREMA_E_CORRUPT);
    assert_non_null(strstr(crema_error_text(), "not possible"));
  }
  cr_message_free(message);
  case_end(&c);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
