/* What a net knows of the solver that it belongs to. */
#include <string.h>

#include "check.h"
#include "net/net.h"

static const char text[] =
    "layer { name: 'in' type: 'DummyData' top: 'x' "
    "  dummy_data_param { shape { dim: 1 dim: 1000 } data_filler { value: 1 } } } "
    "layer { name: 'drop' type: 'Dropout' bottom: 'x' top: 'y' } "
    "layer { name: 'seeded' type: 'Dropout' bottom: 'x' top: 'z' "
    "  dropout_param { random_seed: 5 } }";

static crema_status make(crema_phase phase, const cr_solver_rank *solver, crema_net **out) {
  ProtobufCMessage *message = NULL;
  ok(cr_text_parse(&caffe__net_parameter__descriptor, text, strlen(text), "test", CR_UNKNOWN_ERROR,
                   &message));
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = phase;
  options.seed = 3;
  return cr_net_create((Caffe__NetParameter *)message, &options,
                       &(cr_net_build_options){.solver = solver}, out);
}

static void copy_values(crema_net *net, const char *name, float out[1000]) {
  crema_blob *blob = NULL;
  const float *values = NULL;
  ok(crema_net_blob(net, name, &blob));
  ok(crema_blob_cpu_data(blob, &values));
  memcpy(out, values, 1000 * sizeof *out);
}

/* Every layer has the rank and keeps the group alive after its maker has released it. */
TEST(test_layers_get_the_rank_and_the_group) {
  cr_input_group *group = NULL;
  crema_net *net[2] = {NULL, NULL};
  ok(cr_input_group_create(&group));
  for (int i = 0; i < 2; ++i) {
    const cr_solver_rank solver = {.rank = i, .solvers = 2, .group = group};
    ok(make(CREMA_TRAIN, &solver, &net[i]));
  }
  cr_input_group_release(group);
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < net[i]->layers; ++k) {
      const cr_solver_rank *found = &net[i]->layer[k].layer->solver;
      assert_true(found->rank == i && found->solvers == 2 && found->group == group);
    }
    crema_net_destroy(net[i]);
  }
}

TEST(test_a_test_net_is_alone) {
  const cr_solver_rank solver = {.rank = 1, .solvers = 2};
  const cr_solver_rank *found = NULL;
  crema_net *net = NULL;
  ok(make(CREMA_TEST, &solver, &net));
  found = &net->layer[0].layer->solver;
  assert_true(found->rank == 0 && found->solvers == 1 && found->group == NULL);
  crema_net_destroy(net);
  ok(make(CREMA_TRAIN, NULL, &net));
  found = &net->layer[0].layer->solver;
  assert_true(found->rank == 0 && found->solvers == 1 && found->group == NULL);
  crema_net_destroy(net);
}

/* Solvers with the same seed drop different values; the first one drops what one alone does. */
TEST(test_masks_differ_between_solvers) {
  static const char *const name[] = {"y", "z"};
  static float values[3][2][1000];
  for (int i = 0; i < 3; ++i) {
    const cr_solver_rank solver = {.rank = i, .solvers = 2};
    crema_net *net = NULL;
    ok(make(CREMA_TRAIN, i < 2 ? &solver : NULL, &net));
    ok(crema_net_forward(net, NULL));
    for (int k = 0; k < 2; ++k) copy_values(net, name[k], values[i][k]);
    crema_net_destroy(net);
  }
  for (int k = 0; k < 2; ++k) {
    assert_memory_equal(values[2][k], values[0][k], sizeof values[0][k]);
    assert_memory_not_equal(values[1][k], values[0][k], sizeof values[0][k]);
  }
}

TEST(test_ranks_that_there_are_not) {
  static const cr_solver_rank bad[] = {{.rank = 2, .solvers = 2}, {.rank = -1, .solvers = 2}, {0}};
  crema_net *net = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    assert_fails(make(CREMA_TRAIN, &bad[i], &net), CREMA_E_RANGE, "solver");
    assert_null(net);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
