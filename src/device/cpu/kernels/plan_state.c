#include "device/cpu/kernels/plan_state.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

crema_status cr_plan_keep(cr_plan *plan, const void *state, size_t bytes) {
  plan->state = malloc(bytes);
  if (plan->state == NULL) return cr_fail_memory(bytes, "the state of a plan");
  memcpy(plan->state, state, bytes);
  return CREMA_OK;
}

void cr_plan_release(cr_plan *plan) {
  free(plan->state);
  plan->state = NULL;
}
