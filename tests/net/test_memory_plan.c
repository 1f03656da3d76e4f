/* Nets that plan their memory compute what others do, to the bit, and take less of it. */
#include "net/random_nets.h"

#include "device/memory/heap.h"
#include "layers/layer_table.h"

enum { PASSES = 3 };

/* How a net treats its memory. */
typedef enum treatment { PLAIN, PLANNED, RECOMPUTED, TREATMENTS } treatment;

static crema_net *build_planned(const char *text, crema_phase phase, treatment how) {
  crema_net_options options = phase_options(phase);
  options.plan_memory = how == PLANNED;
  options.recompute = how == RECOMPUTED;
  return build_with(text, &options);
}

/* ---- what comes out of passes ---- */

typedef struct results {
  float *value;
  size_t count, room;
} results;

static void add_results(results *r, const float *value, int64_t count) {
  if (r->count + (size_t)count > r->room) {
    r->room = 2 * (r->count + (size_t)count);
    r->value = realloc(r->value, r->room * sizeof *r->value);
    assert_non_null(r->value);
  }
  memcpy(r->value + r->count, value, (size_t)count * sizeof *value);
  r->count += (size_t)count;
}

/* The loss, the outputs, and the gradients of parameters. */
static void run_pass(crema_net *net, results *r) {
  double loss = 0;
  ok(crema_net_forward(net, &loss));
  const float as_float = (float)loss;
  add_results(r, &as_float, 1);
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    crema_blob *blob = crema_net_output(net, i);
    add_results(r, data_of(blob), crema_blob_count(blob));
  }
  if (net->phase == CREMA_TEST) return;
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
  for (int p = 0; p < net->learnables; ++p) {
    add_results(r, diff_of(net->learnable[p]), crema_blob_count(net->learnable[p]));
  }
}

static bool same(const results *a, const results *b) {
  assert_int_equal(a->count, b->count);
  return memcmp(a->value, b->value, a->count * sizeof *a->value) == 0;
}

/* The same net without sums that share gradients or values with their bottoms (S4-57). */
static crema_net *build_unshared(const char *text, crema_phase phase) {
  static char unshared[TEXT + 64];
  snprintf(unshared, sizeof unshared, "eltwise_mem_sharing: false\n%s", text);
  return build_planned(unshared, phase, PLAIN);
}

/* ---- random nets ---- */

static void run_batches(crema_net *net, results *r) {
  static const int64_t items[] = {2, 2, 4, 1, 2};
  for (size_t k = 0; k < sizeof items / sizeof items[0]; ++k) {
    const crema_shape shape = cr_shape_4(items[k], 3, 6, 5);
    ok(crema_blob_reshape(crema_net_input(net, 0), &shape));
    fill(crema_net_input(net, 0), -1, 0.011f);
    run_pass(net, r);
    const cr_heap_usage usage = cr_heap_usage_of(net->context);
    assert_int_equal(usage.in_use, 0);
    if (!net->plans) assert_int_equal(usage.held, 0);
  }
}

static void compare_random_nets(crema_phase phase, int form, uint64_t count) {
  const char *given = getenv("CREMA_TEST_SEED"), *nets = getenv("CREMA_TEST_NETS");
  const uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
  static sketch s;
  if (nets != NULL) count = strtoull(nets, NULL, 10);
  print_message("seed %llu\n", (unsigned long long)seed);
  for (uint64_t i = 0; i < count; ++i) {
    results r[TREATMENTS] = {{0}}, unshared = {0};
    draw_net(&s, seed * 1000003 + i, form);
    crema_net *net = build_unshared(s.text, phase);
    run_batches(net, &unshared);
    crema_net_destroy(net);
    bool alike = true;
    for (int how = 0; how < TREATMENTS; ++how) {
      net = build_planned(s.text, phase, (treatment)how);
      run_batches(net, &r[how]);
      crema_net_destroy(net);
      alike = alike && same(&unshared, &r[how]);
    }
    if (!alike) {
      print_error("net %llu of seed %llu:\n", (unsigned long long)i, (unsigned long long)seed);
      fputs(s.text, stderr); /* longer than cmocka's lines */
      fail();
    }
    for (int how = 0; how < TREATMENTS; ++how) free(r[how].value);
    free(unshared.value);
  }
}

TEST(random_nets_train_alike) {
  compare_random_nets(CREMA_TRAIN, FOR_TRAINING, 60);
}

TEST(random_nets_give_the_same) {
  compare_random_nets(CREMA_TEST, FOR_INFERENCE, 40);
}

