/* solver_data_type: weights, gradients and histories of several element types. */
#include <math.h>

#include "device/backend/half.h"
#include "device/device.h"
#include "memory/math.h"
#include "solver_case.h"

enum { WEIGHTS = 6, STEPS = 6 };

/* An element type: its name, and the largest relative error of rounding to it. */
typedef struct type_row {
  const char *name;
  crema_dtype type;
  double error;
} type_row;

static const type_row types[] = {
    {"DOUBLE", CREMA_F64, 0x1p-53},
    {"FLOAT", CREMA_F32, 0x1p-24},
    {"FLOAT16", CREMA_F16, 0x1p-11},
    {"BFLOAT16", CREMA_BF16, 0x1p-8},
};

enum { TYPES = sizeof types / sizeof *types };

/* Values without the rounding of the tensor's own type. */
static void read_doubles(cr_tensor *tensor, double out[WEIGHTS]) {
  crema_devptr memory = {0};
  assert_int_equal(cr_tensor_read(tensor, cr_host_context(), (cr_format){CREMA_F64, NULL}, &memory),
                   CREMA_OK);
  memcpy(out, (const double *)memory.address, WEIGHTS * sizeof *out);
}

static double gradient(int step, int i) {
  return sin(1.3 * step + 0.7 * i) * (1 + 0.1 * i);
}

/* Gradients as the net stores them; `out` is what they became. */
static void set_gradients(crema_net *net, int step, double scale, double out[WEIGHTS]) {
  for (int p = 0; p < net->learnables; ++p) {
    float *diff;
    crema_blob *blob = net->learnable[p];
    assert_int_equal(crema_blob_mutable_cpu_diff(blob, &diff), CREMA_OK);
    for (int i = 0; i < crema_blob_count(blob); ++i) {
      diff[i] = (float)(scale * gradient(step, i + WEIGHTS * p));
    }
    assert_int_equal(cr_tensor_settle(blob->diff, net->context), CREMA_OK);
  }
  read_doubles(net->learnable[0]->diff, out);
}

static void load_typed(solver_case *c, const char *forward, const char *backward,
                       const char *history, const char *more) {
  char net[2048], text[512];
  snprintf(net, sizeof net, "default_forward_type: %s default_backward_type: %s\n%s", forward,
           backward, small_net);
  snprintf(text, sizeof text, "lr_policy: 'fixed' solver_data_type: %s %s", history, more);
  case_load(c, net, text);
}

static void expect_near(const char *what, double found, double expected, double error) {
  if (fabs(found - expected) <= error) return;
  fail_msg("%s: %.17g is not %.17g to %.3g", what, found, expected, error);
}

/* Each step is checked from the values before it, so that errors do not add up: the weight is right
 * to some units of its last place, the history is the exact one rounded once. */
static void check_steps(solver_case *c, const char *what, double weight_error, double least,
                        const type_row *history, bool adam) {
  crema_net *net = crema_solver_net(c->solver);
  cr_updater *updater = c->solver->updater;
  for (int step = 0; step < STEPS; ++step) {
    double g[WEIGHTS], w[2][WEIGHTS], m[2][WEIGHTS], v[2][WEIGHTS];
    set_gradients(net, step, 1, g);
    for (int after = 0; after < 2; ++after) {
      read_doubles(net->learnable[0]->data, w[after]);
      read_doubles(cr_updater_history(updater, 0)->data, m[after]);
      if (adam) read_doubles(cr_updater_history(updater, net->learnables)->data, v[after]);
      if (after == 0) assert_int_equal(cr_updater_run(updater, 0.125f, step), CREMA_OK);
    }
    for (int i = 0; i < WEIGHTS; ++i) {
      double slope = g[i] + 0.0625 * w[0][i], t = step + 1;
      double first = 0.5 * m[0][i] + (adam ? 0.5 : 0.125) * slope, move = first;
      if (adam) {
        double second = 0.75 * v[0][i] + 0.25 * slope * slope;
        move = 0.125 * sqrt(1 - pow(0.75, t)) / (1 - pow(0.5, t)) * first /
               (sqrt(second) + (double)1e-3f);
        expect_near(what, v[1][i], second, history->error * second + least);
      }
      expect_near(what, m[1][i], first, history->error * fabs(first) + least);
      expect_near(what, w[1][i], w[0][i] - move, weight_error);
    }
    assert_int_equal(cr_tensor_type(cr_updater_history(updater, 0)->data), history->type);
  }
}

