/* Nets of 16 bits: what a snapshot keeps of weights that are trained in full precision. */
#include "solver_case.h"

#define SOLVER "lr_policy: 'fixed' momentum: 0.9 "

static void net_of(const char *type, char text[2048]) {
  snprintf(text, 2048, "default_forward_type: %s default_backward_type: %s\n%s", type, type,
           small_net);
}

static void read_weights(const solver_case *c, double out[6]) {
  const void *values = NULL;
  ok(crema_blob_data_as(crema_solver_net(c->solver)->learnable[0], CREMA_F64, &values));
  memcpy(out, values, 6 * sizeof *out);
}

/* 20 iterations are 10, a snapshot, a resume and 10. */
static void check(const char *type, const char *settings, const char *state_name) {
  solver_case c;
  double whole[6], resumed[6];
  char net[2048], path[256];
  net_of(type, net);
  case_begin_fed(&c, net, settings);
  case_train_and_save(&c, 10);
  assert_int_equal(crema_solver_step(c.solver, 10), CREMA_OK);
  read_weights(&c, whole);
  case_load(&c, net, settings);
  crema_status status = crema_solver_restore(c.solver, case_path(&c, state_name, path));
  if (status != CREMA_OK) fail_msg("%s", crema_error_text());
  assert_int_equal(crema_solver_step(c.solver, 10), CREMA_OK);
  read_weights(&c, resumed);
  assert_memory_equal(whole, resumed, sizeof whole);
  case_end(&c);
}

TEST(s4_38_resuming_is_exact_in_every_type) {
  static const char *const types[] = {"DOUBLE", "FLOAT", "BFLOAT16", "FLOAT16"};
  for (int t = 0; t < 4; ++t) {
    check(types[t], SOLVER, "s_iter_10.solverstate");
    check(types[t], SOLVER "store_blobs_in_old_format: true", "s_iter_10.solverstate");
    check(types[t], SOLVER "snapshot_format: HDF5", "s_iter_10.solverstate.h5");
    check(types[t], SOLVER "snapshot_diff: true", "s_iter_10.solverstate");
  }
}

static void *read_message(const solver_case *c, const char *name,
                          const ProtobufCMessageDescriptor *type) {
  char path[256];
  ProtobufCMessage *message = NULL;
  assert_int_equal(cr_message_read_binary(type, case_path(c, name, path), &message), CREMA_OK);
  return message;
}

/* The model has the net's own type, the state the full precision, unless the model has it. */
TEST(s4_38_what_a_snapshot_of_halves_holds) {
  for (int old = 0; old < 2; ++old) {
    solver_case c;
    char net[2048];
    float weights[6];
    net_of("BFLOAT16", net);
    case_begin_fed(&c, net, old ? SOLVER "store_blobs_in_old_format: true" : SOLVER);
    case_train_and_save(&c, 3);
    case_weights(&c, weights);
    Caffe__NetParameter *model =
        read_message(&c, "s_iter_3.caffemodel", &caffe__net_parameter__descriptor);
    Caffe__SolverState *saved =
        read_message(&c, "s_iter_3.solverstate", &caffe__solver_state__descriptor);
    const Caffe__BlobProto *blob = model->layer[1]->blobs[0];
    if (old) {
      assert_int_equal(blob->n_data, 6);
      assert_memory_equal(blob->data, weights, sizeof weights);
      assert_int_equal(saved->crema_state->n_weights, 0);
    } else {
      assert_int_equal(blob->raw_data_type, CAFFE__TYPE__BFLOAT16);
      assert_int_equal(blob->raw_data.len, 12);
      assert_int_equal(blob->n_data, 0);
      assert_int_equal(saved->crema_state->n_weights, 2);
      assert_memory_equal(saved->crema_state->weights[0]->data, weights, sizeof weights);
    }
    cr_message_free(&saved->base);
    cr_message_free(&model->base);
    case_end(&c);
  }
}

/* A state whose full precision is not that of this net is refused before anything changes. */
TEST(full_precision_of_another_net_is_refused) {
  solver_case c;
  char net[2048], path[256];
  float before[6], after[6];
  net_of("FLOAT16", net);
  case_begin_fed(&c, net, SOLVER);
  case_train_and_save(&c, 3);
  Caffe__SolverState *saved =
      read_message(&c, "s_iter_3.solverstate", &caffe__solver_state__descriptor);
  case_path(&c, "s_iter_3.solverstate", path);
  case_load(&c, net, SOLVER);
  case_weights(&c, before);
  for (int fault = 0; fault < 3; ++fault) {
    Caffe__BlobProto *first = saved->crema_state->weights[0];
    if (fault == 0) saved->crema_state->n_weights = 1;
    if (fault == 1) first->n_data = 5;
    if (fault == 2) first->shape->dim[0] = 3, first->shape->dim[1] = 2;
    assert_int_equal(cr_message_write_binary(&saved->base, path), CREMA_OK);
    assert_int_equal(crema_solver_restore(c.solver, path),
                     fault == 1 ? CREMA_E_CORRUPT : CREMA_E_SHAPE);
    assert_non_null(strstr(crema_error_text(), "full precision"));
    case_weights(&c, after);
    assert_memory_equal(before, after, sizeof before);
    saved->crema_state->n_weights = 2;
    first->n_data = 6;
  }
  cr_message_free(&saved->base);
  case_end(&c);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
