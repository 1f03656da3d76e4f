/* Compiled models in BFLOAT16 and in integers of 8 bits against the net in FLOAT, and the tables of
 * scales. */
#include "check.h"
#include "comma_locale.h"
#include "infer/calibrate.h"
#include "infer/scales.h"
#include "model_case.h"

/* A residual block, a block with branches, groups, poolings of both kinds, a transposed product. */
static const char net_text[] =
    "name: 'precision'\n"
    "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 17 dim: 17 "
    "} } }\n"
    "layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1' convolution_param { num_output: "
    "16\n"
    "  kernel_size: 3 weight_filler { type: 'msra' } bias_filler { type: 'uniform' max: 0.3 } } }\n"
    "layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' }\n"
    "layer { name: 'p1' type: 'Pooling' bottom: 'c1' top: 'p1'\n"
    "  pooling_param { pool: MAX kernel_size: 3 stride: 2 } }\n"
    "layer { name: 'a' type: 'Convolution' bottom: 'p1' top: 'a' convolution_param { num_output: "
    "16\n"
    "  kernel_size: 1 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'a' top: 'a' }\n"
    "layer { name: 'b' type: 'Convolution' bottom: 'p1' top: 'b' convolution_param { num_output: "
    "16\n"
    "  kernel_size: 3 pad: 1 group: 16 bias_term: false weight_filler { type: 'msra' } } }\n"
    "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'sum' }\n"
    "layer { name: 'r2' type: 'ReLU' bottom: 'sum' top: 'sum' }\n"
    "layer { name: 'd' type: 'Convolution' bottom: 'sum' top: 'd' convolution_param { num_output: "
    "24\n"
    "  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'clip' type: 'Clip' bottom: 'd' top: 'd' clip_param { min: 0 max: 6 } }\n"
    "layer { name: 'e' type: 'Convolution' bottom: 'sum' top: 'e' convolution_param { num_output: "
    "8\n"
    "  kernel_size: 1 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'r3' type: 'ReLU' bottom: 'e' top: 'e' }\n"
    "layer { name: 'cat' type: 'Concat' bottom: 'd' bottom: 'e' top: 'cat' }\n"
    "layer { name: 'p2' type: 'Pooling' bottom: 'cat' top: 'p2'\n"
    "  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }\n"
    "layer { name: 'f' type: 'InnerProduct' bottom: 'p2' top: 'f' inner_product_param { "
    "num_output: 40\n"
    "  weight_filler { type: 'xavier' } bias_filler { type: 'constant' value: 0.1 } } }\n"
    "layer { name: 't' type: 'TanH' bottom: 'f' top: 'f' }\n"
    "layer { name: 'g' type: 'InnerProduct' bottom: 'f' top: 'g' inner_product_param { num_output: "
    "10\n"
    "  transpose: true weight_filler { type: 'xavier' } } }\n";

typedef struct precision_case {
  char net[PATH_SIZE], weights[PATH_SIZE], table[PATH_SIZE]; /* paths */
  uint64_t random;
  int products;     /* layers with a scale for their bottoms */
  crema_net *plain; /* with weights, after a pass */
} precision_case;

static void case_open(precision_case *c, const char *text, int products) {
  *c = (precision_case){.random = 7, .products = products};
  strcpy(c->net, path_of("net"));
  strcpy(c->weights, path_of("weights"));
  strcpy(c->table, path_of("table"));
  write_text("net", text);
  crema_net_options options = phase_options(CREMA_TEST);
  options.seed = 5;
  ok(crema_net_load(c->net, &options, &c->plain));
  draw_statistics(c->plain, &c->random);
  ok(crema_net_save_weights(c->plain, c->weights));
  draw_inputs(c->plain, &c->random);
  ok(crema_net_forward(c->plain, NULL));
}

static void case_close(precision_case *c) {
  crema_net_destroy(c->plain);
  unlink(c->net);
  unlink(c->weights);
  unlink(c->table);
}

