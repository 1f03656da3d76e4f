/* What a solver file decides and what is said of it: the device, the seed, the lines of the log,
 * when things are due, and states of nets inside and outside. */
#include <math.h>

#include "layers/common/input_class.h"
#include "memory/math.h"
#include "solver_case.h"

static void hush(void) {
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
}

/* Loads a file that holds just `text`. */
static crema_status load_text(solver_case *c, const char *text) {
  char path[256];
  case_write(c, "solver.prototxt", text);
  crema_solver_destroy(c->solver);
  c->solver = NULL;
  return crema_solver_load(case_path(c, "solver.prototxt", path), &c->options, &c->solver);
}

/* ---- fields without effect ---- */

TEST(richness_of_another_caffe_is_reported) {
  static log_lines lines;
  solver_case c;
  case_begin(&c);
  case_write(&c, "net.prototxt", small_net);
  listen(&lines);
  assert_int_equal(load_text(&c,
                             "net: 'net.prototxt' base_lr: 1 lr_policy: 'fixed' solver_mode: CPU "
                             "device_id: [1, 0] richness: 200\n"),
                   CREMA_OK);
  hush();
  assert_int_equal(count_lines(&lines, "richness has no effect"), 1);
  assert_int_equal(count_lines(&lines, "only the first value of device_id counts"), 1);
  assert_int_equal(c.solver->param->device_id, 1);
  case_end(&c);
}

/* ---- the device ---- */

/* Without a GPU training is on the CPU, with a warning where a GPU was asked for. */
TEST(devices) {
  static const struct {
    const char *text;
    const char *words; /* NULL: nothing is said */
  } cases[] = {{"", NULL},
               {"solver_mode: CPU", NULL},
               {"solver_mode: CPU device_id: 3", NULL},
               {"solver_mode: GPU",
                "solver_mode is GPU, but there is no GPU 0 here; training on "
                "the CPU"},
               {"solver_mode: GPU device_id: 7", "solver_mode is GPU, but there is no GPU 7 here"}};
  static log_lines lines;
  crema_device *cpu = NULL;
  solver_case c;
  if (crema_device_count(CREMA_DEVICE_CUDA) > 0) skip(); /* it is about machines without a GPU */
  assert_int_equal(crema_device_get(CREMA_DEVICE_CPU, 0, &cpu), CREMA_OK);
  case_begin(&c);
  case_write(&c, "net.prototxt", small_net);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[256];
    snprintf(text, sizeof text, "net: 'net.prototxt' base_lr: 1 lr_policy: 'fixed' %s\n",
             cases[i].text);
    listen(&lines);
    assert_int_equal(load_text(&c, text), CREMA_OK);
    hush();
    assert_ptr_equal(c.solver->device, cpu);
    assert_int_equal(count_lines(&lines, "GPU"), cases[i].words == NULL ? 0 : 2);
    if (cases[i].words != NULL) assert_int_equal(count_lines(&lines, cases[i].words), 1);
  }
  /* The caller's device needs no warning. */
  c.options.device = cpu;
  listen(&lines);
  assert_int_equal(load_text(&c,
                             "net: 'net.prototxt' base_lr: 1 lr_policy: 'fixed' "
                             "solver_mode: GPU\n"),
                   CREMA_OK);
  hush();
  assert_ptr_equal(c.solver->device, cpu);
  assert_int_equal(count_lines(&lines, "GPU"), 0);
  case_end(&c);
}

/* ---- the seed ---- */

static void load_with_seed(solver_case *c, const char *seed, float weights[6]) {
  char text[256];
  snprintf(text, sizeof text, "net: 'net.prototxt' base_lr: 1 lr_policy: 'fixed' %s\n", seed);
  assert_int_equal(load_text(c, text), CREMA_OK);
  case_weights(c, weights);
}

