/* Every allocation fails once while an exchange is made and prepared: a status and a text each
 * time, and nothing is lost. */
#include "each_allocation.h"

#include "parallel/ranks.h"

enum { COUNT = 3 };

static ranks all;

static crema_status make(void *user) {
  const way *which = user;
  crema_status status = create_exchange(&all, *which);
  for (int i = 0; i < COUNT && status == CREMA_OK; ++i) {
    status = cr_exchange_prepare(all.rank[i].end, all.rank[i].span, all.spans);
  }
  /* What a failed call has left in end[] is not the caller's. */
  const bool made = status == CREMA_OK || all.rank[COUNT - 1].end != NULL;
  for (int i = 0; i < COUNT && made; ++i) cr_exchange_destroy(all.rank[i].end);
  return status;
}

/* A simulated stream and its thread stay when a context goes, for the next one. Those that an
 * exchange will need are made and have done some work before anything is counted. */
static void make_streams(void) {
  crema_context *context[COUNT];
  const cr_format wide = {CREMA_F64, NULL}, single = {CREMA_F32, NULL};
  for (int i = 0; i < COUNT; ++i) {
    rank *r = &all.rank[i];
    context[i] = sim_test_context(r->device);
    ok(r->device->backend->convert(context[i], 1, wide, r->span[1].memory, single,
                                   r->span[0].memory));
    ok(crema_context_finish(context[i]));
  }
  for (int i = 0; i < COUNT; ++i) crema_context_destroy(context[i]);
}

static void check(const char *options_text) {
  for (way which = TREE; which < WAYS; ++which) {
    cr_sim_options options = ranks_options(COUNT);
    options.keep_log = false;
    ok(cr_sim_parse(options_text, &options));
    sim_begin(&options);
    ranks_open(&all, COUNT);
    ranks_add_span(&all, CREMA_F32, 100);
    ranks_add_span(&all, CREMA_F64, 50);
    make_streams();
    each_allocation_fails("an exchange", make, &which, CREMA_OK, 40);
    for (int i = 0; i < COUNT; ++i) all.rank[i].end = NULL;
    ranks_close(&all);
    sim_end();
  }
}

TEST(test_direct) {
  check("");
}

TEST(test_by_way_of_the_host) {
  check("peers=none");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_direct),
                                     cmocka_unit_test(test_by_way_of_the_host)};
  return run_each_of(tests, NULL, NULL);
}
