/* The weights that training begins with: lists of files, in the solver file and given later. */
#include "solver_case.h"

CASE_TEST(weights_come_from_a_list) {
  solver_case *c = *state;
  char list[600], first[256], second[256];
  float trained[6], loaded[6];
  case_load_fed(c, small_net, "lr_policy: 'fixed'");
  ok(crema_solver_snapshot(c->solver));
  case_train_and_save(c, 4);
  case_weights(c, trained);
  snprintf(list, sizeof list, "%s,,%s", case_path(c, "s_iter_0.caffemodel", first),
           case_path(c, "s_iter_4.caffemodel", second));
  case_load(c, small_net, "lr_policy: 'fixed' test_iter: 1 test_interval: 5");
  ok(crema_solver_load_weights(c->solver, list));
  assert_int_equal(crema_solver_iteration(c->solver), 0);
  case_weights(c, loaded);
  assert_memory_equal(trained, loaded, sizeof trained);
  case_load(c, small_net, "lr_policy: 'fixed' weights: 's_iter_4.caffemodel'");
  case_weights(c, loaded);
  assert_memory_equal(trained, loaded, sizeof trained);
}

/* A model need not have anything for a test net, which gets the trained weights anyway. */
CASE_TEST(weights_may_be_none_of_a_test_nets) {
  static const char net[] =
      "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
      "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' include { phase: TRAIN }\n"
      "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'own' type: 'InnerProduct' bottom: 'data' top: 'ip' include { phase: TEST }\n"
      "  inner_product_param { num_output: 2 } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";
  static const char options[] = "lr_policy: 'fixed' test_iter: 1 test_interval: 5";
  solver_case *c = *state;
  char path[256];
  float trained[6], loaded[6];
  case_load_fed(c, net, options);
  case_train_and_save(c, 0);
  case_weights(c, trained);
  case_load(c, net, options);
  if (crema_solver_load_weights(c->solver, case_path(c, "s_iter_0.caffemodel", path)) != CREMA_OK) {
    fail_msg("%s", crema_error_text());
  }
  case_weights(c, loaded);
  assert_memory_equal(trained, loaded, sizeof trained);
  case_load(c, net, options);
  ok(crema_solver_restore(c->solver, case_path(c, "s_iter_0.solverstate", path)));
  assert_int_equal(crema_solver_load_weights(c->solver, "nowhere.caffemodel"), CREMA_E_NOT_FOUND);
}

/* Empty entries in a list count for nothing; the last file that names a layer is the one. */
CASE_TEST(lists_of_weights_are_loaded) {
  static log_lines lines;
  char list[600], path[256];
  float first[6], second[6], found[6];
  solver_case *c = *state;
  case_load_fed(c, small_net, "lr_policy: 'fixed'");
  case_weights(c, first);
  ok(crema_solver_snapshot(c->solver));
  ok(crema_solver_step(c->solver, 1));
  case_weights(c, second);
  assert_memory_not_equal(first, second, sizeof first);
  ok(crema_solver_snapshot(c->solver));
  listen(&lines);
  ok(crema_solver_load_weights(c->solver, ""));
  ok(crema_solver_load_weights(c->solver, ",,"));
  assert_int_equal(lines.size, 0);
  /* From the solver file's folder. */
  snprintf(list, sizeof list, ",%s,,s_iter_0.caffemodel",
           case_path(c, "s_iter_1.caffemodel", path));
  ok(crema_solver_load_weights(c->solver, list));
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  assert_int_equal(count_lines(&lines, "Finetuning from "), 2);
  case_weights(c, found);
  assert_memory_equal(found, first, sizeof first);
  ok(crema_solver_load_weights(c->solver, "s_iter_0.caffemodel,s_iter_1.caffemodel,"));
  case_weights(c, found);
  assert_memory_equal(found, second, sizeof second);
  assert_int_equal(crema_solver_load_weights(c->solver, "s_iter_0.caffemodel,absent"),
                   CREMA_E_NOT_FOUND);
}

/* Caffe trims each name of a list, in the field and in the flag. */
CASE_TEST(lists_of_weights_may_have_blanks) {
  float expected[6], found[6];
  solver_case *c = *state;
  case_load_fed(c, small_net, "lr_policy: 'fixed'");
  ok(crema_solver_snapshot(c->solver));
  ok(crema_solver_step(c->solver, 1));
  case_weights(c, expected);
  ok(crema_solver_snapshot(c->solver));
  case_load(c, small_net,
            "lr_policy: 'fixed' weights: ' s_iter_0.caffemodel , \\ts_iter_1.caffemodel\\n'");
  case_weights(c, found);
  assert_memory_equal(found, expected, sizeof found);
  ok(crema_solver_load_weights(c->solver, " ,s_iter_1.caffemodel\n, s_iter_0.caffemodel"));
  case_weights(c, found);
  assert_memory_not_equal(found, expected, sizeof found);
}

#define SAMPLES \
  "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 3 } } }\n"
#define PRODUCT(name)                                                              \
  "layer { name: '" name "' type: 'InnerProduct' bottom: 'x' top: '" name          \
  "' inner_product_param { num_output: 2 } }\n"                                    \
  "layer { name: '" name "_loss' type: 'Reduction' bottom: '" name "' top: '" name \
  "_loss' loss_weight: 1 }\n"

/* The files that a solver file names fill the net together; a caller that starts from elsewhere
 * leaves them out. */
CASE_TEST(weights_of_the_solver_file_are_one_list) {
  static const char both[] = SAMPLES PRODUCT("one") PRODUCT("two");
  static log_lines lines;
  char path[256], one[256];
  solver_case *c = *state;
  case_load(c, SAMPLES PRODUCT("one"), "lr_policy: 'fixed'");
  ok(crema_solver_snapshot(c->solver));
  case_path(c, "s_iter_0.caffemodel", path);
  assert_int_equal(rename(path, case_path(c, "one.caffemodel", one)), 0);
  case_load(c, SAMPLES PRODUCT("two"), "lr_policy: 'fixed'");
  ok(crema_solver_snapshot(c->solver));
  listen_to(&lines, CREMA_LOG_WARNING);
  case_load(c, both, "lr_policy: 'fixed' weights: 'one.caffemodel' weights: 's_iter_0.caffemodel'");
  assert_int_equal(count_lines(&lines, "gets no weights"), 0);
  case_load(c, both, "lr_policy: 'fixed' weights: 'one.caffemodel'");
  assert_int_equal(count_lines(&lines, "layer 'two' (InnerProduct) gets no weights"), 1);
  stop_listening();
  c->options.no_weights = true;
  case_load(c, both, "lr_policy: 'fixed' weights: 'absent.caffemodel'");
  assert_int_equal(crema_solver_load_weights(c->solver, NULL), CREMA_E_NOT_FOUND);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
