/* An exchange that runs allocates nothing. */
#include <stdlib.h>

#include "allocations.h"
#include "parallel/ranks.h"

enum { COUNT = 4 };

static int rounds;

static crema_status exchange(rank *r) {
  for (int i = 0; i < rounds; ++i) {
    for (int s = 0; s < r->all->spans; ++s) {
      CR_TRY(cr_exchange_broadcast(r->end, r->context, s));
      CR_TRY(cr_exchange_sum(r->end, r->context, s));
    }
    CR_TRY(crema_context_finish(r->context));
  }
  return CREMA_OK;
}

static long allocations_of(ranks *all, int times) {
  const long before = own_allocations();
  rounds = times;
  ranks_run(all, exchange);
  return own_allocations() - before;
}

TEST(test_steady_state) {
  for (int w = 0; w < WAYS && COUNTS; ++w) {
    for (int host = 0; host < 2; ++host) {
      cr_sim_options options = ranks_options(COUNT);
      options.keep_log = options.check_races = false;
      ok(cr_sim_parse(host == 1 ? "peers=none" : "", &options));
      ranks all;
      sim_begin(&options);
      ranks_open(&all, COUNT);
      ranks_add_span(&all, CREMA_F32, 1000);
      ranks_add_span(&all, CREMA_BF16, 600001);
      ranks_add_span(&all, CREMA_F64, 7);
      ok(create_exchange(&all, (way)w));
      ranks_prepare(&all);
      (void)allocations_of(&all, 10);
      /* Those of the threads that are started; now and then a simulated stream grows. */
      const long few = allocations_of(&all, 1);
      assert_in_range(allocations_of(&all, 20) - few + COUNT, 0, 4 * COUNT);
      ranks_close(&all);
      sim_end();
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steady_state)};
  return run_each_of(tests, NULL, NULL);
}