TEST(seeds) {
  float a[6], b[6];
  solver_case c;
  case_begin(&c);
  case_write(&c, "net.prototxt", small_net);
  load_with_seed(&c, "random_seed: 5", a);
  assert_int_equal(c.solver->seed, 5);
  assert_int_equal(c.solver->net->seed, 5);
  load_with_seed(&c, "random_seed: 5", b);
  assert_memory_equal(a, b, sizeof a);
  load_with_seed(&c, "random_seed: 6", b);
  assert_memory_not_equal(a, b, sizeof a);
  load_with_seed(&c, "random_seed: 0", b);
  assert_int_equal(c.solver->seed, 0);
  assert_memory_not_equal(a, b, sizeof a);
  /* None, or one below 0: another one each time. */
  load_with_seed(&c, "", a);
  assert_int_not_equal(c.solver->seed, 0);
  load_with_seed(&c, "", b);
  assert_memory_not_equal(a, b, sizeof a);
  load_with_seed(&c, "random_seed: -2", a);
  assert_memory_not_equal(a, b, sizeof a);
  case_end(&c);
}

/* ---- the log ---- */

/* A display, and only a display, shows the loss, the outputs and the rate. */
TEST(displays) {
  static log_lines lines;
  solver_case c;
  case_begin(&c);
  c.options.feed = case_feed;
  case_load(&c, small_net, "lr_policy: 'step' stepsize: 3 gamma: 0.5 display: 3 max_iter: 7");
  listen(&lines);
  assert_int_equal(crema_solver_step(c.solver, 7), CREMA_OK);
  hush();
  assert_int_equal(count_lines(&lines, " iter/s, "), 3);
  assert_int_equal(count_lines(&lines, "Iteration 0 (0 iter/s, "), 1);
  assert_int_equal(count_lines(&lines, "Iteration 3 ("), 1);
  assert_int_equal(count_lines(&lines, "Iteration 6 ("), 1);
  assert_int_equal(count_lines(&lines, "s/3 iters), loss = "), 3);
  assert_int_equal(count_lines(&lines, "    Train net output #0: loss = "), 3);
  assert_int_equal(count_lines(&lines, " (* 1 = "), 3);
  assert_int_equal(count_lines(&lines, " loss)\n"), 3);
  assert_int_equal(count_lines(&lines, "Iteration 0, lr = 0.1\n"), 1);
  assert_int_equal(count_lines(&lines, "Iteration 3, lr = 0.05\n"), 1);
  assert_int_equal(count_lines(&lines, "Iteration 6, lr = 0.025\n"), 1);
  assert_int_equal(count_lines(&lines, ", lr = "), 3);
  double lapse = -1;
  const char *first = strstr(lines.text, "Iteration 0 (0 iter/s, ");
  assert_int_equal(sscanf(first, "Iteration 0 (0 iter/s, %lfs/3 iters)", &lapse), 1);
  assert_true(lapse >= 0 && lapse < 600); /* since training began */
  /* Each call begins anew. */
  c.solver->display_time = -1;
  assert_int_equal(crema_solver_step(c.solver, 0), CREMA_OK);
  assert_int_equal(c.solver->display_iteration, 7);
  assert_true(c.solver->display_time > 0);
  case_end(&c);
}

/* The speed is that of the iterations since the last display. */
TEST(speeds) {
  static log_lines lines;
  solver_case c;
  case_begin(&c);
  case_load(&c, small_net, "lr_policy: 'fixed' display: 10");
  const double begin = 1000;
  c.solver->iteration = 30;
  c.solver->display_iteration = 20;
  c.solver->display_time = -begin;
  listen(&lines);
  cr_report_iteration(c.solver, 2.5);
  hush();
  double speed = 0, lapse = 0;
  assert_int_equal(
      sscanf(lines.text, "Iteration 30 (%lf iter/s, %lfs/10 iters), loss = 2.5\n", &speed, &lapse),
      2);
  assert_true(lapse > begin && fabs(speed * lapse - 10) < 0.01);
  assert_int_equal(c.solver->display_iteration, 30);
  assert_true(c.solver->display_time > -begin);
  case_end(&c);
}