static void calibrate(precision_case *c, cr_calibrate_method method) {
  cr_calibration *calibration = NULL;
  ok(cr_calibration_create(c->plain, &calibration));
  assert_int_equal(cr_calibration_layers(calibration), c->products);
  for (int i = 0; i < 40; ++i) {
    draw_inputs(c->plain, &c->random);
    ok(cr_calibration_run(calibration));
  }
  ok(cr_calibration_write(calibration, method, c->table));
  cr_calibration_destroy(calibration);
  ok(crema_net_forward(c->plain, NULL));
}

/* The mean of the differences of the first output's values, relative to the mean of their
 * magnitudes.
 */
static double mean_difference(const precision_case *c, crema_session *session) {
  crema_blob *a = crema_net_output(c->plain, 0), *b = crema_session_output(session, 0);
  const float *x = NULL, *y = NULL;
  double differences = 0, sizes = 0;
  ok(crema_blob_cpu_data(a, &x));
  ok(crema_blob_cpu_data(b, &y));
  for (int64_t i = 0; i < crema_blob_count(a); ++i) {
    differences += fabs((double)x[i] - (double)y[i]);
    sizes += fabs((double)x[i]);
  }
  return differences / sizes;
}

/* The mean difference of the output; *told is what the passes said, to be freed. */
static double run(precision_case *c, crema_precision precision, char **told) {
  crema_model_options options;
  crema_model *model = NULL;
  crema_session *session = NULL, *other = NULL;
  crema_model_options_init(&options);
  options.precision = precision;
  options.table = c->table;
  ok(crema_model_load(c->net, c->weights, &options, &model));
  ok(crema_session_create(model, NULL, &session));
  ok(crema_session_create(model, NULL, &other));
  const double found = output_difference(c->plain, session);
  /* The same bits from any session, and from a second run. */
  assert_true(output_difference(c->plain, other) == found);
  assert_true(output_difference(c->plain, session) == found);
  const double mean = mean_difference(c, session);
  *told = strdup(crema_model_explain(model));
  assert_non_null(*told);
  crema_session_destroy(other);
  crema_session_destroy(session);
  crema_model_destroy(model);
  return mean;
}

static void expect(const char *told, const char *line) {
  if (strstr(told, line) == NULL) fail_msg("'%s' is not in:\n%s", line, told);
}

/* Where the processor lacks the instructions the net is in FLOAT, and the text says so. */
static bool stays(const char *told, double found) {
  if (strstr(told, "stays in FLOAT") == NULL) return false;
  assert_true(found < 1e-5);
  return true;
}

TEST(bfloat16_is_near) {
  precision_case c;
  char *told = NULL;
  case_open(&c, net_text, 8);
  const double found = run(&c, CREMA_PRECISION_BF16, &told);
  print_message("mean difference in bf16: %.4f of the mean magnitude\n", found);
  if (!stays(told, found)) {
    assert_true(found > 1e-4 && found < 0.03);
    expect(told, "bf16: Convolution 'c1'\n");
    expect(told, "bf16: InnerProduct 'f'\n");
  }
  free(told);
  case_close(&c);
}

TEST(integers_are_near) {
  precision_case c;
  char *told = NULL;
  case_open(&c, net_text, 8);
  for (int method = 0; method < 3; ++method) {
    calibrate(&c, (cr_calibrate_method)method);
    const double found = run(&c, CREMA_PRECISION_INT8, &told);
    print_message("mean difference in int8 (%d): %.4f of the mean magnitude\n", method, found);
    if (!stays(told, found)) {
      assert_true(found > 1e-4 && found < 0.035);
      expect(told, "int8: Convolution 'c1' from int8 to uint8\n");
      expect(told, "int8: Convolution 'b' from uint8 to uint8\n"); /* the sum, and its ReLU */
      expect(told, "int8: Convolution 'a' from uint8 to int8\n");
      expect(told, "int8: Convolution 'd' from uint8 to uint8\n");
      expect(told, "int8: InnerProduct 'f' from uint8 to float\n"); /* TanH */
      expect(told, "int8: InnerProduct 'g' from int8 to float\n");
    }
    free(told);
  }
  case_close(&c);
}