TEST(s4_42_types_of_weight_gradient_and_history) {
  static const char *const rules[] = {
      "momentum: 0.5 weight_decay: 0.0625",
      "type: 'Adam' momentum: 0.5 momentum2: 0.75 delta: 1e-3 weight_decay: 0.0625"};
  solver_case c;
  case_begin(&c);
  for (int n = 0; n < 2 * TYPES * TYPES * TYPES; ++n) {
    const type_row *weight = &types[n / 2 % TYPES], *diff = &types[n / 2 / TYPES % TYPES];
    const type_row *history = &types[n / 2 / TYPES / TYPES];
    char what[128];
    snprintf(what, sizeof what, "rule %d, %s weight, %s gradient, %s history", n % 2, weight->name,
             diff->name, history->name);
    load_typed(&c, weight->name, diff->name, history->name, rules[n % 2]);
    crema_blob *blob = crema_solver_net(c.solver)->learnable[0];
    assert_int_equal(crema_blob_data_type(blob), weight->type);
    assert_int_equal(crema_blob_diff_type(blob), diff->type);
    bool wide = weight->type == CREMA_F64 || diff->type == CREMA_F64 || history->type == CREMA_F64;
    check_steps(&c, what, weight->type == CREMA_F64 ? 0x1p-49 : 0x1p-21, wide ? 0x1p-50 : 0x1p-22,
                history, n % 2 == 1);
  }
  case_end(&c);
}

/* What a half cannot hold becomes the largest half, in the history alone. */
TEST(s4_42_a_history_of_halves_is_clipped) {
  solver_case c;
  double g[WEIGHTS], w[WEIGHTS], start[WEIGHTS], h[WEIGHTS];
  case_begin(&c);
  load_typed(&c, "FLOAT", "FLOAT", "FLOAT16", "momentum: 0.5");
  crema_net *net = crema_solver_net(c.solver);
  read_doubles(net->learnable[0]->data, start);
  set_gradients(net, 0, 1e7, g);
  assert_int_equal(cr_updater_run(c.solver->updater, 0.125f, 0), CREMA_OK);
  read_doubles(net->learnable[0]->data, w);
  read_doubles(cr_updater_history(c.solver->updater, 0)->data, h);
  for (int i = 0; i < WEIGHTS; ++i) {
    double step = 0.125 * g[i];
    expect_near("weight", w[i], start[i] - step, fabs(step) * 0x1p-22);
    if (fabs(step) > 65504) expect_near("history", h[i], copysign(65504, step), 0);
    else expect_near("history", h[i], step, fabs(step) * 0x1p-11);
  }
  assert_true(fabs(0.125 * g[1]) > 65520);
  set_gradients(net, 0, 0, g);
  assert_int_equal(cr_updater_run(c.solver->updater, 0.125f, 1), CREMA_OK);
  read_doubles(cr_updater_history(c.solver->updater, 0)->data, h);
  expect_near("history", h[1], 32752, 0);
  case_end(&c);
}

/* A step of 1e-4 is far less than half a unit in the last place of a 16-bit weight near 1, but a
 * thousand of them are not lost. */
TEST(small_steps_add_up) {
  solver_case c;
  case_begin(&c);
  for (int t = 0; t < TYPES; ++t) {
    const uint16_t *own;
    float *weight;
    double w[WEIGHTS];
    load_typed(&c, types[t].name, types[t].name, "FLOAT", "");
    crema_net *net = crema_solver_net(c.solver);
    crema_blob *blob = net->learnable[0];
    assert_int_equal(crema_blob_mutable_cpu_data(blob, &weight), CREMA_OK);
    for (int i = 0; i < WEIGHTS; ++i) weight[i] = 1;
    for (int step = 0; step < 1000; ++step) {
      float *diff;
      assert_int_equal(crema_blob_mutable_cpu_diff(blob, &diff), CREMA_OK);
      for (int i = 0; i < WEIGHTS; ++i) diff[i] = 0x1p-10f;
      assert_int_equal(cr_tensor_settle(blob->diff, net->context), CREMA_OK);
      assert_int_equal(cr_updater_run(c.solver->updater, 0.1f, step), CREMA_OK);
      /* The net reads the weight in its own type. */
      assert_int_equal(cr_tensor_host_read(blob->data, (const void **)&own), CREMA_OK);
    }
    read_doubles(blob->data, w);
    for (int i = 0; i < WEIGHTS; ++i) expect_near(types[t].name, w[i], 1 - 100 * 0x1p-10, 1e-4);
    if (types[t].type == CREMA_BF16) assert_int_equal(own[0], cr_f32_to_bf16((float)w[0]));
    if (types[t].type == CREMA_F16) assert_int_equal(own[0], cr_f32_to_f16((float)w[0]));
  }
  case_end(&c);
}

