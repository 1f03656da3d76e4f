/* Snapshots and resuming. */
#include <hdf5.h>

#include "core/fail.h"
#include "core/file.h"
#include "solver_case.h"

static const char *const solver_texts[] = {
    "lr_policy: 'fixed' momentum: 0.9",
    "lr_policy: 'fixed' momentum: 0.9 snapshot_format: HDF5",
    "lr_policy: 'multistep' gamma: 0.5 stepvalue: 2 stepvalue: 7 type: 'Adam' momentum: 0.9 "
    "average_loss: 3 test_iter: 1 test_interval: 3",
    "lr_policy: 'plateau' plateau_winsize: 1 plateau_winsize: 2 plateau_winsize: 3 gamma: 0.5",
    "lr_policy: 'plateau' plateau_winsize: 1 plateau_winsize: 2 plateau_winsize: 3 gamma: 0.5 "
    "snapshot_format: HDF5",
    "lr_policy: 'poly' max_iter: 9 rampup_interval: 7 min_lr: 0.001 momentum: 0.5 larc: true "
    "momentum_policy: 'poly' weight_decay: 0.1 weight_decay_policy: 'poly'",
    "lr_policy: 'step' stepsize: 3 gamma: 0.5 type: 'AdaDelta' momentum: 0.9 iter_size: 2 "
    "snapshot_format: HDF5",
};

static void check_resume(const char *text) {
  solver_case c;
  float whole[6], resumed[6];
  char path[256];
  bool hdf5 = strstr(text, "HDF5") != NULL;
  case_begin_fed(&c, small_net, text);
  case_train_and_save(&c, 5);
  double window_sum = 0;
  for (int i = 0; i < c.solver->window.count; ++i) window_sum += c.solver->window.loss[i];
  ok(crema_solver_step(c.solver, 5));
  case_weights(&c, whole);
  cr_rate_state rate = c.solver->rate;

  case_load(&c, small_net, text);
  case_path(&c, hdf5 ? "s_iter_5.solverstate.h5" : "s_iter_5.solverstate", path);
  ok(crema_solver_restore(c.solver, path));
  assert_int_equal(crema_solver_iteration(c.solver), 5);
  double restored_sum = 0;
  for (int i = 0; i < c.solver->window.count; ++i) restored_sum += c.solver->window.loss[i];
  assert_true(window_sum == restored_sum);
  ok(crema_solver_step(c.solver, 5));
  case_weights(&c, resumed);
  assert_memory_equal(whole, resumed, sizeof whole);
  assert_int_equal(c.solver->rate.step, rate.step);
  assert_true(c.solver->rate.minimum_loss == rate.minimum_loss);
  assert_int_equal(c.solver->rate.last_event, rate.last_event);
  case_end(&c);
}

TEST(resumed_runs_are_equal) {
  for (size_t i = 0; i < sizeof solver_texts / sizeof *solver_texts; ++i) {
    check_resume(solver_texts[i]);
  }
}

/* Reads back the state of an iteration, as any reader of the format would; its path. */
static ProtobufCMessage *read_state(const solver_case *c, int iteration, char path[256]) {
  char name[64];
  ProtobufCMessage *message = NULL;
  snprintf(name, sizeof name, "s_iter_%d.solverstate", iteration);
  ok(cr_message_read_binary(&caffe__solver_state__descriptor, case_path(c, name, path), &message));
  return message;
}

CASE_TEST(state_has_caffes_fields) {
  solver_case *c = *state;
  char path[256];
  case_load_fed(c, small_net, "lr_policy: 'step' stepsize: 2 momentum: 0.9");
  case_train_and_save(c, 5);
  ProtobufCMessage *message = read_state(c, 5, path);
  const Caffe__SolverState *found = (const Caffe__SolverState *)message;
  assert_int_equal(found->iter, 5);
  assert_int_equal(found->current_step, 2);
  assert_string_equal(found->learned_net, case_path(c, "s_iter_5.caffemodel", path));
  assert_int_equal(found->n_history, 2);
  assert_int_equal(found->history[0]->n_data, 6);
  assert_int_equal(found->history[0]->shape->n_dim, 2);
  assert_int_equal(found->history[0]->n_diff, 0);
  cr_message_free(message);
}