/* A block whose input others read as it is. */
static const char dense_text[] =
    INPUT("x", DIM4(2, 8, 9, 9))
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 32"
    " kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }\n"
    "layer { name: 's' type: 'Scale' bottom: 'c' top: 's' scale_param { bias_term: true"
    " filler { type: 'uniform' min: -1 max: 1 } bias_filler { type: 'uniform' max: 0.3 } } }\n"
    "layer { name: 'r' type: 'ReLU' bottom: 's' top: 's' }\n"
    "layer { name: 'k' type: 'Convolution' bottom: 's' top: 'k' convolution_param { num_output: 16"
    " kernel_size: 1 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'y' type: 'Concat' bottom: 'c' bottom: 'k' top: 'y' }\n";

TEST(a_scale_rounds_what_it_makes) {
  precision_case c;
  char *told = NULL;
  case_open(&c, dense_text, 3);
  calibrate(&c, CR_CALIBRATE_MINMAX);
  const double found = run(&c, CREMA_PRECISION_INT8, &told);
  print_message("mean difference behind a Scale in int8: %.4f of the mean magnitude\n", found);
  if (!stays(told, found)) {
    assert_true(found > 1e-4 && found < 0.02);
    expect(told, "int8: Convolution 'c' from int8 to float\n");
    expect(told, "int8: Scale 's' to uint8\n");
    expect(told, "int8: Convolution 'k' from uint8 to float\n");
  }
  free(told);
  case_close(&c);
}

#define NORM_RELU(name, of)                                                     \
  "layer { name: '" name "/bn' type: 'BatchNorm' bottom: '" of "' top: '" name  \
  "/bn' }\n"                                                                    \
  "layer { name: '" name "/s' type: 'Scale' bottom: '" name "/bn' top: '" name  \
  "/bn'"                                                                        \
  " scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 }" \
  " bias_filler { type: 'uniform' min: -0.3 max: 0.3 } } }\n"                   \
  "layer { name: '" name "/r' type: 'ReLU' bottom: '" name "/bn' top: '" name "/bn' }\n"

#define DENSE_LAYER(name, of, all)                                                               \
  NORM_RELU(name, of)                                                                            \
  "layer { name: '" name "/1' type: 'Convolution' bottom: '" name "/bn' top: '" name             \
  "/1'"                                                                                          \
  " convolution_param { num_output: 24 kernel_size: 1 weight_filler { type: 'msra' } } }\n"      \
  "layer { name: '" name "/r2' type: 'ReLU' bottom: '" name "/1' top: '" name                    \
  "/1' }\n"                                                                                      \
  "layer { name: '" name "/2' type: 'Convolution' bottom: '" name "/1' top: '" name              \
  "/2'"                                                                                          \
  " convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }" \
  "\nlayer { name: '" all "' type: 'Concat' bottom: '" of "' bottom: '" name "/2' top: '" all    \
  "' }\n"

/* Blocks as DenseNet's: what is put side by side is read scaled, again and again. */
static const char blocks_text[] =
    INPUT("x", DIM4(2, 3, 19, 19))
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 32"
    " kernel_size: 3 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }\n"
    "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p' pooling_param { kernel_size: 3 stride: "
    "2 } }\n" DENSE_LAYER("a", "p", "ya") DENSE_LAYER("b", "ya", "yb")
        DENSE_LAYER("d", "yb", "yd") NORM_RELU("e", "yd")
    "layer { name: 'g' type: 'Pooling' bottom: 'e/bn' top: 'g' pooling_param { pool: AVE"
    " global_pooling: true } }\n"
    "layer { name: 'f' type: 'InnerProduct' bottom: 'g' top: 'f' inner_product_param {"
    " num_output: 40 weight_filler { type: 'xavier' } } }\n";

