#include "layers/common/layer_share.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

struct cr_layer_share {
  atomic_int references;
  pthread_mutex_t lock; /* held during forward passes; guards the members below */
  const cr_layer_class *kind;
  int solvers;
  void *state;
  /* The state points into it, and the net of rank 0 may be freed first. */
  Caffe__LayerParameter *param;
  crema_shape *shape; /* of the tops, `tops` of them; NULL before setup */
  int tops;
  cr_buffer restored; /* the state that rank 0 restored last */
};

crema_status cr_layer_share_open(cr_layer *layer) {
  const cr_solver_rank *solver = &layer->solver;
  if (!layer->kind->graph.shareable || solver->group == NULL || solver->solvers < 2)
    return CREMA_OK;
  if (solver->rank > 0) {
    /* Without a state, no sample can be taken twice. */
    if (layer->kind->state_size == 0) return CREMA_OK;
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "solver %d of %d was made without the net of solver 0, whose layer is to "
                         "be shared",
                         solver->rank, solver->solvers);
  }
  ProtobufCMessage *copy = NULL;
  CR_TRY(cr_message_copy(&layer->param->base, &copy));
  cr_layer_share *share = calloc(1, sizeof *share);
  if (share == NULL) {
    cr_message_free(copy);
    return cr_fail_memory(sizeof *share, "a shared layer");
  }
  atomic_init(&share->references, 1);
  pthread_mutex_init(&share->lock, NULL);
  share->kind = layer->kind;
  share->solvers = solver->solvers;
  share->state = layer->state;
  share->param = (Caffe__LayerParameter *)copy;
  layer->param = share->param;
  layer->share = share;
  return CREMA_OK;
}

static crema_status check_join(const cr_layer *layer, const cr_layer *root) {
  const cr_solver_rank *solver = &layer->solver;
  if (!layer->kind->graph.shareable) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "layers of this type cannot be shared by several solvers");
  }
  if (root->share == NULL || root->share->shape == NULL) {
    return cr_layer_fail(layer, CREMA_E_STATE, "the layer of solver 0 is not there to be shared");
  }
  if (root->kind != layer->kind || root->tops != layer->tops) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "the layer of solver 0 has type %s and %d tops, this one %d tops",
                         root->kind->type, root->tops, layer->tops);
  }
  if (solver->solvers != root->share->solvers || solver->rank < 1 ||
      solver->group != root->solver.group) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "solver %d of %d cannot join a layer shared by %d", solver->rank,
                         solver->solvers, root->share->solvers);
  }
  return CREMA_OK;
}

crema_status cr_layer_share_join(cr_layer *layer, const cr_layer *root) {
  CR_TRY(check_join(layer, root));
  free(layer->state);
  layer->state = root->share->state;
  layer->share = root->share;
  atomic_fetch_add_explicit(&layer->share->references, 1, memory_order_relaxed);
  return CREMA_OK;
}

void cr_layer_share_close(cr_layer *layer) {
  cr_layer_share *share = layer->share;
  if (share == NULL) return;
  layer->share = NULL;
  /* The last layer must see the writes of all other layers. */
  if (atomic_fetch_sub_explicit(&share->references, 1, memory_order_acq_rel) > 1) {
    layer->state = NULL;
    return;
  }
  if (layer->state != NULL && share->kind->destroy != NULL) share->kind->destroy(layer);
  free(layer->state);
  layer->state = NULL;
  cr_buffer_free(&share->restored);
  free(share->shape);
  if (share->param != NULL) cr_message_free(&share->param->base);
  pthread_mutex_destroy(&share->lock);
  free(share);
}

crema_status cr_layer_share_shape(cr_layer *layer, crema_blob *const *top) {
  cr_layer_share *share = layer->share;
  if (share == NULL) return CREMA_OK;
  for (int i = 0; i < layer->tops && share->shape != NULL; ++i) {
    CR_TRY(crema_blob_reshape(top[i], &share->shape[i]));
  }
  if (share->shape != NULL) return CREMA_OK;
  size_t tops = layer->tops < 1 ? 1 : (size_t)layer->tops;
  CR_TRY(CR_NEW(share->shape, tops, "shapes"));
  share->tops = layer->tops;
  for (int i = 0; i < layer->tops; ++i) share->shape[i] = *crema_blob_shape(top[i]);
  return CREMA_OK;
}

void cr_layer_share_lock(cr_layer *layer) {
  if (layer->share != NULL) pthread_mutex_lock(&layer->share->lock);
}

void cr_layer_share_unlock(cr_layer *layer) {
  if (layer->share != NULL) pthread_mutex_unlock(&layer->share->lock);
}

crema_status cr_layer_share_restore(cr_layer *layer, const char *bytes, size_t size, bool *done) {
  cr_layer_share *share = layer->share;
  crema_status status = CREMA_OK;
  *done = share != NULL && layer->solver.rank > 0;
  if (share == NULL) return CREMA_OK;
  pthread_mutex_lock(&share->lock);
  if (!*done) {
    cr_buffer_clear(&share->restored);
    status = cr_buffer_append(&share->restored, bytes, size);
  } else if (size != share->restored.size || memcmp(bytes, share->restored.data, size) != 0) {
    status = cr_layer_fail(
        layer, CREMA_E_STATE,
        "the saved position of solver %d in the data differs from the position of solver 0",
        layer->solver.rank);
  }
  pthread_mutex_unlock(&share->lock);
  return status;
}

int cr_layer_sharers(const cr_layer *layer) {
  return layer->share == NULL ? 1 : layer->share->solvers;
}

int cr_layer_sharer(const cr_layer *layer) {
  return layer->share == NULL ? 0 : layer->solver.rank;
}