/* The fields of a solver file are floats; what is computed from them is not rounded to floats again
 * for a net of doubles. */
TEST(doubles_are_updated_in_doubles) {
  static const char *const rules[] = {
      "lr_policy: 'exp' gamma: 0.9 momentum: 0.9 weight_decay: 0.01",
      "lr_policy: 'exp' gamma: 0.9 momentum_policy: 'opt' clip_gradients: 0.7 weight_decay: 0.01",
      "lr_policy: 'exp' gamma: 0.9 type: 'Adam' momentum: 0.9 momentum2: 0.99 weight_decay: 0.01"};
  const double gamma = (double)0.9f, base = (double)0.1f;
  solver_case c;
  case_begin(&c);
  for (int n = 0; n < 3; ++n) {
    enum { ITERATION = 3 };
    char net[2048];
    double g[WEIGHTS], before[WEIGHTS], after[WEIGHTS], norm = 0;
    cr_rate_state position = {0};
    snprintf(net, sizeof net, "default_forward_type: DOUBLE default_backward_type: DOUBLE\n%s",
             small_net);
    case_load(&c, net, rules[n]);
    double rate = cr_rate_at(&c.solver->schedule, ITERATION, 0, &position);
    expect_near("rate", rate, base * gamma * gamma * gamma, 0x1p-54);
    crema_net *made = crema_solver_net(c.solver);
    set_gradients(made, 0, 1, g);
    ok(cr_tensor_sumsq(made->learnable[0]->diff, &norm));
    double other = 0;
    ok(cr_tensor_sumsq(made->learnable[1]->diff, &other));
    read_doubles(made->learnable[0]->data, before);
    ok(cr_updater_run(c.solver->updater, rate, ITERATION));
    read_doubles(made->learnable[0]->data, after);
    double clip = n == 1 ? (double)0.7f / sqrt(norm + other) : 1;
    double m = (double)0.9f, m2 = (double)0.99f, t = ITERATION + 1;
    for (int i = 0; i < WEIGHTS; ++i) {
      double slope = clip * g[i] + (double)0.01f * before[i], move = rate * slope;
      if (n == 2) {
        move = rate * sqrt(1 - pow(m2, t)) / (1 - pow(m, t)) * (1 - m) * slope /
               (sqrt((1 - m2) * slope * slope) + (double)1e-8f);
      }
      expect_near(rules[n], after[i], before[i] - move, 0x1p-50);
    }
  }
  case_end(&c);
}

/* Where only some of weight, gradient and history are doubles, numbers are not rounded either: what
 * is computed is rounded once, to the type of the weight. */
TEST(some_doubles_are_enough) {
  static const char *const kinds[][3] = {{"FLOAT", "DOUBLE", "FLOAT"},
                                         {"FLOAT", "FLOAT", "DOUBLE"},
                                         {"DOUBLE", "FLOAT", "FLOAT"},
                                         {"FLOAT", "FLOAT", "FLOAT"}};
  solver_case c;
  case_begin(&c);
  for (int n = 0; n < 4; ++n) {
    int exact = 0;
    for (int step = 0; step < STEPS; ++step) {
      double g[WEIGHTS], before[WEIGHTS], after[WEIGHTS];
      const double rate = 0.1 * pow(0.9, step + 1), decay = (double)0.01f;
      load_typed(&c, kinds[n][0], kinds[n][1], kinds[n][2], "weight_decay: 0.01");
      crema_net *net = crema_solver_net(c.solver);
      set_gradients(net, step, 1e3, g);
      read_doubles(net->learnable[0]->data, before);
      ok(cr_updater_run(c.solver->updater, rate, step));
      read_doubles(net->learnable[0]->data, after);
      for (int i = 0; i < WEIGHTS; ++i) {
        const double wanted = before[i] - rate * (g[i] + decay * before[i]);
        if (n == 2) exact += fabs(after[i] - wanted) < 1e-12;
        else exact += after[i] == (double)(float)wanted;
      }
    }
    if (n < 3) assert_int_equal(exact, STEPS * WEIGHTS);
    else assert_true(exact < STEPS * WEIGHTS); /* else nothing was shown */
  }
  case_end(&c);
}

