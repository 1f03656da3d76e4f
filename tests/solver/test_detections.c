/* eval_type "detection": the mean average precision of a test. */
#include "log_lines.h"
#include "solver/detections.h"
#include "solver_case.h"

/* What DetectionEvaluate makes of a batch; rows of item, class, score, right, wrong. */
typedef struct batch {
  int rows;
  float value[8][5];
} batch;

/* Of class 1, four objects and five detections, best first right, wrong, right, right, wrong; of
 * class 2, one object, which is not found. The row 7 1 0.95 is of a difficult object. */
static const batch first = {6,
                            {{-1, 1, 2, -1, -1},
                             {-1, 2, 0, -1, -1},
                             {0, 1, 0.9f, 1, 0},
                             {0, 1, 0.5f, 0, 1},
                             {1, 1, 0.7f, 1, 0},
                             {7, 1, 0.95f, 0, 0}}};
static const batch second = {
    4, {{-1, 1, 2, -1, -1}, {-1, 2, 1, -1, -1}, {0, 1, 0.8f, 0, 1}, {1, 1, 0.6f, 1, 0}}};

static const char eval_net[] =
    "layer { name: 'in' type: 'Input' top: 'mAP' input_param { shape { dim: 1 dim: 1 dim: 1 dim: 5 "
    "} } }";

static void put(crema_net *net, const batch *from) {
  crema_blob *blob = crema_net_input(net, 0);
  const crema_shape shape = {.axes = 4, .dim = {1, 1, from->rows, 5}};
  float *value;
  ok(crema_blob_reshape(blob, &shape));
  ok(crema_blob_mutable_cpu_data(blob, &value));
  memcpy(value, from->value, (size_t)from->rows * sizeof from->value[0]);
}

static void add(cr_detections *to, const batch *from) {
  crema_net *net = NULL;
  ok(crema_net_parse(eval_net, strlen(eval_net), NULL, NULL, &net));
  put(net, from);
  ok(cr_detections_add(to, net));
  crema_net_destroy(net);
}

static double score(cr_detections *of, char *version) {
  Caffe__SolverParameter param = CAFFE__SOLVER_PARAMETER__INIT;
  double value;
  param.ap_version = version;
  ok(cr_detections_report(of, &param, NULL, false, &value));
  return value;
}

/* Precisions 1, 1/2, 2/3, 3/4, 3/5 at recalls 1/4, 1/4, 1/2, 3/4, 3/4; half of it for class 2's 0.
 */
static void check_all(cr_detections *of) {
  char eleven[] = "11point", area[] = "Integral", most[] = "MaxIntegral";
  assert_float_equal(score(of, eleven), (3 + 5 * 0.75) / 11 / 2, 1e-6);
  assert_float_equal(score(of, area), (1 + 2. / 3 + 0.75) / 4 / 2, 1e-6);
  assert_float_equal(score(of, most), (1 + 0.75 + 0.75) / 4 / 2, 1e-6);
}

TEST(test_average_precision_by_hand) {
  cr_detections all = {0};
  add(&all, &first);
  add(&all, &second);
  check_all(&all);
  check_all(&all); /* sorted before */
  cr_detections_free(&all);
}

TEST(test_replicas_are_joined) {
  cr_detections all = {0}, other = {0};
  add(&all, &second);
  add(&other, &first);
  ok(cr_detections_append(&all, &other));
  ok(cr_detections_gather(&all, NULL));
  check_all(&all);
  cr_detections_free(&all);
  cr_detections_free(&other);
}

TEST(test_equal_scores_count_as_they_came) {
  const batch right = {2, {{-1, 1, 2, -1, -1}, {0, 1, 0.5f, 1, 0}}};
  const batch wrong = {2, {{-1, 1, 0, -1, -1}, {0, 1, 0.5f, 0, 1}}};
  char area[] = "Integral";
  cr_detections one = {0}, two = {0}, none = {0};
  add(&one, &right);
  add(&one, &wrong);
  add(&two, &wrong);
  add(&two, &right);
  assert_float_equal(score(&one, area), 0.5, 1e-6);
  assert_float_equal(score(&two, area), 0.25, 1e-6);
  assert_float_equal(score(&none, area), 0, 1e-6);
  cr_detections_free(&one);
  cr_detections_free(&two);
}

/* An object is worth the same, whatever its order among the rows; objects and detections of other
 * classes do not mix. */
TEST(test_rows_are_put_in_order) {
  const batch mixed = {8,
                       {{0, 2, 0.3f, 1, 0},
                        {0, 1, 0.4f, 0, 1},
                        {-1, 1, 1, -1, -1},
                        {0, 2, 0.6f, 1, 0},
                        {-1, 2, 2, -1, -1},
                        {0, 1, 0.6f, 1, 0},
                        {0, 3, 0.5f, 0, 1},
                        {0, 2, 0.5f, 0, 1}}};
  char area[] = "Integral", eleven[] = "11point";
  cr_detections all = {0};
  add(&all, &mixed);
  /* Class 1: precision 1 at recall 1. Class 2: 1, 1/2, 2/3 at 1/2, 1/2, 1. Class 3 has no object.
   */
  assert_float_equal(score(&all, area), (1 + (1 + 2. / 3) / 2) / 3, 1e-6);
  assert_float_equal(score(&all, eleven), (1 + (6 + 5 * 2. / 3) / 11) / 3, 1e-6);
  cr_detections_free(&all);
}