/* ---- every layer, between others ---- */

static bool has_gradient(const layer_row *row, const cr_layer_class *kind, int bottom) {
  return strchr("npc", row->values[bottom]) != NULL &&
         (kind->no_gradient_bottoms >> bottom & 1u) == 0;
}

/* Bottom i of the layer is b<i>, which a layer makes of the input x<i>, so that its values pass. */
static void put_bottoms(sketch *s, const layer_row *row, const cr_layer_class *kind) {
  const char *shapes = row->shapes;
  for (int i = 0; *shapes != '\0'; ++i) {
    crema_shape shape;
    const bool learns = has_gradient(row, kind, i);
    shapes = rig_read_shape(shapes, &shape);
    put(s, "layer { name: 'x%d' type: 'Input' top: 'x%d' input_param { shape {", i, i);
    for (int k = 0; k < shape.axes; ++k) put(s, " dim: %d", (int)shape.dim[k]);
    put(s, " } } }\nlayer { name: 'b%d' type: '%s' bottom: 'x%d' top: 'b%d' %s }\n", i,
        learns ? "Scale" : "Power", i, i, learns ? "scale_param { axis: 0 num_axes: 0 }" : "");
  }
}

/* What reads the tops, which are t<i> or, in place, b0. */
static void put_readers(sketch *s, const layer_row *row, bool in_place) {
  for (int i = 0; i < row->tops; ++i) {
    char top[16];
    snprintf(top, sizeof top, "%s%d", in_place && i == 0 ? "b" : "t", i);
    if (i >= row->differentiable) {
      put(s, "layer { name: 'end%d' type: 'Silence' bottom: '%s' }\n", i, top);
      continue;
    }
    put(s,
        "layer { name: 'c%d' type: 'Power' bottom: '%s' top: 'c%d' power_param { power: 2 } }\n"
        "layer { name: 'sum%d' type: 'Reduction' bottom: 'c%d' top: 'sum%d' loss_weight: 0.7 "
        "reduction_param { axis: 0 } }\n",
        i, top, i, i, i, i);
  }
}

static void write_net(sketch *s, const layer_row *row, bool in_place) {
  const cr_layer_class *kind = NULL;
  ok(cr_layer_class_find(row->type, &kind));
  s->used = 0;
  put_bottoms(s, row, kind);
  put(s, "layer { name: 'op' type: '%s' phase: %s %s", row->type,
      row->phase == CAFFE__PHASE__TEST ? "TEST" : "TRAIN", row->body);
  for (size_t i = 0; i < strlen(row->values); ++i) {
    put(s, " bottom: 'b%d' propagate_down: %s", (int)i,
        has_gradient(row, kind, (int)i) ? "true" : "false");
  }
  for (int i = 0; i < row->tops; ++i) put(s, " top: '%s%d'", in_place && i == 0 ? "b" : "t", i);
  put(s, " }\n");
  if (!kind->loss) put_readers(s, row, in_place);
}

static void run_row(crema_net *net, const layer_row *row, results *r) {
  for (int pass = 0; pass < PASSES; ++pass) {
    uint32_t random = 88172645u + (uint32_t)pass;
    for (int i = 0; i < crema_net_input_count(net); ++i) {
      rig one = {.bottom = {crema_net_input(net, i)}, .bottoms = 1};
      const layer_row values = {.values = &row->values[i]};
      fill_bottoms(&one, &values, &random);
    }
    run_pass(net, r);
  }
}

TEST(every_layer_computes_the_same) {
  static sketch s;
  int compared = 0;
  for (int n = 0; n < ROWS; ++n) {
    const layer_row *row = &rows[n];
    if (has_flag(row, 'S') || has_flag(row, 'N') || row->values[0] == '\0') continue;
    for (int in_place = 0; in_place <= has_flag(row, 'I'); ++in_place) {
      results r[TREATMENTS] = {{0}};
      write_net(&s, row, in_place != 0);
      for (int how = 0; how < TREATMENTS; ++how) {
        crema_net *net = build_planned(s.text, CREMA_TRAIN, (treatment)how);
        run_row(net, row, &r[how]);
        assert_int_equal(cr_heap_usage_of(net->context).in_use, 0);
        crema_net_destroy(net);
      }
      if (!same(&r[0], &r[1]) || !same(&r[0], &r[2])) fail_msg("%s", s.text);
      for (int how = 0; how < TREATMENTS; ++how) free(r[how].value);
      ++compared;
    }
  }
  assert_true(compared > 80);
}

