/* The life of views. */
#include <stdlib.h>

#include "core/fail.h"
#include "memory/view.h"

static atomic_int views; /* that are alive */

bool cr_views_exist(void) {
  return atomic_load_explicit(&views, memory_order_relaxed) > 0;
}

static void view_free(crema_view *view) {
  if (view->keeps != NULL) cr_tensor_values_release(view->keeps);
  else free(view->memory);
  free(view->shown);
  pthread_mutex_destroy(&view->lock);
  free(view);
  atomic_fetch_sub(&views, 1);
}

void cr_view_release(crema_view *view) {
  if (view != NULL && atomic_fetch_sub(&view->users, 1) == 1) view_free(view);
}

void crema_view_release(crema_view *view) {
  cr_view_release(view);
}

float *crema_view_values(crema_view *view) {
  return view == NULL ? NULL : view->memory;
}

int64_t crema_view_count(const crema_view *view) {
  return view == NULL ? 0 : view->count;
}

crema_status cr_view_create(int64_t count, crema_view **out) {
  crema_view *view = NULL;
  CR_TRY(CR_NEW(view, 1, "a view of values"));
  atomic_fetch_add(&views, 1);
  atomic_init(&view->users, 1);
  pthread_mutex_init(&view->lock, NULL);
  view->count = count;
  *out = view;
  return CREMA_OK;
}

bool cr_view_is_held(const crema_view *view) {
  return view != NULL && atomic_load(&view->users) > 1;
}