TEST(a_scale_reads_integers) {
  precision_case c;
  char *told = NULL;
  case_open(&c, blocks_text, 13); /* 8 products, 4 normalisations, an average */
  for (int method = 0; method < 3; ++method) {
    calibrate(&c, (cr_calibrate_method)method);
    const double found = run(&c, CREMA_PRECISION_INT8, &told);
    print_message("mean difference of dense blocks in int8 (%d): %.4f of the mean magnitude\n",
                  method, found);
    if (!stays(told, found)) {
      assert_true(found > 1e-4 && found < 0.035);
      expect(told, "int8: Scale 'a/bn' from int8 to uint8\n");
      expect(told, "int8: Scale 'd/bn' from int8 to uint8\n");
      expect(told, "int8: Convolution 'd/2' from uint8 to int8\n");
      expect(told, "int8: Scale 'e/bn' from int8 to uint8\n");
      expect(told, "int8: Pooling 'g' from uint8 to float\n");
      expect(told, "int8: Convolution 'c' from int8 to int8\n");
    }
    free(told);
  }
  case_close(&c);
}

#define TURN_UNIT(name, of)                                                                   \
  "layer { name: '" name "/cut' type: 'Slice' bottom: '" of "' top: '" name "/l' top: '" name \
  "/x' }\n"                                                                                   \
  "layer { name: '" name "/1' type: 'Convolution' bottom: '" name "/x' top: '" name           \
  "/1'"                                                                                       \
  " convolution_param { num_output: 24 kernel_size: 1 weight_filler { type: 'msra' } } }\n"   \
  "layer { name: '" name "/r1' type: 'ReLU' bottom: '" name "/1' top: '" name                 \
  "/1' }\n"                                                                                   \
  "layer { name: '" name "/2' type: 'Convolution' bottom: '" name "/1' top: '" name           \
  "/2'"                                                                                       \
  " convolution_param { num_output: 24 kernel_size: 3 pad: 1 group: 24"                       \
  " weight_filler { type: 'msra' } } }\n"                                                     \
  "layer { name: '" name "/3' type: 'Convolution' bottom: '" name "/2' top: '" name           \
  "/3'"                                                                                       \
  " convolution_param { num_output: 24 kernel_size: 1 weight_filler { type: 'msra' } } }\n"   \
  "layer { name: '" name "/r3' type: 'ReLU' bottom: '" name "/3' top: '" name                 \
  "/3' }\n"                                                                                   \
  "layer { name: '" name "/cat' type: 'Concat' bottom: '" name "/l' bottom: '" name           \
  "/3'"                                                                                       \
  " top: '" name                                                                              \
  "/cat' }\n"                                                                                 \
  "layer { name: '" name "/mix' type: 'ShuffleChannel' bottom: '" name "/cat' top: '" name    \
  "/y' shuffle_channel_param { group: 2 } }\n"

/* As ShuffleNet v2: halves of channels that take turns stay integers of one scale. */
static const char turns_text[] =
    INPUT("x", DIM4(2, 3, 17, 17))
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 48"
    " kernel_size: 3 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }\n" TURN_UNIT("a", "c")
        TURN_UNIT("b", "a/y")
    "layer { name: 'e' type: 'Convolution' bottom: 'b/y' top: 'e' convolution_param { num_output: 32"
    " kernel_size: 1 weight_filler { type: 'msra' } } }\n";

