/* Random nets, compiled and plain, compute the same: all passes together, each pass alone, batches
 * of other sizes, and inner blobs that are asked for afterwards. */
#define _GNU_SOURCE /* asprintf */
#include "infer/model_case.h"
#include "infer/passes.h"
#include "net/random_nets.h"

enum { PASSES = 16 };

static char net_path[PATH_SIZE], weights_path[PATH_SIZE];
static sketch drawn;
static double worst_seen;
static int rounded; /* nets whose differences were looked at twice */

/* What is compared says more about a net whose values are of a usual size. */
static bool is_usual(crema_net *net) {
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    double largest = 0;
    ok(crema_blob_amax_data(crema_net_output(net, i), &largest));
    if (!(largest < 1e6)) return false;
  }
  return true;
}

static crema_session *open_session(crema_model **model, const char *const *without, size_t count) {
  crema_model_options options;
  crema_session *session = NULL;
  crema_model_options_init(&options);
  options.without = without;
  options.without_count = count;
  ok(crema_model_load(net_path, weights_path, &options, model));
  ok(crema_session_create(*model, NULL, &session));
  return session;
}

/* The drawn net in doubles, with the input of `net`. */
static crema_net *open_exact(crema_net *net) {
  crema_net_options options = phase_options(CREMA_TEST);
  crema_net *exact = NULL;
  char *text = NULL;
  const int size = asprintf(&text, "default_forward_type: DOUBLE %s", drawn.text);
  assert_true(size > 0);
  ok(crema_net_parse(text, (size_t)size, "exact", &options, &exact));
  ok(crema_net_load_weights(exact, weights_path));
  ok(crema_blob_reshape(crema_net_input(exact, 0), crema_blob_shape(crema_net_input(net, 0))));
  ok(crema_blob_copy_data(crema_net_input(exact, 0), crema_net_input(net, 0)));
  free(text);
  return exact;
}

/* Each value but 0, which is exact, becomes the next larger or the next smaller float. */
static void nudge(crema_blob *blob, uint64_t *random) {
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &data));
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) {
    const float to = draw_value(random) > 0 ? INFINITY : -INFINITY;
    if (data[i] != 0) data[i] = nextafterf(data[i], to);
  }
}

/* A pass in which all weights, and what each layer makes, are off by as much as rounding to floats
 * makes them. */
static void run_nudged(crema_net *net, uint64_t random) {
  for (int p = 0; p < net->learnables; ++p) nudge(net->learnable[p], &random);
  for (int i = 0; i < net->layers; ++i) {
    ok(cr_net_forward_range(net, i, i, NULL));
    for (int j = 0; j < net->layer[i].layer->tops; ++j) nudge(net->layer[i].top[j], &random);
  }
}

/* Where the largest value of an output is what is left of much larger ones, after a difference or a
 * Clip, roundings show. How much may be told by the plain net, or by a net of doubles that is
 * nudged as much. */
static bool is_rounding(crema_net *net, crema_session *session) {
  enum { NUDGED = 4 };
  crema_net *exact = open_exact(net), *other[NUDGED];
  bool fine = true;
  ok(crema_net_forward(exact, NULL));
  for (uint64_t k = 0; k < NUDGED; ++k) run_nudged(other[k] = open_exact(net), 11 + k);
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    crema_blob *want = crema_net_output(exact, i);
    const double compiled = difference(want, crema_session_output(session, i));
    double most = difference(want, crema_net_output(net, i));
    for (int k = 0; k < NUDGED; ++k) {
      most = fmax(most, difference(want, crema_net_output(other[k], i)));
    }
    fine = fine && compiled <= fmax(1e-5, 3 * most);
  }
  for (int k = 0; k < NUDGED; ++k) crema_net_destroy(other[k]);
  crema_net_destroy(exact);
  ++rounded;
  return fine;
}

static bool is_near(crema_net *net, crema_session *session, double error, const char *what) {
  if (error <= 1e-5 && error > worst_seen) worst_seen = error;
  if (error <= 1e-5 || is_rounding(net, session)) return true;
  print_error("%s: %g\n", what, error);
  return false;
}