/* The best precision is looked for at each tenth of the recall, where that is reached exactly, too.
 */
TEST(test_tenths_of_the_recall) {
  batch one = {2, {{-1, 1, 5, -1, -1}, {0, 1, 0.9f, 1, 0}}};
  char eleven[] = "11point";
  cr_detections all = {0};
  add(&all, &one);
  assert_float_equal(score(&all, eleven), 3. / 11, 1e-9); /* recalls 0, 0.1 and 0.2 */
  cr_detections_free(&all);
}

/* ---- in a solver --------------------------------------------------------- */

static const char detector[] =
    "name: 'detector'\n"
    "layer { name: 'in' type: 'Input' top: 'data' include { phase: TRAIN }\n"
    "  input_param { shape { dim: 2 dim: 3 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' include { phase: TRAIN }\n"
    "  inner_product_param { num_output: 1 } }\n"
    "layer { name: 'loss' type: 'Reduction' bottom: 'ip' top: 'loss' loss_weight: 1\n"
    "  include { phase: TRAIN } }\n"
    "layer { name: 'eval' type: 'Input' top: 'mAP' include { phase: TEST }\n"
    "  input_param { shape { dim: 1 dim: 1 dim: 1 dim: 5 } } }\n";

TEST(test_solver_reports_the_mean_average_precision) {
  solver_case c;
  static log_lines lines;
  case_begin(&c);
  case_load(&c, detector,
            "lr_policy: 'fixed' max_iter: 1 test_iter: 3 test_interval: 1 eval_type: 'detection' "
            "ap_version: 'MaxIntegral' show_per_class_result: true");
  put(crema_solver_test_net(c.solver, 0), &second);
  listen_to(&lines, CREMA_LOG_INFO);
  ok(cr_solver_test_all(c.solver));
  stop_listening();
  /* Three times the second batch: class 1 has precisions 0, 1/4, ... 1/2 at recalls to 1/2. */
  assert_true(count_lines(&lines, "    Test net output #0: mAP = 0.125") == 1);
  assert_true(count_lines(&lines, "class1: 0.25") == 1);
  assert_true(count_lines(&lines, "class2: 0") == 1);
  assert_true(c.solver->has_score);
  assert_float_equal(c.solver->score, 0.125, 1e-6);
  case_end(&c);
}

/* Each output has a mean of its own; the first one's is the score. Classes are told of when asked
 * for. */
TEST(test_outputs_have_means_of_their_own) {
  static log_lines lines;
  static const char two[] =
      "layer { name: 'in' type: 'Input' top: 'p' top: 'q' input_param {\n"
      "  shape { dim: 3 dim: 5 } shape { dim: 2 dim: 5 } } }";
  static const float p[] = {-1, 1, 2, -1, -1, 0, 1, 0.9f, 1, 0, 0, 1, 0.95f, 0, 1};
  static const float q[] = {-1, 1, 1, -1, -1, 0, 1, 0.9f, 1, 0};
  Caffe__SolverParameter param = CAFFE__SOLVER_PARAMETER__INIT;
  char area[] = "Integral";
  cr_detections all = {0};
  crema_net *net = NULL;
  float *value;
  double found;
  param.ap_version = area;
  ok(crema_net_parse(two, strlen(two), NULL, NULL, &net));
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &value));
  memcpy(value, p, sizeof p);
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &value));
  memcpy(value, q, sizeof q);
  ok(cr_detections_add(&all, net));
  for (int told = 0; told < 2; ++told) {
    listen(&lines);
    ok(cr_detections_report(&all, &param, net, told == 1, &found));
    stop_listening();
    assert_float_equal(found, 0.25, 1e-6);
    assert_string_equal(lines.text, told == 0 ? ""
                                              : "    Test net output #0: p = 0.25\n"
                                                "    Test net output #1: q = 1\n");
  }
  cr_detections_free(&all);
  crema_net_destroy(net);
}

TEST(test_what_is_no_detection_is_refused) {
  solver_case c;
  case_begin(&c);
  case_refuse(&c,
              "lr_policy: 'fixed' max_iter: 1 test_iter: 1 test_interval: 1 eval_type: 'detektion'",
              CREMA_E_UNKNOWN_NAME, "unknown eval_type 'detektion'; did you mean detection");
  case_refuse(&c,
              "lr_policy: 'fixed' max_iter: 1 test_iter: 1 test_interval: 1 ap_version: '12point'",
              CREMA_E_UNKNOWN_NAME, "unknown ap_version '12point'; did you mean 11point");
  case_load(&c, small_net,
            "lr_policy: 'fixed' max_iter: 1 test_iter: 1 test_interval: 1 eval_type: 'detection'");
  assert_int_equal(cr_solver_test_all(c.solver), CREMA_E_SHAPE);
  assert_non_null(strstr(crema_error_text(), "which 'acc' is not"));
  /* As far as any word from those that are known. */
  case_refuse(&c, "lr_policy: 'fixed' max_iter: 1 test_iter: 1 test_interval: 1 eval_type: 'x' ",
              CREMA_E_UNKNOWN_NAME, "unknown eval_type 'x'");
  assert_null(strstr(crema_error_text(), "did you mean"));
  case_load(&c, small_net,
            "lr_policy: 'fixed' max_iter: 1 test_iter: 1 test_interval: 1 "
            "eval_type: 'classification' ap_version: '11point'");
  assert_false(cr_detections_wanted(c.solver->param));
  case_end(&c);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