TEST(outputs_in_the_log) {
  static log_lines lines;
  listen(&lines);
  cr_report_output("Train", 3, "name", 0.5, 0);
  cr_report_output("Test", 0, "loss", 0.5, 3);
  cr_report_output("Test", 1, "loss", -2, -0.5);
  hush();
  assert_string_equal(lines.text,
                      "    Train net output #3: name = 0.5\n"
                      "    Test net output #0: loss = 0.5 (* 3 = 1.5 loss)\n"
                      "    Test net output #1: loss = -2 (* -0.5 = 1 loss)\n");
}

/* All values of all outputs are numbered. */
TEST(outputs_of_the_train_net) {
  static log_lines lines;
  solver_case c;
  case_begin(&c);
  case_load(&c,
            "layer { name: 'a' type: 'DummyData' top: 'a' dummy_data_param { shape { dim: 2 } "
            "data_filler { value: 3 } } }\n"
            "layer { name: 'b' type: 'Parameter' top: 'b' loss_weight: 2 parameter_param { shape { "
            "dim: 2 } } }\n",
            "lr_policy: 'fixed'");
  assert_int_equal(crema_net_forward(c.solver->net, NULL), CREMA_OK);
  listen(&lines);
  assert_int_equal(cr_report_train_outputs(c.solver), CREMA_OK);
  hush();
  assert_string_equal(lines.text,
                      "    Train net output #0: a = 3\n"
                      "    Train net output #1: a = 3\n"
                      "    Train net output #2: b = 0 (* 2 = 0 loss)\n"
                      "    Train net output #3: b = 0 (* 2 = 0 loss)\n");
  case_end(&c);
}

/* ---- which nets ---- */

#define INLINE(field, name)                                       \
  field " { layer { name: '" name                                 \
        "' type: 'Parameter' top: 'p' parameter_param { shape { " \
        "dim: 1 } } loss_weight: 1 } }\n"
#define FIXED "base_lr: 1 lr_policy: 'fixed' solver_mode: CPU\n"

/* Two fields that name the net to train are one too many. */
TEST(nets_named_twice) {
  static const char *const text[] = {INLINE("train_net_param", "x"), "train_net: 'net.prototxt'\n",
                                     INLINE("net_param", "x"), "net: 'net.prototxt'\n"};
  static const char *const field[] = {"train_net_param", "train_net", "net_param", "net"};
  solver_case c;
  case_begin(&c);
  case_write(&c, "net.prototxt", small_net);
  for (int i = 0; i < 4; ++i) {
    char both[1024], words[128];
    snprintf(both, sizeof both, FIXED "%s", text[i]);
    assert_int_equal(load_text(&c, both), CREMA_OK);
    for (int k = i + 1; k < 4; ++k) {
      snprintf(both, sizeof both, FIXED "%s%s", text[k], text[i]);
      snprintf(words, sizeof words, "both %s and %s name a net to train; give one", field[i],
               field[k]);
      assert_fails(load_text(&c, both), CREMA_E_PARSE, words);
      assert_null(c.solver);
    }
  }
  static log_lines lines;
  listen(&lines);
  assert_int_equal(load_text(&c, FIXED "train_net: 'net.prototxt'\n"), CREMA_OK);
  hush();
  assert_int_equal(count_lines(&lines, "Creating training net from train_net file: net.prototxt\n"),
                   1);
  assert_int_equal(count_lines(&lines, "Creating training net specified in"), 0);
  assert_fails(load_text(&c, FIXED), CREMA_E_PARSE,
               "no net to train; set one of net, net_param, train_net, train_net_param");
  case_end(&c);
}

static void assert_first_layer(const crema_net *net, const char *name) {
  assert_string_equal(crema_net_layer_name(net, 0), name);
}

