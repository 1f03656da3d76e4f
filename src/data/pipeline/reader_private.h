/* Shared by reader.c (consumers) and reader_thread.c (dealing). */
#ifndef CR_DATA_READER_PRIVATE_H
#define CR_DATA_READER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/queue.h"
#include "core/thread.h"
#include "data/pipeline/reader.h"
#include "data/pipeline/record_walk.h"

/* One consumer's part of the reader. */
typedef struct cr_reader_slot {
  bool here;         /* served by this reader */
  bool claimed;      /* by a solver of an input group */
  bool in;           /* has entered: the queues exist */
  bool lost;         /* another consumer has left in the meantime */
  bool resumed;      /* at its cursor */
  cr_record *record; /* options.depth of them */
  cr_queue_pair pair;
  cr_db_cursor *preview;
  uint64_t previewed; /* records before that cursor */
  /* Where the next run starts for it: */
  uint64_t index; /* of its cursor; 0: at the beginning */
  uint64_t next;  /* number of the first record that it is dealt */
  cr_buffer key;
} cr_reader_slot;

struct cr_reader {
  pthread_mutex_t lock; /* of the fields that consumers change; the thread does not take it */
  int consumers, depth;
  cr_record_walk walk; /* belongs to the thread while it runs */
  bool caches;         /* records should be kept */
  bool fresh;          /* the walk is at record 0, and no record was dealt */
  uint64_t skip;
  cr_reader_slot *slot; /* `consumers` of them */
  cr_thread *thread;
  _Atomic uint64_t dealt, busy_ns; /* for the statistics */
  struct {
    double begin;
    int records;
  } traced; /* the thread's records after its last wait, for the timeline */
};

/* The thread: goes to the slots' cursors and deals records out until it fails or is stopped;
 * consumers see a failure after the records dealt to them. Takes a cr_reader. */
crema_status cr_reader_run(void *arg) CREMA_MUST_USE;

#endif