CASE_TEST(hdf5_has_caffes_layout) {
  solver_case *c = *state;
  char path[256];
  int iteration = 0;
  hsize_t dim[2] = {0};
  case_load_fed(c, small_net, "lr_policy: 'fixed' snapshot_format: HDF5");
  case_train_and_save(c, 3);
  hid_t file = H5Fopen(case_path(c, "s_iter_3.solverstate.h5", path), H5F_ACC_RDONLY, H5P_DEFAULT);
  assert_true(file >= 0);
  hid_t set = H5Dopen2(file, "/iter", H5P_DEFAULT);
  assert_true(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &iteration) >= 0);
  assert_int_equal(iteration, 3);
  H5Dclose(set);
  set = H5Dopen2(file, "/history/0", H5P_DEFAULT);
  hid_t space = H5Dget_space(set);
  assert_int_equal(H5Sget_simple_extent_dims(space, dim, NULL), 2);
  assert_int_equal(dim[0], 2);
  assert_int_equal(dim[1], 3);
  H5Sclose(space);
  H5Dclose(set);
  assert_true(H5Lexists(file, "/learned_net", H5P_DEFAULT) > 0);
  assert_true(H5Lexists(file, "/current_step", H5P_DEFAULT) > 0);
  H5Fclose(file);
}

/* Identifiers count up. Those between two that are made here and are closed again. */
typedef struct identifiers {
  hid_t space, type, list;
} identifiers;

static identifiers next_identifiers(void) {
  const identifiers next = {H5Screate(H5S_SCALAR), H5Tcopy(H5T_C_S1), H5Pcreate(H5P_FILE_ACCESS)};
  assert_true(next.space > 0 && next.type > 0 && next.list > 0);
  H5Sclose(next.space);
  H5Tclose(next.type);
  H5Pclose(next.list);
  return next;
}

static int still_open(hid_t from, hid_t to) {
  int count = 0;
  for (hid_t id = from; id < to; ++id) count += H5Iis_valid(id) > 0;
  return count;
}