/* test_net_param, then test_net, then the net itself for each test_iter that is left. */
TEST(order_of_test_nets) {
  static log_lines lines;
  solver_case c;
  case_begin(&c);
  case_write(&c, "a.prototxt",
             "layer { name: 'a' type: 'Parameter' top: 'p' parameter_param { "
             "shape { dim: 1 } } loss_weight: 1 }\n");
  listen(&lines);
  assert_int_equal(
      load_text(
          &c,
          FIXED INLINE("net_param", "own") "test_net: 'a.prototxt'\n" INLINE("test_net_param", "x")
              INLINE("test_net_param",
                     "y") "test_iter: 1 test_iter: 2 test_iter: 3 test_iter: 4 test_iter: 5 "
                          "test_interval: 1\n"),
      CREMA_OK);
  hush();
  assert_int_equal(crema_solver_test_net_count(c.solver), 5);
  assert_first_layer(crema_solver_net(c.solver), "own");
  assert_first_layer(crema_solver_test_net(c.solver, 0), "x");
  assert_first_layer(crema_solver_test_net(c.solver, 1), "y");
  assert_first_layer(crema_solver_test_net(c.solver, 2), "a");
  assert_first_layer(crema_solver_test_net(c.solver, 3), "own");
  assert_first_layer(crema_solver_test_net(c.solver, 4), "own");
  assert_null(crema_solver_test_net(c.solver, 5));
  assert_null(crema_solver_test_net(c.solver, -1));
  assert_int_equal(count_lines(&lines, "Creating training net specified in net_param.\n"), 1);
  assert_int_equal(count_lines(&lines, "Creating test net (#0) specified by test_net_param\n"), 1);
  assert_int_equal(
      count_lines(&lines, "Creating test net (#2) specified by test_net file: a.prototxt\n"), 1);
  assert_int_equal(count_lines(&lines, "Creating test net (#4) specified by net_param\n"), 1);
  case_end(&c);
}

TEST(counts_of_test_entries) {
  static const struct {
    const char *text;
    crema_status status;
    const char *words;
  } cases[] = {
      {INLINE("net_param", "n") "test_net: 'a.prototxt' test_net: 'a.prototxt' test_iter: 1 "
                                "test_interval: 1\n",
       CREMA_E_PARSE, "2 test nets but 1 test_iter entries; give one for each"},
      {INLINE("train_net_param", "n") "test_net: 'a.prototxt' test_iter: 1 test_iter: 1 "
                                      "test_interval: 1\n",
       CREMA_E_PARSE, "1 test nets but 2 test_iter entries; give one for each"},
      {INLINE("train_net_param", "n") "test_iter: 1 test_interval: 1\n", CREMA_E_PARSE,
       "0 test nets but 1 test_iter entries; give one for each"},
      {INLINE("net_param", "n") "test_iter: 1 test_iter: 1 test_interval: 1 test_state { }\n",
       CREMA_E_PARSE, "2 test nets but 1 test_state entries; give one for each"},
      {INLINE("net_param", "n") "test_iter: 1 test_interval: 1 test_state { } test_state { }\n",
       CREMA_E_PARSE, "1 test nets but 2 test_state entries; give one for each"},
      {INLINE("net_param", "n") "test_iter: 1\n", CREMA_E_PARSE,
       "there are test nets but test_interval is 0, not above 0"},
      {INLINE("net_param", "n") "test_iter: 1 test_interval: -1\n", CREMA_E_RANGE,
       "test_interval must not be negative, found -1"},
      {INLINE("net_param", "n") "test_iter: 1 test_iter: 0 test_interval: 1\n", CREMA_E_ARGUMENT,
       "test_iter: 0 is not possible: no layer reads samples from files"},
      {INLINE("net_param", "n") "test_iter: -1 test_interval: 1\n", CREMA_E_RANGE,
       "test_iter must not be negative, found -1; 0 scores each sample once"},
      {INLINE("net_param", "n") "test_iter: 1 test_interval: 1 test_state { level: 1 }\n", CREMA_OK,
       ""},
      {INLINE("net_param", "n"), CREMA_OK, ""},
  };
  solver_case c;
  case_begin(&c);
  case_write(&c, "a.prototxt",
             "layer { name: 'n' type: 'Parameter' top: 'p' parameter_param { "
             "shape { dim: 1 } } loss_weight: 1 }\n");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[1024];
    snprintf(text, sizeof text, FIXED "%s", cases[i].text);
    crema_status status = load_text(&c, text);
    if (cases[i].status == CREMA_OK) assert_int_equal(status, CREMA_OK);
    else assert_fails(status, cases[i].status, cases[i].words);
  }
  case_end(&c);
}