TEST(channels_take_turns_as_integers) {
  precision_case c;
  char *told = NULL;
  case_open(&c, turns_text, 8);
  calibrate(&c, CR_CALIBRATE_MINMAX);
  const double found = run(&c, CREMA_PRECISION_INT8, &told);
  print_message("mean difference of channels that take turns in int8: %.4f of the mean magnitude\n",
                found);
  if (!stays(told, found)) {
    assert_true(found > 1e-4 && found < 0.035);
    expect(told, "int8: Convolution 'c' from int8 to uint8\n");
    expect(told, "int8: Convolution 'a/3' from int8 to uint8\n");
    expect(told, "int8: Convolution 'b/1' from uint8 to uint8\n");
    expect(told, "int8: Convolution 'e' from uint8 to float\n");
  }
  free(told);
  case_close(&c);
}

#define NORMALISED(field)                                                                         \
  INPUT("x", DIM4(2, 8, 9, 9))                                                                    \
  "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 32" \
  " kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }\n"                                   \
  "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }\n"                                       \
  "layer { name: 'n' type: 'LRN' bottom: 'c' top: 'n' lrn_param { alpha: 0.5 beta: 0.75 k: "      \
  "2 " field                                                                                      \
  " } }\n"                                                                                        \
  "layer { name: 'p' type: 'Pooling' bottom: 'n' top: 'p' pooling_param { kernel_size: 3 } }\n"   \
  "layer { name: 'k' type: 'Convolution' bottom: 'p' top: 'k' convolution_param { num_output: 16" \
  " kernel_size: 1 weight_filler { type: 'msra' } } }\n"

/* Across channels; what is made within one channel is rounded behind the pooling. */
TEST(a_normalisation_rounds_what_it_makes) {
  static const char *const texts[] = {NORMALISED("local_size: 5"), NORMALISED("local_size: 3"),
                                      NORMALISED("local_size: 3 norm_region: WITHIN_CHANNEL")};
  for (int i = 0; i < 3; ++i) {
    precision_case c;
    char *told = NULL;
    case_open(&c, texts[i], 2);
    calibrate(&c, CR_CALIBRATE_MINMAX);
    const double found = run(&c, CREMA_PRECISION_INT8, &told);
    print_message("mean difference behind an LRN in int8: %.4f of the mean magnitude\n", found);
    if (!stays(told, found)) {
      assert_true(found > 1e-4 && found < 0.02);
      assert_true((strstr(told, "int8: LRN 'n' to uint8\n") != NULL) == (i < 2));
      expect(told, "int8: Convolution 'k' from uint8 to float\n");
    }
    free(told);
    case_close(&c);
  }
}

/* Magnitudes spread evenly up to 1, and of every 20,000 one of 8: the thresholds are the largest,
 * that below which 99.99 % of them lie, and that which the even ones need. */
TEST(thresholds_follow_the_distribution) {
  static const double wanted[] = {8, 1, 1};
  crema_net *net = build(INPUT("x", DIM4(1, 1, 100, 200))
                         "layer { name: 'mean' type: 'Pooling' bottom: 'x' top: 'mean'"
                         " pooling_param { pool: AVE global_pooling: true } }"
                         "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'"
                         " inner_product_param { num_output: 1 } }", CREMA_TEST);
  cr_calibration *calibration = NULL;
  float *data = NULL;
  ok(cr_calibration_create(net, &calibration));
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  for (int i = 0; i < 20000; ++i) data[i] = (float)(i + 1) / (i % 2 ? -20000 : 20000);
  data[777] = -8;
  for (int i = 0; i < 5; ++i) ok(cr_calibration_run(calibration));
  for (int method = 0; method < 3; ++method) {
    cr_scales scales = {0};
    ok(cr_calibration_write(calibration, (cr_calibrate_method)method, path_of("table")));
    ok(cr_scales_read(path_of("table"), &scales));
    const double threshold = 127 / (double)cr_scales_find(&scales, "ip", "")->value[0];
    print_message("method %d: %g\n", method, threshold);
    /* A bin is 8 / 2047 wide. */
    if (!(fabs(threshold - wanted[method]) < 0.005)) fail_msg("method %d: %g", method, threshold);
    /* An average needs the largest. */
    const float largest = 127 / cr_scales_find(&scales, "mean", "")->value[0];
    if (!(fabsf(largest - 8) < 0.005f))
      fail_msg("an average, method %d: %g", method, (double)largest);
    cr_scales_free(&scales);
  }
  cr_calibration_destroy(calibration);
  crema_net_destroy(net);
  unlink(path_of("table"));
}