/* Between convolutions LRN finds its source in their private layouts, in which kernels for
 * inference give other last bits than those for training. */
static void write_lrn_net(sketch *s, int channels, int window) {
  s->used = 0;
  put(s, "%s", INPUT("data", DIM4(2, 3, 6, 5)));
  put(s,
      "layer { name: 'a' type: 'Convolution' bottom: 'data' top: 'a' convolution_param {"
      " num_output: %d kernel_size: 3 " FILL "} }\n",
      channels);
  put(s,
      "layer { name: 'b' type: 'LRN' bottom: 'a' top: 'b'"
      " lrn_param { local_size: %d alpha: 0.5 } }\n",
      window);
  put(s, "%s",
      "layer { name: 'c' type: 'Convolution' bottom: 'b' top: 'c' convolution_param {"
      " num_output: 8 kernel_size: 3 pad: 1 " FILL
      "} }\n"
      "layer { name: 'd' type: 'Reduction' bottom: 'c' top: 'd' loss_weight: 0.7"
      " reduction_param { operation: SUMSQ coeff: 0.1 } }\n");
}

/* The gradients of phase TEST, of a net without a plan, are those of training. */
static void check_gradients(const char *text) {
  crema_net *test = build_planned(text, CREMA_TEST, PLAIN);
  crema_net *train = build_planned(text, CREMA_TRAIN, PLAIN);
  results r = {0};
  fill(crema_net_input(test, 0), -1, 0.011f);
  fill(crema_net_input(train, 0), -1, 0.011f);
  run_pass(test, &r);
  run_pass(train, &r);
  crema_net_clear_param_diffs(test);
  ok(crema_net_backward(test));
  for (int p = 0; p < train->learnables; ++p) {
    const float *mine = diff_of(test->learnable[p]), *other = diff_of(train->learnable[p]);
    const int64_t count = crema_blob_count(train->learnable[p]);
    float most = 0;
    for (int64_t i = 0; i < count; ++i) most = fmaxf(most, fabsf(other[i]));
    assert_true(most > 0);
    for (int64_t i = 0; i < count; ++i) assert_float_equal(mine[i], other[i], 1e-5f * most);
  }
  free(r.value);
  crema_net_destroy(train);
  crema_net_destroy(test);
}

TEST(normalisation_of_neighbours_is_the_same) {
  static const int channels[] = {4, 8, 16, 32};
  static sketch s;
  for (size_t n = 0; n < sizeof channels / sizeof channels[0]; ++n) {
    for (int window = 1; window <= 5; window += 2) {
      write_lrn_net(&s, channels[n], window);
      for (int phase = CREMA_TRAIN; phase <= CREMA_TEST; ++phase) {
        results r[TREATMENTS] = {{0}};
        for (int how = 0; how < TREATMENTS; ++how) {
          crema_net *net = build_planned(s.text, (crema_phase)phase, (treatment)how);
          run_batches(net, &r[how]);
          crema_net_destroy(net);
          if (!same(&r[0], &r[how])) fail_msg("phase %d\n%s", phase, s.text);
        }
        for (int how = 0; how < TREATMENTS; ++how) free(r[how].value);
      }
      check_gradients(s.text);
    }
  }
}

/* ---- what is kept ---- */

#define CHAIN_OF(rates)                                                          \
  INPUT("data", DIM4(4, 3, 32, 32))                                              \
  "layer { name: 'a' type: 'Convolution' bottom: 'data' top: 'a' " rates         \
  " convolution_param {"                                                         \
  "  num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n" \
  "layer { name: 'b' type: 'TanH' bottom: 'a' top: 'b' }\n"                      \
  "layer { name: 'c' type: 'Convolution' bottom: 'b' top: 'c' " rates            \
  " convolution_param {"                                                         \
  "  num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n" \
  "layer { name: 'd' type: 'TanH' bottom: 'c' top: 'd' }\n"                      \
  "layer { name: 'e' type: 'Reduction' bottom: 'd' top: 'e' loss_weight: 1 }\n"
#define CHAIN CHAIN_OF("")