/* Levels and stages come from the net's own text, from the solver file and from the caller, the
 * later ones of the level winning; test nets do not ask the caller. */
TEST(levels_and_stages) {
  static const char *const net =
      "state { level: 1 stage: 'own' }\n"
      "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 1 } }\n"
      "  loss_weight: 1 }\n"
      "layer { name: 'l1' type: 'DummyData' top: 'a' include { min_level: 1 max_level: 1 }\n"
      "  dummy_data_param { shape { dim: 1 } } }\n"
      "layer { name: 'l2' type: 'DummyData' top: 'b' include { min_level: 2 max_level: 2 }\n"
      "  dummy_data_param { shape { dim: 1 } } }\n"
      "layer { name: 'l3' type: 'DummyData' top: 'c' include { min_level: 3 max_level: 3 }\n"
      "  dummy_data_param { shape { dim: 1 } } }\n"
      "layer { name: 'all' type: 'DummyData' top: 'd' dummy_data_param { shape { dim: 1 } }\n"
      "  include { stage: 'own' stage: 'file' stage: 'file2' stage: 'caller' } }\n";
  static const char *const stages[] = {"caller"};
  solver_case c;
  case_begin(&c);
  case_load(&c, net, "lr_policy: 'fixed' test_iter: 1 test_interval: 1");
  assert_true(cr_net_find_layer(crema_solver_net(c.solver), "l1") >= 0);
  assert_true(cr_net_find_layer(crema_solver_test_net(c.solver, 0), "l1") >= 0);
  static const char *const text =
      "lr_policy: 'fixed' test_iter: 1 test_interval: 1\n"
      "train_state { level: 2 stage: 'file' stage: 'file2' } test_state { level: 3 }";
  case_load(&c, net, text);
  assert_true(cr_net_find_layer(crema_solver_net(c.solver), "l2") >= 0);
  assert_true(cr_net_find_layer(crema_solver_net(c.solver), "all") < 0);
  assert_true(cr_net_find_layer(crema_solver_test_net(c.solver, 0), "l3") >= 0);
  c.options.level = 3;
  c.options.stages = stages;
  c.options.stage_count = 1;
  case_load(&c, net, text);
  assert_true(cr_net_find_layer(crema_solver_net(c.solver), "l3") >= 0);
  assert_true(cr_net_find_layer(crema_solver_net(c.solver), "l2") < 0);
  assert_true(cr_net_find_layer(crema_solver_net(c.solver), "all") >= 0);
  assert_true(cr_net_find_layer(crema_solver_test_net(c.solver, 0), "all") < 0);
  /* They are not kept. */
  assert_null(c.solver->options.stages);
  assert_int_equal(c.solver->options.stage_count, 0);
  case_end(&c);
}

/* ---- losses ---- */

TEST(windows_of_losses) {
  cr_loss_window window = {0};
  assert_fails(cr_loss_window_init(&window, 0), CREMA_E_RANGE,
               "average_loss must be at least 1, found 0");
  assert_int_equal(cr_loss_window_init(&window, -1), CREMA_E_RANGE);
  assert_int_equal(cr_loss_window_init(&window, 3), CREMA_OK);
  assert_true(cr_loss_window_add(&window, 1) == 1);
  assert_true(cr_loss_window_add(&window, 2) == 1.5);
  assert_true(cr_loss_window_add(&window, 6) == 3);
  assert_true(window.count == 3 && window.next == 0);
  assert_true(cr_loss_window_add(&window, 10) == 6);
  assert_true(window.count == 3 && window.next == 1);
  assert_true(cr_loss_window_add(&window, 2) == 6);
  free(window.loss);
  window = (cr_loss_window){0};
  assert_int_equal(cr_loss_window_init(&window, 1), CREMA_OK);
  assert_true(cr_loss_window_add(&window, 7) == 7);
  assert_true(cr_loss_window_add(&window, 8) == 8);
  free(window.loss);
}