/* Grey values minus their mean, as the example of volumes has them: few are near 0, most have one
 * of 64 magnitudes from 0.5 to 1. No threshold may be below most of them. */
TEST(thresholds_of_values_away_from_zero) {
  crema_net *net = build(INPUT("x", DIM4(1, 1, 200, 200))
                         "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'"
                         " inner_product_param { num_output: 1 } }", CREMA_TEST);
  cr_calibration *calibration = NULL;
  float *data = NULL;
  ok(cr_calibration_create(net, &calibration));
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  for (int i = 0; i < 40000; ++i) data[i] = i % 20 ? (float)(i * 7 % 64 - 128) / 128 : 0.25f;
  ok(cr_calibration_run(calibration));
  for (int method = 0; method < 3; ++method) {
    cr_scales scales = {0};
    ok(cr_calibration_write(calibration, (cr_calibrate_method)method, path_of("table")));
    ok(cr_scales_read(path_of("table"), &scales));
    const double threshold = 127 / (double)cr_scales_find(&scales, "ip", "")->value[0];
    if (!(threshold > 0.98 && threshold < 1.01)) fail_msg("method %d: %g", method, threshold);
    cr_scales_free(&scales);
  }
  cr_calibration_destroy(calibration);
  crema_net_destroy(net);
  unlink(path_of("table"));
}

/* As ncnn's tools write it: one number per layer, and nothing of sums. */
TEST(a_table_may_name_some_layers) {
  precision_case c;
  char *told = NULL;
  case_open(&c, net_text, 8);
  calibrate(&c, CR_CALIBRATE_MINMAX);
  cr_scales scales = {0};
  char table[200];
  ok(cr_scales_read(c.table, &scales));
  snprintf(table, sizeof table, "# a comment\n\nd_param_0 1 2\na %.9g\nd %.9g\n",
           (double)cr_scales_find(&scales, "a", "")->value[0],
           (double)cr_scales_find(&scales, "d", "")->value[0]);
  cr_scales_free(&scales);
  write_text("table", table);
  const double found = run(&c, CREMA_PRECISION_INT8, &told);
  if (!stays(told, found)) {
    assert_true(found > 1e-4 && found < 0.1);
    expect(told, "int8: Convolution 'd' from uint8 to float\n");
    expect(told, "int8: Convolution 'a' from uint8 to float\n");
    assert_null(strstr(told, "int8: Convolution 'c1'"));
  }
  free(told);
  write_text("table", "other 1\n");
  assert_true(run(&c, CREMA_PRECISION_INT8, &told) < 1e-5);
  free(told);
  case_close(&c);
}

/* Scales have a point, whatever the program's locale. */
TEST(tables_do_not_depend_on_the_locale) {
  cr_scales scales = {0};
  if (!comma_locale_begin()) skip(); /* no such locale is installed */
  write_text("table", "a 0.75\n");
  const crema_status status = cr_scales_read(path_of("table"), &scales);
  setlocale(LC_ALL, "C");
  ok(status);
  assert_true(cr_scales_find(&scales, "a", "")->value[0] == 0.75f);
  cr_scales_free(&scales);
  unlink(path_of("table"));
}

static void refuse_table(const precision_case *c, const char *table, crema_status code,
                         const char *word) {
  crema_model_options options;
  crema_model *model = NULL;
  crema_model_options_init(&options);
  options.precision = CREMA_PRECISION_INT8;
  options.table = table;
  assert_int_equal(crema_model_load(c->net, c->weights, &options, &model), code);
  assert_null(model);
  if (strstr(crema_error_text(), word) == NULL) fail_msg("%s", crema_error_text());
}

