/* Ranks meet in queues alone, so a tree can only hang in how their queue operations interleave.
 * Operations are noted where they are linked, once for each rank of a real exchange; then every
 * order in which they could have happened is looked at: none may end before all are done
 * (S3-21). */
#include <stdint.h>

#include "core/queue.h"
#include "parallel/group.h"
#include "parallel/ranks.h"

enum { MOST_OPERATIONS = 256, MOST_QUEUES = 64, MODEL_RANKS = 4, MOST_STATES = 1 << 22 };

/* Of all queues of a link for spans of one piece. */
enum { CAPACITY = 1 };

typedef struct operation {
  const cr_queue *queue;
  int number; /* of the queue */
  bool push;
} operation;

typedef struct rank_operations {
  operation operation[MOST_OPERATIONS];
  int count;
} rank_operations;

static struct {
  rank_operations rank[MODEL_RANKS];
  size_t first_size[MOST_QUEUES]; /* when the ranks begin */
  int queues;
} model;

/* ---- noting ---- */

/* Of the thread's rank; NULL: nothing is noted. */
static _Thread_local rank_operations *noted;

crema_status __real_cr_queue_push(cr_queue *queue, void *item);
crema_status __real_cr_queue_pop(cr_queue *queue, const char *waiting_for, void **out);
crema_status __wrap_cr_queue_push(cr_queue *queue, void *item);
crema_status __wrap_cr_queue_pop(cr_queue *queue, const char *waiting_for, void **out);

static void note(const cr_queue *queue, bool push) {
  if (noted == NULL) return;
  assert_in_range(noted->count, 0, MOST_OPERATIONS - 1);
  noted->operation[noted->count++] = (operation){.queue = queue, .push = push};
}

crema_status __wrap_cr_queue_push(cr_queue *queue, void *item) {
  note(queue, true);
  return __real_cr_queue_push(queue, item);
}

crema_status __wrap_cr_queue_pop(cr_queue *queue, const char *waiting_for, void **out) {
  note(queue, false);
  return __real_cr_queue_pop(queue, waiting_for, out);
}

static crema_status exchange_noted(rank *r) {
  crema_status status = CREMA_OK;
  noted = &model.rank[r->number];
  for (int turn = 0; turn < 2 && status == CREMA_OK; ++turn) {
    status = cr_exchange_broadcast(r->end, r->context, 0);
    if (status == CREMA_OK) status = cr_exchange_sum(r->end, r->context, 0);
  }
  noted = NULL;
  return status == CREMA_OK ? crema_context_finish(r->context) : status;
}

/* Gives queues their numbers. */
static void number_queues(int count) {
  const cr_queue *queue[MOST_QUEUES];
  model.queues = 0;
  for (int r = 0; r < count; ++r) {
    for (int i = 0; i < model.rank[r].count; ++i) {
      operation *o = &model.rank[r].operation[i];
      int n = 0;
      while (n < model.queues && queue[n] != o->queue) ++n;
      assert_in_range(n, 0, MOST_QUEUES - 1);
      if (n == model.queues) queue[model.queues++] = o->queue;
      o->number = n;
    }
  }
  /* After whole calls the queues hold what they held before. */
  for (int n = 0; n < model.queues; ++n) {
    model.first_size[n] = cr_queue_size((cr_queue *)(uintptr_t)queue[n]);
  }
}

/* ---- all orders ---- */

/* A position is how far each rank is; what the queues hold follows. */
typedef struct position {
  uint8_t at[MODEL_RANKS];
} position;

static struct {
  uint64_t seen[MOST_STATES / 64]; /* by index_of */
  position stack[MOST_STATES];
  size_t depth, found;
} search;

static size_t index_of(const position *s, int count) {
  size_t index = 0;
  for (int r = 0; r < count; ++r) {
    index = index * (size_t)(model.rank[r].count + 1) + s->at[r];
  }
  assert_in_range(index, 0, MOST_STATES - 1);
  return index;
}

static void visit(const position *s, int count) {
  const size_t index = index_of(s, count);
  if (search.seen[index / 64] >> index % 64 & 1) return;
  search.seen[index / 64] |= (uint64_t)1 << index % 64;
  search.stack[search.depth++] = *s;
  ++search.found;
}

static void find_sizes(const position *s, int count, int64_t *size) {
  for (int n = 0; n < model.queues; ++n) size[n] = (int64_t)model.first_size[n];
  for (int r = 0; r < count; ++r) {
    for (int i = 0; i < s->at[r]; ++i) {
      const operation *o = &model.rank[r].operation[i];
      size[o->number] += o->push ? 1 : -1;
    }
  }
}

/* Visits the states that follow; returns how many ranks can go on. */
static int go_on(const position *s, int count) {
  int64_t size[MOST_QUEUES];
  int going = 0;
  find_sizes(s, count, size);
  for (int r = 0; r < count; ++r) {
    if (s->at[r] == model.rank[r].count) continue;
    const operation *o = &model.rank[r].operation[s->at[r]];
    if (size[o->number] == (o->push ? CAPACITY : 0)) continue; /* it waits */
    position next = *s;
    ++next.at[r];
    ++going;
    visit(&next, count);
  }
  return going;
}

static bool is_done(const position *s, int count) {
  for (int r = 0; r < count; ++r) {
    if (s->at[r] < model.rank[r].count) return false;
  }
  return true;
}

/* Returns in how many states ranks wait for each other for ever. */
static int look_at_all_orders(int count) {
  const position begin = {{0}};
  int stuck = 0;
  memset(&search, 0, sizeof search);
  visit(&begin, count);
  while (search.depth > 0) {
    const position s = search.stack[--search.depth];
    if (go_on(&s, count) == 0 && !is_done(&s, count)) ++stuck;
  }
  return stuck;
}

/* ---- tests ---- */

static void note_exchange(int count) {
  cr_sim_options options = ranks_options(count);
  ranks all;
  memset(&model, 0, sizeof model);
  sim_begin(&options);
  ranks_open(&all, count);
  ranks_add_span(&all, CREMA_F32, 1000);
  ok(create_exchange(&all, TREE));
  ranks_prepare(&all);
  assert_int_equal(cr_piece_cut_for(1000 * sizeof(float)).most, CAPACITY);
  ranks_run(&all, exchange_noted);
  number_queues(count);
  ranks_close(&all);
  sim_end();
}

TEST(s3_21_no_order_makes_ranks_wait_for_ever) {
  for (int count = 2; count <= MODEL_RANKS; ++count) {
    note_exchange(count);
    assert_int_equal(look_at_all_orders(count), 0);
    print_message("%d ranks: %zu positions\n", count, search.found);
    assert_true(search.found > (size_t)(10 * count));
  }
}

/* The search finds what it is for: ranks that wait for each other. */
TEST(s3_21_a_tree_that_waits_in_a_circle_is_noticed) {
  note_exchange(2);
  /* The child takes its slot before it offers its place. */
  rank_operations *child = &model.rank[1];
  int pop = 0, push = 0;
  while (child->operation[pop].push) ++pop;
  while (!child->operation[push].push) ++push;
  const operation first = child->operation[push];
  child->operation[push] = child->operation[pop];
  child->operation[pop] = first;
  assert_true(look_at_all_orders(2) > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s3_21_no_order_makes_ranks_wait_for_ever),
      cmocka_unit_test(s3_21_a_tree_that_waits_in_a_circle_is_noticed),
  };
  return run_each_of(tests, NULL, NULL);
}