/* ---- updates ---- */

/* A parameter that is fixed stays; rules that measure the gradient measure its decay all the same.
 */
TEST(histories_of_fixed_parameters) {
  static const struct {
    const char *text;
    bool measured;
  } cases[] = {{"type: 'SGD' momentum: 0.9", false},
               {"type: 'Nesterov' momentum: 0.9", false},
               {"type: 'AdaGrad'", true},
               {"type: 'RMSProp' rms_decay: 0.5", true},
               {"type: 'AdaDelta' momentum: 0.9", true},
               {"type: 'Adam' momentum: 0.9", true}};
  static const char *const net =
      "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
      "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' param { lr_mult: 0 }\n"
      "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' }\n";
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    solver_case c;
    float before[6], after[6];
    char text[128];
    double sum = 0;
    snprintf(text, sizeof text, "lr_policy: 'fixed' weight_decay: 0.1 %s", cases[i].text);
    case_begin_fed(&c, net, text);
    case_weights(&c, before);
    assert_int_equal(crema_solver_step(c.solver, 2), CREMA_OK);
    case_weights(&c, after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(cr_tensor_asum(cr_updater_history(c.solver->updater, 0)->data, &sum),
                     CREMA_OK);
    assert_int_equal(sum > 0, cases[i].measured);
    case_end(&c);
  }
}

/* ---- states ---- */

static void assert_layer(const Caffe__CremaState__Net *net, size_t i, const cr_layer *layer) {
  assert_string_equal(net->layer[i]->name, layer->name);
  assert_true(net->layer[i]->has_key && net->layer[i]->key == layer->key);
  assert_true(net->layer[i]->has_pass && net->layer[i]->pass == layer->pass);
  assert_int_equal(net->layer[i]->has_state,
                   layer->kind->input != NULL && layer->kind->input->save != NULL);
}

/* All that a state records, with and without a plateau policy. */
TEST(content_of_states) {
  const cr_model_sum sum = {12345, 0xdeadbeef};
  Caffe__SolverState *message = NULL;
  solver_case c;
  case_begin(&c);
  c.options.feed = case_feed;
  case_load(&c, small_net,
            "lr_policy: 'fixed' type: 'Adam' momentum: 0.9 average_loss: 2 test_iter: 1 "
            "test_interval: 100 test_initialization: false");
  assert_int_equal(crema_solver_step(c.solver, 3), CREMA_OK);
  assert_int_equal(cr_state_to_proto(c.solver, "model", &sum, &message), CREMA_OK);
  assert_true(message->has_iter && message->iter == 3);
  assert_true(message->has_current_step && message->current_step == 0);
  assert_false(message->has_minimum_loss || message->has_iter_last_event);
  assert_string_equal(message->learned_net, "model");
  assert_int_equal(message->n_history, 4);
  const Caffe__CremaState *extra = message->crema_state;
  assert_true(extra->has_seed && extra->seed == 5);
  assert_true(extra->has_model_size && extra->model_size == 12345);
  assert_true(extra->has_model_crc32 && extra->model_crc32 == 0xdeadbeef);
  assert_int_equal(extra->n_generator, 625);
  assert_memory_equal(extra->generator, c.solver->context->rng.state, 624 * sizeof(uint32_t));
  assert_int_equal(extra->generator[624], c.solver->context->rng.next);
  assert_int_equal(extra->n_loss, 2);
  assert_memory_equal(extra->loss, c.solver->window.loss, 2 * sizeof(double));
  assert_true(extra->has_next_loss && extra->next_loss == 1);
  assert_int_equal(extra->n_net, 2);
  for (int n = 0; n < 2; ++n) {
    const crema_net *net = n == 0 ? c.solver->net : c.solver->test_net[0];
    assert_int_equal(extra->net[n]->n_layer, net->layers);
    for (int i = 0; i < net->layers; ++i) {
      assert_layer(extra->net[n], (size_t)i, net->layer[i].layer);
    }
  }
  assert_int_equal(c.solver->net->layer[1].layer->pass, 3);
  cr_state_proto_free(message);
  cr_state_proto_free(NULL);
  case_load(&c, small_net, "lr_policy: 'plateau' gamma: 0.5 plateau_winsize: 1");
  assert_int_equal(crema_solver_step(c.solver, 6), CREMA_OK);
  assert_int_equal(cr_state_to_proto(c.solver, "", &sum, &message), CREMA_OK);
  assert_true(message->has_minimum_loss && message->minimum_loss == c.solver->rate.minimum_loss);
  assert_true(message->has_iter_last_event);
  assert_int_equal(message->iter_last_event, c.solver->rate.last_event);
  assert_int_equal(message->current_step, c.solver->rate.step);
  cr_state_proto_free(message);
  case_end(&c);
}