TEST(blobs_that_were_asked_for_are_kept_from_then_on) {
  for (int phase = CREMA_TRAIN; phase <= CREMA_TEST; ++phase) {
    crema_net *net = build_planned(CHAIN, (crema_phase)phase, PLANNED);
    crema_net *other = build(CHAIN, (crema_phase)phase);
    crema_blob *blob = NULL;
    const float *value = NULL;
    for (int pass = 0; pass < PASSES; ++pass) {
      results r = {0};
      fill(crema_net_input(net, 0), -1, 0.0002f);
      fill(crema_net_input(other, 0), -1, 0.0002f);
      run_pass(net, &r);
      run_pass(other, &r);
      free(r.value);
      ok(crema_net_blob(net, "c", &blob));
      if (pass == 0) {
        assert_fails(crema_blob_cpu_data(blob, &value), CREMA_E_STATE, "were released");
        continue;
      }
      const size_t bytes = (size_t)crema_blob_count(blob) * sizeof(float);
      assert_memory_equal(data_of(blob), data_of(blob_of(other, "c")), bytes);
      if (phase == CREMA_TRAIN)
        assert_memory_equal(diff_of(blob), diff_of(blob_of(other, "c")), bytes);
    }
    crema_net_destroy(other);
    crema_net_destroy(net);
  }
}

TEST(a_planned_net_of_phase_test_has_no_backward_pass) {
  crema_net *net = build_planned(CHAIN, CREMA_TEST, PLANNED);
  ok(crema_net_forward(net, NULL));
  assert_fails(crema_net_backward(net), CREMA_E_STATE, "plan_memory");
  crema_net_destroy(net);
}

/* Two blobs are there at once, four are not. */
TEST(a_pass_takes_what_is_needed_at_once) {
  crema_net *net = build_planned(CHAIN, CREMA_TEST, PLANNED);
  const size_t blob = 4 * 8 * 32 * 32 * sizeof(float);
  for (int pass = 0; pass < PASSES; ++pass) {
    ok(crema_net_forward(net, NULL));
    const cr_heap_usage usage = cr_heap_usage_of(net->context);
    assert_in_range(usage.highest, 2 * blob, 2 * blob + blob / 2);
  }
  crema_net_destroy(net);
}

/* Private layouts of parameters and of their gradients that have memory. */
static int count_private(const crema_net *net) {
  int found = 0;
  for (int p = 0; p < net->learnables; ++p) {
    const crema_blob *blob = net->learnable[p];
    const size_t plain = (size_t)crema_blob_count(blob) * sizeof(float);
    found += cr_tensor_memory_of(blob->data).host > plain;
    found += cr_tensor_memory_of(blob->diff).host > plain;
  }
  return found;
}

/* With a rate of 0 a parameter is not trained, and stays in the layout of the convolution. */
TEST(parameters_that_are_trained_are_held_once) {
  static const char fixed[] = CHAIN_OF("param { lr_mult: 0 } param { lr_mult: 0 }");
  crema_net *plain = build_planned(CHAIN, CREMA_TRAIN, PLAIN);
  crema_net *planned = build_planned(CHAIN, CREMA_TRAIN, PLANNED);
  crema_net *kept = build_planned(fixed, CREMA_TRAIN, PLANNED);
  for (int pass = 0; pass < PASSES; ++pass) {
    results a = {0}, b = {0}, c = {0};
    fill(crema_net_input(plain, 0), -1, 0.0002f);
    fill(crema_net_input(planned, 0), -1, 0.0002f);
    fill(crema_net_input(kept, 0), -1, 0.0002f);
    run_pass(plain, &a);
    run_pass(planned, &b);
    run_pass(kept, &c);
    assert_true(same(&a, &b));
    assert_int_equal(count_private(planned), 0);
    free(a.value);
    free(b.value);
    free(c.value);
  }
  /* Where the library has such layouts at all. */
  if (count_private(plain) > 0) assert_true(count_private(kept) > 0);
  crema_net_destroy(kept);
  crema_net_destroy(planned);
  crema_net_destroy(plain);
}

/* What is not finite is found although the blob's values are gone, and the masks of the search are
 * those of the pass. */
TEST(the_first_blob_that_is_not_finite_is_found) {
  const char *text = CHAIN
      "layer { name: 'drop' type: 'Dropout' bottom: 'd' top: 'drop' }\n"
      "layer { name: 'f' type: 'Power' bottom: 'drop' top: 'f' power_param { power: -1 } }\n"
      "layer { name: 'g' type: 'Reduction' bottom: 'f' top: 'g' loss_weight: 1 }\n";
  const char *layer = NULL, *name = NULL;
  bool found = false;
  crema_net *net = build_planned(text, CREMA_TRAIN, PLANNED);
  fill(crema_net_input(net, 0), -1, 0.0002f);
  ok(crema_net_forward(net, NULL));
  ok(cr_net_find_nonfinite(net, &found, &layer, &name));
  assert_true(found);
  assert_string_equal(name, "f");
  assert_string_equal(layer, "f");
  assert_int_equal(net->layer[cr_net_find_layer(net, "drop")].layer->pass, 1);
  crema_net_destroy(net);
}