/* ---- resuming ---- */

static void train_on(solver_case *c, int64_t iterations, double w[WEIGHTS], double h[WEIGHTS]) {
  assert_int_equal(crema_solver_step(c->solver, iterations), CREMA_OK);
  read_doubles(crema_solver_net(c->solver)->learnable[0]->data, w);
  read_doubles(cr_updater_history(c->solver->updater, 0)->data, h);
}

TEST(states_resume_bit_for_bit) {
  static const char *const rules[] = {"momentum: 0.9", "type: 'Adam' momentum: 0.9",
                                      "momentum: 0.9 snapshot_format: HDF5"};
  solver_case c;
  case_begin(&c);
  c.options.feed = case_feed;
  for (int n = 0; n < 3 * TYPES * TYPES; ++n) {
    const char *net = types[n / 3 % TYPES].name, *history = types[n / 3 / TYPES].name;
    double w[3][WEIGHTS], h[3][WEIGHTS];
    char path[256];
    load_typed(&c, net, net, history, rules[n % 3]);
    case_train_and_save(&c, 4);
    train_on(&c, 4, w[0], h[0]);
    load_typed(&c, net, net, history, rules[n % 3]);
    case_path(&c, n % 3 == 2 ? "s_iter_4.solverstate.h5" : "s_iter_4.solverstate", path);
    assert_int_equal(crema_solver_restore(c.solver, path), CREMA_OK);
    train_on(&c, 4, w[1], h[1]);
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    assert_memory_equal(h[0], h[1], sizeof h[0]);
  }
  case_end(&c);
}

/* A history that was kept in another type is rounded when it is taken over, not later. */
TEST(histories_are_rounded_when_resumed) {
  solver_case c;
  case_begin(&c);
  c.options.feed = case_feed;
  for (int n = 0; n < TYPES * TYPES; ++n) {
    const type_row *from = &types[n % TYPES], *to = &types[n / TYPES];
    double before[WEIGHTS], after[WEIGHTS];
    char path[256];
    load_typed(&c, "FLOAT", "FLOAT", from->name, "momentum: 0.9");
    case_train_and_save(&c, 3);
    read_doubles(cr_updater_history(c.solver->updater, 0)->data, before);
    load_typed(&c, "FLOAT", "FLOAT", to->name, "momentum: 0.9");
    ok(crema_solver_restore(c.solver, case_path(&c, "s_iter_3.solverstate", path)));
    read_doubles(cr_updater_history(c.solver->updater, 0)->data, after);
    for (int i = 0; i < WEIGHTS; ++i) {
      double wanted = before[i];
      if (to->type == CREMA_F32) wanted = (double)(float)wanted;
      if (to->type == CREMA_F16) wanted = (double)cr_f16_to_f32(cr_f32_to_f16((float)wanted));
      if (to->type == CREMA_BF16) wanted = (double)cr_bf16_to_f32(cr_f32_to_bf16((float)wanted));
      assert_true(after[i] == wanted);
    }
  }
  case_end(&c);
}

TEST(refuses) {
  solver_case c;
  case_begin(&c);
  case_refuse(&c, "lr_policy: 'fixed' solver_data_type: INT", CREMA_E_UNSUPPORTED,
              "solver_data_type must be DOUBLE, FLOAT, FLOAT16 or BFLOAT16");
  case_refuse(&c, "lr_policy: 'fixed' solver_data_type: HALF", CREMA_E_PARSE,
              "3:38: \"HALF\" is not a value of caffe.Type");
  case_end(&c);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
