/* Runs one compiled model in several threads, each with its own session:
 *   threads deploy.prototxt net.caffemodel THREADS RUNS */
#include <crema/crema.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 64 };

typedef struct job {
  crema_model *model;
  int runs;
  pthread_t thread;
  crema_status status;
} job;

static crema_status run(job *j, crema_session *session) {
  for (int i = 0; i < j->runs; ++i) {
    float *pixels = NULL;
    const float *scores = NULL;
    crema_blob *input = crema_session_input(session, 0);
    crema_status status = crema_blob_mutable_cpu_data(input, &pixels);
    if (status != CREMA_OK) return status;
    for (int64_t k = 0; k < crema_blob_count(input); ++k) pixels[k] = (float)((k + i) % 255);
    status = crema_session_run(session);
    if (status != CREMA_OK) return status;
    status = crema_blob_cpu_data(crema_session_output(session, 0), &scores);
    if (status != CREMA_OK) return status;
  }
  return CREMA_OK;
}

static void *work(void *user) {
  job *j = user;
  crema_session *session = NULL;
  crema_session_options options;
  crema_session_options_init(&options);
  options.threads = 1; /* this program starts its own threads */
  j->status = crema_session_create(j->model, &options, &session);
  if (j->status == CREMA_OK) j->status = run(j, session);
  /* Each thread has its own error text. */
  if (j->status != CREMA_OK) fprintf(stderr, "threads: %s\n", crema_error_text());
  crema_session_destroy(session);
  return NULL;
}

int main(int argc, char **argv) {
  static job jobs[MOST_THREADS];
  crema_model *model = NULL;
  int failed = 0;
  if (argc != 5) {
    fprintf(stderr, "usage: threads NET WEIGHTS THREADS RUNS\n");
    return 2;
  }
  const int threads = atoi(argv[3]);
  if (threads < 1 || threads > MOST_THREADS) {
    fprintf(stderr, "threads: 1 to %d threads\n", MOST_THREADS);
    return 2;
  }
  if (crema_model_load(argv[1], argv[2], NULL, &model) != CREMA_OK) {
    fprintf(stderr, "threads: %s\n", crema_error_text());
    return 1;
  }
  for (int i = 0; i < threads; ++i) {
    jobs[i].model = model;
    jobs[i].runs = atoi(argv[4]);
    if (pthread_create(&jobs[i].thread, NULL, work, &jobs[i]) != 0) return 1;
  }
  for (int i = 0; i < threads; ++i) {
    pthread_join(jobs[i].thread, NULL);
    failed += jobs[i].status != CREMA_OK;
  }
  crema_model_destroy(model);
  printf("%d threads, %s\n", threads, failed == 0 ? "all well" : "some failed");
  return failed > 0;
}