/* Asked for after a run. */
static bool same_inner_blobs(crema_net *net, crema_session *session, uint64_t *random) {
  bool same = true;
  for (int k = 0; k < 2; ++k) {
    const int blobs = crema_net_blob_count(net);
    const int index = (int)((draw_value(random) + 1) / 2 * (float)(blobs - 1));
    const char *name = crema_net_blob_name(net, index);
    crema_blob *found = NULL;
    ok(crema_session_blob(session, name, &found));
    ok(crema_session_run(session));
    same = is_near(net, session, difference(blob_of(net, name), found), name) && same;
    same = is_near(net, session, output_difference(net, session), "outputs after asking") && same;
  }
  return same;
}

static bool same_with_batch(crema_net *net, crema_session *session, int64_t items,
                            uint64_t *random) {
  const crema_shape shape = cr_shape_4(items, 3, 6, 5);
  ok(crema_blob_reshape(crema_net_input(net, 0), &shape));
  draw_inputs(net, random);
  ok(crema_net_forward(net, NULL));
  return is_near(net, session, output_difference(net, session), "another batch");
}

static bool same_alone(crema_net *net) {
  bool same = true;
  for (size_t p = 0; p < cr_pass_count; ++p) {
    const char *others[PASSES];
    size_t count = 0;
    crema_model *model = NULL;
    for (size_t q = 0; q < cr_pass_count; ++q) {
      if (q != p) others[count++] = cr_passes[q].name;
    }
    crema_session *session = open_session(&model, others, count);
    same = is_near(net, session, output_difference(net, session), cr_passes[p].name) && same;
    crema_session_destroy(session);
    crema_model_destroy(model);
  }
  return same;
}

static bool same_model(crema_net *net, uint64_t *random) {
  crema_model *model = NULL;
  crema_session *session = open_session(&model, NULL, 0);
  bool same = is_near(net, session, output_difference(net, session), "all passes");
  same = same_alone(net) && same;
  same = same_inner_blobs(net, session, random) && same;
  same = same_with_batch(net, session, 1, random) && same;
  same = same_with_batch(net, session, 3, random) && same;
  if (!same) print_error("%s", crema_model_explain(model));
  crema_session_destroy(session);
  crema_model_destroy(model);
  return same;
}

static crema_net *make_net(uint64_t *random) {
  crema_net *net = NULL;
  FILE *file = fopen(net_path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(drawn.text, 1, drawn.used, file), drawn.used);
  assert_int_equal(fclose(file), 0);
  crema_net_options options = phase_options(CREMA_TEST);
  ok(crema_net_load(net_path, &options, &net));
  draw_statistics(net, random);
  draw_inputs(net, random);
  ok(crema_net_save_weights(net, weights_path));
  ok(crema_net_forward(net, NULL));
  return net;
}

TEST(models_compute_what_nets_do) {
  const char *given = getenv("CREMA_TEST_SEED"), *nets = getenv("CREMA_TEST_NETS");
  const uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
  const uint64_t count = nets != NULL ? strtoull(nets, NULL, 10) : 100;
  uint64_t random = seed, skipped = 0;
  snprintf(net_path, sizeof net_path, "%s", path_of("net.prototxt"));
  snprintf(weights_path, sizeof weights_path, "%s", path_of("net.caffemodel"));
  print_message("seed %llu\n", (unsigned long long)seed);
  for (uint64_t i = 0; i < count; ++i) {
    draw_net(&drawn, seed * 1000003 + i, FOR_INFERENCE);
    crema_net *net = make_net(&random);
    skipped += !is_usual(net);
    if (is_usual(net) && !same_model(net, &random)) {
      print_error("net %llu of seed %llu:\n", (unsigned long long)i, (unsigned long long)seed);
      fputs(drawn.text, stderr); /* longer than cmocka's lines */
      fail();
    }
    crema_net_destroy(net);
  }
  unlink(net_path);
  unlink(weights_path);
  print_message("largest difference %g; %d above, by rounding alone; %llu nets of huge values\n",
                worst_seen, rounded, (unsigned long long)skipped);
  assert_true((uint64_t)rounded * 50 <= count);
  assert_true(skipped * 10 <= count);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
