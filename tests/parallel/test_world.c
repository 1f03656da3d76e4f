/* What a process finds out about others before it joins them. What processes do together is in
 * mpi_ranks.c. */
#include <stdlib.h>

#include "check.h"
#include "lock_check.h"
#include "parallel/peer_watch.h"
#include "parallel/world.h"

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "PMIX_RANK",
                                        "SLURM_STEP_NUM_TASKS", "PMI_SIZE",       "CREMA_MPI_PATH"};

static int without_variables(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; ++i) unsetenv(variables[i]);
  return 0;
}

static void set(const char *name, const char *value) {
  assert_int_equal(setenv(name, value, 1), 0);
}

TEST(a_process_by_itself_is_in_no_world) {
  assert_false(cr_world_is_there());
}

TEST(mpirun_says_how_many_there_are) {
  set("OMPI_COMM_WORLD_SIZE", "2");
  assert_true(cr_world_is_there());
  set("OMPI_COMM_WORLD_SIZE", "1");
  assert_false(cr_world_is_there());
}

TEST(slurm_says_how_many_there_are) {
  set("PMIX_NAMESPACE", "slurm.pmix.1.0");
  assert_false(cr_world_is_there());
  set("PMIX_RANK", "0");
  assert_true(cr_world_is_there());
  set("SLURM_STEP_NUM_TASKS", "1");
  assert_false(cr_world_is_there());
  set("SLURM_STEP_NUM_TASKS", "8");
  assert_true(cr_world_is_there());
}

/* So that they are refused, instead of training one by one. */
TEST(processes_of_another_mpi_are_noticed) {
  set("PMI_SIZE", "1");
  assert_false(cr_world_is_there());
  set("PMI_SIZE", "4");
  assert_true(cr_world_is_there());
}

TEST(a_missing_library_is_named) {
  cr_world *world = NULL;
  set("CREMA_MPI_PATH", "/nowhere");
  assert_fails(cr_world_join(&world), CREMA_E_NOT_FOUND, "/nowhere/libmpi.so.40");
  assert_error_has("CREMA_MPI_PATH");
  assert_null(world);
}

TEST(a_path_that_is_too_long_is_refused) {
  static char path[5000];
  cr_world *world = NULL;
  memset(path, 'x', sizeof path - 1);
  set("CREMA_MPI_PATH", path);
  assert_fails(cr_world_join(&world), CREMA_E_NOT_FOUND, "too long");
}

TEST(a_library_that_is_not_open_mpi_is_refused) {
  cr_world *world = NULL;
  set("CREMA_MPI_PATH", CREMA_BINARY_DIR "/tests/other_mpi");
  assert_fails(cr_world_join(&world), CREMA_E_UNSUPPORTED, "not a library of Open MPI");
}

TEST(no_world_is_one_process) {
  double sum = 3;
  int64_t most = 4;
  char byte = 5;
  assert_int_equal(cr_world_rank(NULL), 0);
  assert_int_equal(cr_world_size(NULL), 1);
  assert_int_equal(cr_world_local_rank(NULL), 0);
  assert_int_equal(cr_world_local_size(NULL), 1);
  ok(cr_world_agree(NULL, &sum, 1, &most, 1));
  assert_true(sum == 3 && most == 4);
  ok(cr_world_broadcast(NULL, &byte, 1));
  assert_int_equal(byte, 5);
  cr_world_fail(NULL, CREMA_E_IO);
  cr_world_leave(NULL);
}

/* In another container the same number means another process. */
TEST(peers_of_another_container_are_not_watched) {
  const cr_peer self = cr_peer_self(0);
  cr_peer all[3] = {self, self, self};
  cr_peer_watch watched;
  all[1].rank = 1;
  all[2].rank = 2;
  ++all[2].processes;
  ok(cr_peer_watch_start(all, 3, 0, &watched));
  /* Where the system allows it at all: rank 1 alone. */
  assert_true(watched.count <= 1);
  if (watched.count == 1) assert_int_equal(watched.rank[0], 1);
  assert_int_equal(cr_peer_watch_ended(&watched), -1);
  cr_peer_watch_stop(&watched);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_process_by_itself_is_in_no_world, without_variables),
      cmocka_unit_test_setup(mpirun_says_how_many_there_are, without_variables),
      cmocka_unit_test_setup(slurm_says_how_many_there_are, without_variables),
      cmocka_unit_test_setup(processes_of_another_mpi_are_noticed, without_variables),
      cmocka_unit_test_setup(a_missing_library_is_named, without_variables),
      cmocka_unit_test_setup(a_path_that_is_too_long_is_refused, without_variables),
      cmocka_unit_test_setup(a_library_that_is_not_open_mpi_is_refused, without_variables),
      cmocka_unit_test_setup(no_world_is_one_process, without_variables),
      cmocka_unit_test_setup(peers_of_another_container_are_not_watched, without_variables),
  };
  return run_each_of(tests, locks_begin, locks_end);
}
