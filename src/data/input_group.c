#include "data/input_group.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/fail.h"

struct cr_input_group {
  atomic_int references;
};

crema_status cr_input_group_create(cr_input_group **out) {
  cr_input_group *group = calloc(1, sizeof *group);
  *out = group;
  if (group == NULL) return cr_fail_memory(sizeof *group, "a group of readers");
  atomic_init(&group->references, 1);
  return CREMA_OK;
}

cr_input_group *cr_input_group_retain(cr_input_group *group) {
  if (group != NULL) atomic_fetch_add_explicit(&group->references, 1, memory_order_relaxed);
  return group;
}

void cr_input_group_release(cr_input_group *group) {
  if (group == NULL) return;
  /* The last one has to see what all others did. */
  if (atomic_fetch_sub_explicit(&group->references, 1, memory_order_acq_rel) == 1) free(group);
}
