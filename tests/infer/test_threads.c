/* Sessions of one model in many threads: each run has the same bits as in one thread alone. */
#include "infer/model_case.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, BATCHES = 4 };

static const char text[] =
    INPUT("data", DIM4(1, 3, 8, 8))
    "layer { name: 'c1' type: 'Convolution' bottom: 'data' top: 'a' convolution_param {"
    " num_output: 8 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'n1' type: 'BatchNorm' bottom: 'a' top: 'a' }\n"
    "layer { name: 'r1' type: 'ReLU' bottom: 'a' top: 'a' }\n"
    "layer { name: 'c2' type: 'Convolution' bottom: 'a' top: 'b' convolution_param {"
    " num_output: 8 kernel_size: 1 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 's' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'c' }\n"
    "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'd' pooling_param { pool: MAX kernel_size: 2"
    " stride: 2 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'd' top: 'out' inner_product_param {"
    " num_output: 5 weight_filler { type: 'xavier' } } }\n";

static crema_model *model;
static float *wanted[BATCHES];
static int runs;
static crema_session_options how;
static atomic_int wrong;

/* Batches of 1 to BATCHES items. */
static void run_batch(crema_session *session, int items, float *out) {
  const crema_shape shape = cr_shape_4(items, 3, 8, 8);
  const float *result = NULL;
  uint64_t random = (uint64_t)items;
  crema_blob *input = crema_session_input(session, 0);
  ok(crema_blob_reshape(input, &shape));
  draw_values(input, &random);
  ok(crema_session_run(session));
  crema_blob *output = crema_session_output(session, 0);
  assert_int_equal(crema_blob_count(output), 5 * items);
  ok(crema_blob_cpu_data(output, &result));
  memcpy(out, result, (size_t)(5 * items) * sizeof *out);
}

static void *work(void *user) {
  crema_session *session = NULL;
  float found[5 * BATCHES];
  const int first = *(const int *)user;
  ok(crema_session_create(model, &how, &session));
  for (int i = 0; i < runs; ++i) {
    const int items = 1 + (first + i) % BATCHES;
    run_batch(session, items, found);
    if (memcmp(found, wanted[items - 1], (size_t)(5 * items) * sizeof *found) != 0) ++wrong;
  }
  crema_session_destroy(session);
  return NULL;
}

static void run_threads(void) {
  pthread_t thread[THREADS];
  int first[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    first[i] = i;
    assert_int_equal(pthread_create(&thread[i], NULL, work, &first[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i) assert_int_equal(pthread_join(thread[i], NULL), 0);
}

/* Sessions with so many threads each. */
static void compare_threads(int threads) {
  crema_session *session = NULL;
  crema_session_options_init(&how);
  how.threads = threads;
  ok(crema_session_create(model, &how, &session));
  for (int i = 0; i < BATCHES; ++i) {
    wanted[i] = malloc((size_t)(5 * (i + 1)) * sizeof **wanted);
    assert_non_null(wanted[i]);
    run_batch(session, i + 1, wanted[i]);
  }
  crema_session_destroy(session);
  run_threads();
  assert_int_equal(wrong, 0);
  for (int i = 0; i < BATCHES; ++i) free(wanted[i]);
}

TEST(threads_do_not_disturb_each_other) {
  const char *given = getenv("CREMA_TEST_RUNS");
  crema_model_options options;
  crema_model_options_init(&options);
  options.seed = 5;
  runs = given != NULL ? atoi(given) : 40;
  write_text("net", text);
  ok(crema_model_load(path_of("net"), NULL, &options, &model));
  compare_threads(1);
  compare_threads(0);
  crema_model_destroy(model);
  unlink(path_of("net"));
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