static void expect_all_closed(const identifiers *from) {
  const identifiers to = next_identifiers();
  assert_true(to.space > from->space + 1); /* else nothing was shown */
  assert_int_equal(still_open(from->space, to.space), 0);
  assert_int_equal(still_open(from->type, to.type), 0);
  assert_int_equal(still_open(from->list, to.list), 0);
  assert_int_equal(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

/* Nothing of the library stays open behind a snapshot, which would grow without end. */
CASE_TEST(hdf5_is_left_as_it_was) {
  solver_case *c = *state;
  case_load_fed(c, small_net,
                "lr_policy: 'plateau' plateau_winsize: 2 momentum: 0.9 snapshot_format: HDF5");
  case_train_and_save(c, 1);
  const identifiers from = next_identifiers();
  case_train_and_save(c, 1);
  expect_all_closed(&from);
}

/* Histories come back in their own type and shape. */
CASE_TEST(hdf5_keeps_types_of_histories) {
  solver_case *c = *state;
  char path[256], name[256];
  for (int doubles = 0; doubles < 2; ++doubles) {
    char text[256];
    snprintf(text, sizeof text,
             "lr_policy: 'fixed' momentum: 0.9 snapshot_format: HDF5 solver_data_type: %s",
             doubles ? "DOUBLE" : "FLOAT");
    case_load_fed(c, small_net, text);
    case_train_and_save(c, 2);
    hid_t file =
        H5Fopen(case_path(c, "s_iter_2.solverstate.h5", path), H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(file >= 0);
    for (int i = 0; i < 2; ++i) {
      snprintf(name, sizeof name, "/history/%d", i);
      hid_t set = H5Dopen2(file, name, H5P_DEFAULT), type = H5Dget_type(set);
      assert_int_equal(H5Tget_size(type), doubles ? 8 : 4);
      assert_int_equal(H5Tget_class(type), H5T_FLOAT);
      H5Tclose(type);
      H5Dclose(set);
    }
    /* The name is written with its end. */
    hid_t set = H5Dopen2(file, "/learned_net", H5P_DEFAULT), type = H5Dget_type(set);
    assert_int_equal(H5Tget_size(type), strlen(case_path(c, "s_iter_2.caffemodel.h5", name)) + 1);
    H5Tclose(type);
    H5Dclose(set);
    H5Fclose(file);
    Caffe__SolverState *found = NULL;
    ok(cr_state_read(case_path(c, "s_iter_2.solverstate.h5", path), &found));
    assert_true(found->has_iter && found->has_current_step);
    assert_false(found->has_minimum_loss || found->has_iter_last_event);
    assert_int_equal(found->n_history, 2);
    for (int i = 0; i < 2; ++i) {
      const Caffe__BlobProto *blob = found->history[i];
      const size_t count = i == 0 ? 6 : 2;
      assert_int_equal(blob->n_data, doubles ? 0 : count);
      assert_int_equal(blob->n_double_data, doubles ? count : 0);
      assert_int_equal(blob->shape->n_dim, i == 0 ? 2 : 1);
      assert_int_equal(blob->shape->dim[0], 2);
    }
    cr_message_free(&found->base);
  }
}

/* A state without the part that only crema writes, as Caffe's are. */
CASE_TEST(resumes_without_the_private_part) {
  solver_case *c = *state;
  char path[256];
  case_load_fed(c, small_net, "lr_policy: 'fixed' momentum: 0.9");
  case_train_and_save(c, 2);
  ProtobufCMessage *message = read_state(c, 2, path);
  Caffe__SolverState *found = (Caffe__SolverState *)message;
  cr_message_free(&found->crema_state->base);
  found->crema_state = NULL;
  ok(cr_message_write_binary(message, path));
  case_load(c, small_net, "lr_policy: 'fixed' momentum: 0.9");
  ok(crema_solver_restore(c->solver, path));
  assert_int_equal(crema_solver_iteration(c->solver), 2);
  cr_message_free(message);
}

/* A private part that does not make sense is refused. */
CASE_TEST(refuses_a_damaged_private_part) {
  solver_case *c = *state;
  char path[256];
  case_load_fed(c, small_net, "lr_policy: 'fixed'");
  ok(crema_solver_snapshot(c->solver));
  ProtobufCMessage *message = read_state(c, 0, path);
  Caffe__CremaState *extra = ((Caffe__SolverState *)message)->crema_state;
  extra->generator[624] = 700; /* past the last word */
  ok(cr_message_write_binary(message, path));
  assert_int_equal(crema_solver_restore(c->solver, path), CREMA_E_CORRUPT);
  extra->n_generator = 3;
  ok(cr_message_write_binary(message, path));
  assert_int_equal(crema_solver_restore(c->solver, path), CREMA_E_CORRUPT);
  cr_message_free(message);
}

/* Writes `message` over the state of iteration 3, which must be refused and change nothing. */
static void refuse_altered(solver_case *c, const ProtobufCMessage *message, crema_status code) {
  char path[256];
  float before[6], after[6];
  case_weights(c, before);
  case_path(c, "s_iter_3.solverstate", path);
  ok(cr_message_write_binary(message, path));
  assert_int_equal(crema_solver_restore(c->solver, path), code);
  case_weights(c, after);
  assert_memory_equal(before, after, sizeof before);
  assert_int_equal(crema_solver_iteration(c->solver), 0);
}

/* A state is refused as a whole: not even its model is loaded. */
CASE_TEST(a_refused_state_changes_nothing) {
  solver_case *c = *state;
  char path[256];
  case_load_fed(c, small_net, "lr_policy: 'fixed' momentum: 0.5");
  case_train_and_save(c, 3);
  case_load(c, small_net, "lr_policy: 'fixed' momentum: 0.5");
  ProtobufCMessage *message = read_state(c, 3, path);
  Caffe__SolverState *saved = (Caffe__SolverState *)message;
  saved->crema_state->generator[624] = 700;
  refuse_altered(c, message, CREMA_E_CORRUPT);
  saved->crema_state->generator[624] = 624;
  saved->history[0]->shape->dim[0] = 3;
  saved->history[0]->shape->dim[1] = 2;
  refuse_altered(c, message, CREMA_E_SHAPE);
  saved->history[0]->shape->dim[0] = 2;
  saved->history[0]->shape->dim[1] = 3;
  saved->history[0]->n_data = 5;
  refuse_altered(c, message, CREMA_E_CORRUPT);
  saved->history[0]->n_data = 6;
  ok(cr_message_write_binary(message, path));
  ok(crema_solver_restore(c->solver, path));
  assert_int_equal(crema_solver_iteration(c->solver), 3);
  cr_message_free(message);
}

static void refuse_restore(solver_case *c, const char *name, crema_status code, const char *words) {
  char path[256];
  crema_status status = crema_solver_restore(c->solver, case_path(c, name, path));
  if (strstr(crema_error_text(), words) == NULL || strstr(crema_error_text(), name) == NULL) {
    fail_msg("\"%s\" does not say \"%s\" and \"%s\"", crema_error_text(), words, name);
  }
  assert_int_equal(status, code);
}

CASE_TEST(refuses) {
  solver_case *c = *state;
  case_load_fed(c, small_net, "lr_policy: 'fixed'");
  refuse_restore(c, "absent.solverstate", CREMA_E_NOT_FOUND, "no such file");
  refuse_restore(c, "absent.solverstate.h5", CREMA_E_NOT_FOUND, "no such file");
  case_write(c, "text.solverstate", "not a state at all");
  refuse_restore(c, "text.solverstate", CREMA_E_CORRUPT, "text.solverstate");
  case_write(c, "text.solverstate.h5", "not a state at all");
  refuse_restore(c, "text.solverstate.h5", CREMA_E_CORRUPT, "HDF5");
  case_write(c, "empty.solverstate", "");
  refuse_restore(c, "empty.solverstate", CREMA_E_CORRUPT, "empty");
  case_train_and_save(c, 1);
  case_load(c, small_net, "lr_policy: 'fixed' type: 'Adam'");
  float before[6], after[6];
  case_weights(c, before);
  refuse_restore(c, "s_iter_1.solverstate", CREMA_E_SHAPE, "2 history blobs");
  case_weights(c, after);
  assert_memory_equal(before, after, sizeof before);
  assert_int_equal(crema_solver_iteration(c->solver), 0);
}

/* Every prefix of an HDF5 state is refused and none crashes. */
CASE_TEST(truncated_hdf5) {
  solver_case *c = *state;
  char path[256];
  cr_buffer bytes = {0};
  case_load_fed(c, small_net, "lr_policy: 'fixed' snapshot_format: HDF5");
  ok(crema_solver_snapshot(c->solver));
  case_path(c, "s_iter_0.solverstate.h5", path);
  ok(cr_file_read(path, &bytes));
  for (size_t size = 0; size < bytes.size; size += 509) {
    ok(cr_file_write(path, bytes.data, size));
    assert_int_equal(crema_solver_restore(c->solver, path), CREMA_E_CORRUPT);
  }
  cr_buffer_free(&bytes);
}

CASE_TEST(a_snapshot_that_fails_keeps_the_old_one) {
  solver_case *c = *state;
  char path[256];
  cr_buffer before = {0}, after = {0};
  case_load_fed(c, small_net, "lr_policy: 'fixed'");
  case_train_and_save(c, 1);
  case_path(c, "s_iter_1.caffemodel", path);
  ok(cr_file_read(path, &before));
  free(c->solver->snapshot_prefix);
  c->solver->snapshot_prefix = strdup("/dev/null/s");
  assert_fails(crema_solver_snapshot(c->solver), CREMA_E_IO, "after 1 iterations");
  ok(cr_file_read(path, &after));
  assert_int_equal(before.size, after.size);
  assert_memory_equal(before.data, after.data, before.size);
  cr_buffer_free(&before);
  cr_buffer_free(&after);
}

/* What an HDF5 model cannot hold is told before training, not at the first snapshot. */
TEST(hdf5_needs_names) {
  static const struct {
    const char *names[2], *shared, *options;
    crema_status expected;
  } rows[] = {
      {{"'a'", "'b'"}, "", "", CREMA_OK},
      {{"'a'", "'a'"}, "", "", CREMA_E_EXISTS},
      {{"''", "'b'"}, "", "", CREMA_E_ARGUMENT},
      /* A sharer's values are the owner's; its diffs are not. */
      {{"'a'", "'a'"}, "param { name: 'w' } param { name: 'v' }", "", CREMA_OK},
      {{"'a'", "'a'"},
       "param { name: 'w' } param { name: 'v' }",
       "snapshot_diff: true",
       CREMA_E_EXISTS},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    solver_case c;
    char net[2048], text[256];
    case_begin(&c);
    c.options.feed = case_feed;
    snprintf(net, sizeof net,
             "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
             "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
             "layer { name: %s type: 'InnerProduct' bottom: 'data' top: 'x' %s\n"
             "  inner_product_param { num_output: 3 } }\n"
             "layer { name: %s type: 'InnerProduct' bottom: 'x' top: 'y' %s\n"
             "  inner_product_param { num_output: 3 } }\n"
             "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' }\n",
             rows[i].names[0], rows[i].shared, rows[i].names[1], rows[i].shared);
    snprintf(text, sizeof text, "lr_policy: 'fixed' max_iter: 1 snapshot_format: HDF5 %s",
             rows[i].options);
    case_load(&c, net, text);
    crema_status status = crema_solver_solve(c.solver);
    if (status != rows[i].expected) fail_msg("row %zu: %s", i, crema_error_text());
    if (status != CREMA_OK) {
      assert_int_equal(crema_solver_iteration(c.solver), 0);
      assert_error_has("solver.prototxt: snapshot_format: HDF5: ");
    }
    case_end(&c);
  }
}

/* ---- fields of HDF5 states ---- */

/* One field is replaced by a data set of `count` values of a type; -1: by nothing. */
typedef struct altered_field {
  const char *name;
  int count;
  enum { INTS, FLOATS, TEXT } values;
  size_t size; /* of a text */
  crema_status status;
  const char *says;
} altered_field;

static void alter(const char *path, const altered_field *field) {
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  assert_true(file >= 0);
  assert_true(H5Ldelete(file, field->name, H5P_DEFAULT) >= 0);
  if (field->count >= 0) {
    const hsize_t extent = (hsize_t)field->count;
    hid_t text = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &extent, NULL);
    if (field->values == TEXT) assert_true(H5Tset_size(text, field->size) >= 0);
    hid_t type = field->values == INTS     ? H5T_NATIVE_INT
                 : field->values == FLOATS ? H5T_NATIVE_FLOAT
                                           : text;
    hid_t set = H5Dcreate2(file, field->name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(set >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Tclose(text);
  }
  assert_true(H5Fclose(file) >= 0);
}

/* Each of the wrong class, of another number of values, or absent. */
CASE_TEST(fields_of_hdf5_states_are_checked) {
  enum { LONGEST = 1 << 20 };
  static const altered_field fields[] = {
      {"iter", -1, INTS, 0, CREMA_E_CORRUPT, "data set /iter is missing or damaged"},
      {"iter", 2, INTS, 0, CREMA_E_CORRUPT, "data set /iter is missing or damaged"},
      {"iter", 0, INTS, 0, CREMA_E_CORRUPT, "data set /iter is missing or damaged"},
      {"iter", 1, FLOATS, 0, CREMA_E_CORRUPT, "data set /iter is missing or damaged"},
      {"current_step", 2, INTS, 0, CREMA_E_CORRUPT, "data set /current_step is missing"},
      {"current_step", 1, TEXT, 4, CREMA_E_CORRUPT, "data set /current_step is missing"},
      {"minimum_loss", 2, FLOATS, 0, CREMA_E_CORRUPT, "data set /minimum_loss is missing"},
      {"minimum_loss", 1, INTS, 0, CREMA_E_CORRUPT, "data set /minimum_loss is missing"},
      {"iter_last_event", -1, INTS, 0, CREMA_E_CORRUPT, "data set /iter_last_event is missing"},
      {"learned_net", 2, TEXT, 8, CREMA_E_CORRUPT, "data set /learned_net is missing or damaged"},
      {"learned_net", 0, TEXT, 8, CREMA_E_CORRUPT, "data set /learned_net is missing or damaged"},
      {"learned_net", 1, INTS, 0, CREMA_E_CORRUPT, "data set /learned_net is missing or damaged"},
      {"learned_net", 1, TEXT, LONGEST + 1, CREMA_E_CORRUPT, "data set /learned_net is missing"},
      {"history", -1, INTS, 0, CREMA_E_CORRUPT, "data set /history is missing or damaged"},
      {"history", 2, FLOATS, 0, CREMA_E_CORRUPT, "data set /history is missing or damaged"},
      {"history/1", 2, INTS, 0, CREMA_E_CORRUPT, "data set /history/1 is missing or damaged"},
      {"crema_state", 3, FLOATS, 0, CREMA_E_CORRUPT, "data set /crema_state is missing"},
      /* What early versions did not write, and a name of nothing. */
      {"current_step", -1, INTS, 0, CREMA_OK, ""},
      {"minimum_loss", -1, INTS, 0, CREMA_OK, ""},
      {"learned_net", -1, INTS, 0, CREMA_OK, ""},
      {"learned_net", 1, TEXT, 8, CREMA_OK, ""},
      {"crema_state", -1, INTS, 0, CREMA_OK, ""},
  };
  static const char *const text =
      "lr_policy: 'plateau' plateau_winsize: 1 gamma: 0.5 momentum: 0.9 snapshot_format: HDF5";
  solver_case *c = *state;
  char path[256];
  cr_buffer whole = {0};
  c->options.feed = case_feed;
  case_load(c, small_net, text);
  ok(crema_solver_step(c->solver, 1));
  ok(crema_solver_snapshot(c->solver));
  ok(cr_file_read(case_path(c, "s_iter_1.solverstate.h5", path), &whole));
  case_path(c, "altered.h5", path);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; ++i) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(whole.data, 1, whole.size, file), whole.size);
    assert_int_equal(fclose(file), 0);
    alter(path, &fields[i]);
    crema_status status = crema_solver_restore(c->solver, path);
    if (status != fields[i].status ||
        (status != CREMA_OK && strstr(crema_error_text(), fields[i].says) == NULL)) {
      fail_msg("row %zu: %s: %s", i, crema_status_name(status), crema_error_text());
    }
    if (status != CREMA_OK) assert_error_has(path);
  }
  cr_buffer_free(&whole);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