/* The loss is the sum of the squares of blob b<last>. */
static void put_loss(sketch *s, int last) {
  put(s,
      "layer { name: 'end' type: 'Reduction' bottom: 'b%d' top: 'end' loss_weight: 1 "
      "reduction_param { operation: SUMSQ } }\n",
      last);
}

/* A net of many layers alike: what stays between segments and one segment, of some 4 + 4 blocks. */
TEST(values_that_are_computed_again_take_no_memory_in_between) {
  enum { BLOCKS = 16 };
  static sketch s;
  size_t highest[TREATMENTS] = {0};
  results r[TREATMENTS] = {{0}};
  s.used = 0;
  put(&s, "%s", INPUT("b0", DIM4(4, 8, 24, 24)));
  for (int i = 1; i <= BLOCKS; ++i) {
    put(&s,
        "layer { name: 'c%d' type: 'Convolution' bottom: 'b%d' top: 'b%d' convolution_param {"
        "  num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n"
        "layer { name: 'n%d' type: 'BatchNorm' bottom: 'b%d' top: 'b%d' }\n"
        "layer { name: 's%d' type: 'Scale' bottom: 'b%d' top: 'b%d' }\n"
        "layer { name: 'd%d' type: 'Dropout' bottom: 'b%d' top: 'b%d' }\n",
        i, i - 1, i, i, i, i, i, i, i, i, i, i);
  }
  put_loss(&s, BLOCKS);
  for (int how = 0; how < TREATMENTS; ++how) {
    crema_net *net = build_planned(s.text, CREMA_TRAIN, (treatment)how);
    for (int pass = 0; pass < PASSES; ++pass) {
      fill(crema_net_input(net, 0), -1, 0.0001f);
      run_pass(net, &r[how]);
    }
    /* The running statistics have had each batch once. */
    add_results(&r[how], data_of(param_of(net, "n7", 1)), 8);
    add_results(&r[how], data_of(param_of(net, "n7", 2)), 1);
    highest[how] = cr_heap_usage_of(net->context).highest;
    crema_net_destroy(net);
  }
  assert_true(same(&r[PLAIN], &r[PLANNED]) && same(&r[PLAIN], &r[RECOMPUTED]));
  print_message("planned %zu bytes, recomputed %zu\n", highest[PLANNED], highest[RECOMPUTED]);
  assert_true(highest[RECOMPUTED] < highest[PLANNED] * 6 / 10);
  for (int how = 0; how < TREATMENTS; ++how) free(r[how].value);
}

/* Each pass begins with the state that the last one ended with: computing values again, for
 * backward or in search of what is not finite, must not carry it on. */
TEST(recurrent_layers_carry_their_state_once) {
  enum { LAYERS = 6 };
  static sketch s;
  results r[TREATMENTS] = {{0}};
  s.used = 0;
  put(&s, "%s",
      INPUT("b0", "dim: 5 dim: 2 dim: 8")
      "layer { name: 'cont' type: 'DummyData' top: 'cont' dummy_data_param {"
      "  shape { dim: 5 dim: 2 } data_filler { type: 'constant' value: 1 } } }\n");
  for (int i = 1; i <= LAYERS; ++i) {
    put(&s,
        "layer { name: 'r%d' type: '%s' bottom: 'b%d' bottom: 'cont' top: 'b%d' recurrent_param {"
        "  num_output: 8 weight_filler { type: 'xavier' } } }\n",
        i, i % 3 == 0 ? "RNN" : "LSTM", i - 1, i);
  }
  put_loss(&s, LAYERS);
  for (int how = 0; how < TREATMENTS; ++how) {
    crema_net *net = build_planned(s.text, CREMA_TRAIN, (treatment)how);
    for (int pass = 0; pass < PASSES; ++pass) {
      bool found = false;
      fill(crema_net_input(net, 0), -1, 0.02f);
      run_pass(net, &r[how]);
      ok(cr_net_find_nonfinite(net, &found, NULL, NULL));
      assert_false(found);
    }
    crema_net_destroy(net);
  }
  assert_true(same(&r[PLAIN], &r[PLANNED]));
  assert_true(same(&r[PLAIN], &r[RECOMPUTED]));
  for (int how = 0; how < TREATMENTS; ++how) free(r[how].value);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
