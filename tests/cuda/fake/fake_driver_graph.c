/* Recorded work. The fake runtime and the fake libraries put their work on a stream that records
 * here, instead of doing it. */
#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"
#include "fake_runtime.h"

typedef struct fake_work {
  struct fake_work *next;
  void (*run)(const void *data);
  _Alignas(16) char data[];
} fake_work;

struct fake_graph {
  fake_work *first, *last;
  int users;
  bool spoiled;
};

/* That the thread records; NULL: none. */
static _Thread_local fake_graph *recorded;
static _Thread_local cudaStream_t recorder;

bool fake_begin_recording(cudaStream_t stream) {
  if (recorded != NULL || stream->recording != NULL) return false;
  fake_graph *graph = calloc(1, sizeof *graph);
  if (graph == NULL) return false;
  graph->users = 1;
  stream->recording = recorded = graph;
  recorder = stream;
  return true;
}

bool fake_end_recording(cudaStream_t stream, fake_graph **out) {
  if (recorded == NULL || recorder != stream) return false;
  *out = recorded;
  stream->recording = recorded = NULL;
  recorder = NULL;
  if (!(*out)->spoiled) return true;
  fake_release_graph(*out);
  *out = NULL;
  return true;
}

bool fake_spoil(void) {
  if (recorded != NULL) recorded->spoiled = true;
  return recorded != NULL;
}

bool fake_record(cudaStream_t stream, void (*run)(const void *data), const void *data,
                 size_t bytes) {
  fake_graph *graph = stream->recording;
  if (graph == NULL) return false;
  if (graph != recorded) abort(); /* work of another thread would become a part of the graph */
  fake_work *work = calloc(1, sizeof *work + bytes);
  if (work == NULL) abort();
  work->run = run;
  memcpy(work->data, data, bytes);
  if (graph->first == NULL) graph->first = work;
  else graph->last->next = work;
  graph->last = work;
  return true;
}

void fake_run_graph(const fake_graph *graph) {
  for (const fake_work *work = graph->first; work != NULL; work = work->next) work->run(work->data);
}

void fake_keep_graph(fake_graph *graph) {
  ++graph->users;
}

void fake_release_graph(fake_graph *graph) {
  if (--graph->users > 0) return;
  for (fake_work *work = graph->first, *next = NULL; work != NULL; work = next) {
    next = work->next;
    free(work);
  }
  free(graph);
}