/* Only layers that the state counts are taken, whatever lies behind them. */
TEST(layers_that_a_state_lacks) {
  const cr_model_sum sum = {1, 2};
  Caffe__SolverState *message = NULL;
  solver_case c;
  case_begin(&c);
  case_load(&c, small_net, "lr_policy: 'fixed'");
  assert_int_equal(cr_state_to_proto(c.solver, "", &sum, &message), CREMA_OK);
  Caffe__CremaState__Net *net = message->crema_state->net[0];
  const size_t layers = net->n_layer;
  for (size_t i = 0; i < layers; ++i) net->layer[i]->key = 1000 + i;
  for (size_t kept = 0; kept <= layers; ++kept) {
    for (size_t i = 0; i < layers; ++i) c.solver->net->layer[i].layer->key = 7;
    net->n_layer = kept;
    assert_int_equal(cr_state_check(c.solver, message), CREMA_OK);
    assert_int_equal(cr_state_from_proto(c.solver, message), CREMA_OK);
    for (size_t i = 0; i < layers; ++i) {
      assert_int_equal(c.solver->net->layer[i].layer->key, i < kept ? 1000 + i : 7);
    }
  }
  cr_state_proto_free(message);
  case_end(&c);
}

/* What is held is written until it is released, and gone back to. */
TEST(held_states) {
  const cr_model_sum sum = {1, 2};
  Caffe__SolverState *message = NULL;
  solver_case c;
  case_begin(&c);
  c.options.feed = case_feed;
  case_load(&c, small_net, "lr_policy: 'fixed'");
  cr_layer *layer = c.solver->net->layer[1].layer;
  layer->pass = 10;
  assert_int_equal(cr_state_hold(c.solver), CREMA_OK);
  layer->pass = 20;
  assert_int_equal(cr_state_hold(c.solver), CREMA_OK);
  assert_int_equal(cr_state_to_proto(c.solver, "", &sum, &message), CREMA_OK);
  assert_int_equal(message->crema_state->net[0]->layer[1]->pass, 10);
  assert_int_equal(message->crema_state->model_size, 1);
  cr_state_proto_free(message);
  assert_int_equal(cr_state_rewind(c.solver), CREMA_OK);
  assert_int_equal(layer->pass, 10);
  assert_null(c.solver->held);
  layer->pass = 30;
  assert_int_equal(cr_state_rewind(c.solver), CREMA_OK);
  assert_int_equal(layer->pass, 30);
  assert_int_equal(cr_state_hold(c.solver), CREMA_OK);
  cr_state_release(c.solver);
  assert_null(c.solver->held);
  layer->pass = 40;
  assert_int_equal(cr_state_to_proto(c.solver, "", &sum, &message), CREMA_OK);
  assert_int_equal(message->crema_state->net[0]->layer[1]->pass, 40);
  cr_state_proto_free(message);
  case_end(&c);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