TEST(bad_tables_are_refused) {
  precision_case c;
  case_open(&c, net_text, 8);
  refuse_table(&c, NULL, CREMA_E_ARGUMENT, "calibrate");
  refuse_table(&c, "/no/such/table", CREMA_E_NOT_FOUND, "/no/such/table");
  write_text("table", "a 1 2\nb 3 four\n");
  refuse_table(&c, c.table, CREMA_E_PARSE, "line 2: 'four'");
  write_text("table", "a nan\n");
  refuse_table(&c, c.table, CREMA_E_PARSE, "line 1: 'nan'");
  case_close(&c);
}

/* Blocks of channels without padding; the last product reads signed integers. */
static const char wide_text[] =
    INPUT("x", DIM4(1, 32, 9, 9))
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 64"
    " kernel_size: 3 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'd' type: 'Convolution' bottom: 'c' top: 'd' convolution_param { num_output: 64"
    " kernel_size: 3 weight_filler { type: 'msra' } } }\n"
    "layer { name: 's' type: 'Scale' bottom: 'd' top: 'd' scale_param { filler { value: 0.7 } } }\n"
    "layer { name: 'f' type: 'InnerProduct' bottom: 'd' top: 'f' inner_product_param {"
    " num_output: 64 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'g' type: 'InnerProduct' bottom: 'f' top: 'g' inner_product_param {"
    " num_output: 64 transpose: true weight_filler { type: 'msra' } } }\n";

/* Bytes of the weights after two runs with 1 item, of which the second one keeps them. Batches of
 * another size, for which the library may want the weights in another format, have outputs near the
 * plain net's, too. */
static size_t bytes_of_weights(crema_net *plain, const char *table, crema_precision precision,
                               uint64_t *random) {
  crema_model_options options;
  crema_model *model = NULL;
  crema_session *session = NULL;
  crema_session_memory memory;
  size_t bytes = 0;
  crema_model_options_init(&options);
  options.precision = precision;
  options.table = table;
  ok(crema_model_load(path_of("wide"), path_of("weights"), &options, &model));
  ok(crema_session_create(model, NULL, &session));
  for (int items = 1; items <= 20; items += 19) {
    const crema_shape shape = cr_shape_4(items, 32, 9, 9);
    ok(crema_blob_reshape(crema_net_input(plain, 0), &shape));
    draw_inputs(plain, random);
    ok(crema_net_forward(plain, NULL));
    const double found = output_difference(plain, session);
    if (found > 0.1) fail_msg("%d items, precision %d: %g", items, precision, found);
    if (items == 1) ok(crema_session_run(session));
    ok(crema_session_memory_read(session, &memory));
    if (items == 1) bytes = memory.weights;
  }
  crema_session_destroy(session);
  crema_model_destroy(model);
  return bytes;
}

static bool is_short(crema_dtype type) {
  const cr_backend *backend = cr_cpu_device()->backend;
  return backend->is_fast != NULL && backend->is_fast(type);
}

/* No copy in FLOAT, and none in plain order, stays beside that of the library. */
TEST(weights_exist_once) {
  crema_net *plain = NULL;
  cr_calibration *calibration = NULL;
  uint64_t random = 3;
  const size_t count = 64 * 32 * 9 + 64 * 64 * 9 + 64 * 64 * 25 + 64 * 64;
  write_text("wide", wide_text);
  crema_net_options options = phase_options(CREMA_TEST);
  options.seed = 5;
  ok(crema_net_load(path_of("wide"), &options, &plain));
  ok(crema_net_save_weights(plain, path_of("weights")));
  ok(cr_calibration_create(plain, &calibration));
  for (int i = 0; i < 20; ++i) {
    draw_inputs(plain, &random);
    ok(cr_calibration_run(calibration));
  }
  ok(cr_calibration_write(calibration, CR_CALIBRATE_MINMAX, path_of("table")));
  cr_calibration_destroy(calibration);
  const size_t f32 = bytes_of_weights(plain, NULL, CREMA_PRECISION_F32, &random);
  const size_t bf16 = bytes_of_weights(plain, NULL, CREMA_PRECISION_BF16, &random);
  const size_t int8 = bytes_of_weights(plain, path_of("table"), CREMA_PRECISION_INT8, &random);
  print_message("bytes of %zu weights: %zu, %zu, %zu\n", count, f32, bf16, int8);
  assert_true((double)f32 < 4.1 * (double)count);
  if (is_short(CREMA_BF16)) assert_true((double)bf16 < 2.1 * (double)count);
  if (is_short(CREMA_I8)) assert_true((double)int8 < 1.1 * (double)count);
  crema_net_destroy(plain);
  unlink(path_of("wide"));
  unlink(path_of("weights"));
  unlink(path_of("table"));
}

/* A layer with scales of its own. */
static const char scaled_text[] =
    "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 9 dim: 9 } "
    "} "
    "}\n"
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 4\n"
    "  kernel_size: 3 weight_filler { type: 'msra' } } %s }\n";

/* The output with the scales in a table (`table` not NULL) or in the net. */
static void run_scaled(const char *quantization, const char *table, float *out, int64_t count) {
  char text[1200];
  crema_model_options options;
  crema_model *model = NULL;
  crema_session *session = NULL;
  const float *found = NULL;
  uint64_t random = 11;
  snprintf(text, sizeof text, scaled_text, quantization);
  write_text("net", text);
  if (table != NULL) write_text("table", table);
  crema_model_options_init(&options);
  options.precision = CREMA_PRECISION_INT8;
  options.allow_missing = true;
  options.seed = 5;
  options.table = table != NULL ? path_of("table") : NULL;
  ok(crema_model_load(path_of("net"), NULL, &options, &model));
  ok(crema_session_create(model, NULL, &session));
  crema_net_options net_options = phase_options(CREMA_TEST);
  crema_net *net = NULL;
  ok(crema_net_load(path_of("net"), &net_options, &net));
  draw_inputs(net, &random);
  copy_inputs(net, session);
  crema_net_destroy(net);
  ok(crema_session_run(session));
  assert_int_equal(crema_blob_count(crema_session_output(session, 0)), count);
  ok(crema_blob_cpu_data(crema_session_output(session, 0), &found));
  memcpy(out, found, (size_t)count * sizeof *out);
  crema_session_destroy(session);
  crema_model_destroy(model);
  unlink(path_of("net"));
  if (table != NULL) unlink(path_of("table"));
}

/* What Intel Caffe's calibration writes into a net counts as a table does: integers up to 255 where
 * values are not below 0. A table goes before it. */
TEST(nets_may_have_scales) {
  enum { COUNT = 2 * 4 * 7 * 7 };
  static float a[COUNT], b[COUNT];
  static const char table[] = "c_param_0 200 100 50 25\nc 63.5\n";
  run_scaled("", table, a, COUNT);
  run_scaled(
      "quantization_param { bw_layer_in: 8 bw_params: 8 scale_in: 63.5 is_negative_input: true "
      "scale_params: 200 scale_params: 100 scale_params: 50 scale_params: 25 }",
      NULL, b, COUNT);
  assert_memory_equal(a, b, sizeof a);
  run_scaled(
      "quantization_param { bw_layer_in: 8 scale_in: 127.5 scale_params: 200 scale_params: 100 "
      "scale_params: 50 scale_params: 25 }",
      NULL, b, COUNT);
  assert_memory_equal(a, b, sizeof a);
  run_scaled("quantization_param { bw_layer_in: 8 scale_in: 9 }", table, b, COUNT);
  assert_memory_equal(a, b, sizeof a);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
