#include "net/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "layers/common/input_class.h"
#include "memory/capture.h"
#include "memory/view.h"
#include "net/run.h"

/* A net gives up after this number of attempts in a row without a graph, or of graphs that did not
 * run. */
enum { MOST_FAILURES = 4, MOST_UNUSED = 24 };

typedef enum graph_step { IDLE, LISTING, CAPTURING } graph_step;

/* The conditions of a graph besides its tensors. */
typedef struct graph_stamp {
  uint64_t shapes; /* of the net */
  int fusions;
  uint64_t counters; /* how far the layers' counters of passes are apart */
  double seeds;      /* of the losses' gradients, which the host reads */
} graph_stamp;

typedef struct pass_graphs {
  cr_capture *capture; /* NULL: none was made yet */
  graph_step step;     /* of the present pass */
  bool listed;         /* the last pass was, with `stamp` */
  graph_stamp stamp;
  int failures, unused;
  bool looked, given_up; /* for obstacles; passes are not captured */
} pass_graphs;

struct cr_net_graphs {
  int first;
  pass_graphs pass[CR_DIRECTIONS];
};

static const char *const names[] = {"forward", "backward"};

crema_status cr_net_graphs_make(crema_net *net) {
  CR_TRY(CR_NEW(net->graphs, 1, "the graphs of a net"));
  for (int i = 0; i < net->layers; ++i) {
    if (net->layer[i].layer->kind->input != NULL) net->graphs->first = i + 1;
  }
  return CREMA_OK;
}

void cr_net_graphs_free(crema_net *net) {
  if (net->graphs == NULL) return;
  for (int i = 0; i < CR_DIRECTIONS; ++i) cr_capture_destroy(net->graphs->pass[i].capture);
  free(net->graphs);
  net->graphs = NULL;
}

int cr_net_graphs_first(const crema_net *net) {
  return net->graphs->first;
}

static void give_up(const crema_net *net, cr_net_direction direction, const char *layer,
                    const char *why) {
  net->graphs->pass[direction].given_up = true;
  cr_log_info("graphs: the %s pass of net '%s' is not captured: %s%s%s%s", names[direction],
              net->name, layer != NULL ? "layer '" : "", layer != NULL ? layer : "",
              layer != NULL ? "': " : "", why);
}

/* Whether a later layer writes a loss, which is read after the pass, in place. */
static bool overwrites_loss(const crema_net *net, int index) {
  const cr_net_layer *layer = &net->layer[index];
  if (layer->layer->bottoms == 0 || layer->layer->tops == 0) return false;
  if (layer->bottom[0] != layer->top[0]) return false;
  for (int i = 0; i < index; ++i) {
    const cr_net_layer *loss = &net->layer[i];
    for (int j = 0; loss->has_loss && j < loss->layer->tops; ++j) {
      if (loss->top[j] == layer->top[0]) return true;
    }
  }
  return false;
}

/* Why no pass of the net can be captured; NULL: perhaps one can. */
static const char *obstacle(const crema_net *net, const char **layer) {
  *layer = NULL;
  if (net->context->device->backend->capture_begin == NULL) return "the device captures no work";
  if (net->plans) return "the net releases values in the pass";
  if (net->graphs->first >= net->layers) return "all layers bring samples in";
  for (int i = net->graphs->first; i < net->layers; ++i) {
    const cr_layer *self = net->layer[i].layer;
    *layer = self->name;
    if (self->kind->memory.reshapes_always) return "it may do anything in a pass";
    if (self->kind->memory.varies) return "its work depends on the number of the pass";
    if (overwrites_loss(net, i)) return "it changes a loss in place";
  }
  *layer = NULL;
  return NULL;
}

static bool has_hooks(const crema_net *net, cr_net_direction direction) {
  const crema_net_hooks *h = &net->hooks;
  return direction == CR_FORWARD ? h->before_forward != NULL || h->after_forward != NULL
                                 : h->before_backward != NULL || h->after_backward != NULL;
}

bool cr_net_graphs_wanted(crema_net *net, cr_net_direction direction) {
  const char *layer = NULL;
  if (net->graphs == NULL) return false;
  pass_graphs *pass = &net->graphs->pass[direction];
  const char *why = pass->looked ? NULL : obstacle(net, &layer);
  pass->looked = true;
  if (why != NULL) give_up(net, direction, layer, why);
  if (pass->given_up) return false;
  /* Between such passes others may be captured. */
  return !net->debug_info && !has_hooks(net, direction) && net->context->watch.watcher == NULL &&
         !cr_views_exist();
}

/* Seeds that the host has: layers may read them there. */
static crema_status add_seeds(const cr_net_layer *layer, double *out) {
  for (int j = 0; layer->has_loss && j < layer->layer->tops; ++j) {
    cr_tensor *diff = layer->top[j]->diff;
    double seed = 0;
    if (layer->layer->loss_weight[j] == 0.0f || cr_tensor_count(diff) == 0) continue;
    if (cr_tensor_is_zero(diff) || !cr_tensor_head_device(diff)->backend->host_memory) continue;
    CR_TRY(cr_tensor_host_value(diff, &seed));
    *out = 3 * *out + seed;
  }
  return CREMA_OK;
}

/* The number of the pass, by the first layer that counts; 0: none does. */
static uint64_t number_of(const crema_net *net) {
  for (int i = net->graphs->first; i < net->layers; ++i) {
    const cr_layer *self = net->layer[i].layer;
    if (cr_net_counts_passes(self)) return self->pass;
  }
  return 0;
}

static crema_status read_stamp(const crema_net *net, graph_stamp *out) {
  const uint64_t number = number_of(net);
  memset(out, 0, sizeof *out);
  out->shapes = net->shapes;
  out->fusions = net->fusions;
  for (int i = net->graphs->first; i < net->layers; ++i) {
    const cr_layer *self = net->layer[i].layer;
    if (cr_net_counts_passes(self)) {
      out->counters = 3 * out->counters + self->pass - number;
    }
    CR_TRY(add_seeds(&net->layer[i], &out->seeds));
  }
  return CREMA_OK;
}

/* Whether a layer would be reshaped, or its loss seeded, in the pass. */
static bool is_settled(const crema_net *net) {
  for (int i = net->graphs->first; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    if (layer->has_loss && !layer->loss_seeded) return false;
    const int blobs = layer->layer->bottoms + layer->layer->tops;
    for (int j = 0; layer->layer->bottoms > 0 && j < blobs; ++j) {
      if (!cr_blob_is_as_seen(cr_net_layer_blob(layer, j), &layer->seen[j])) return false;
    }
  }
  return !net->parts_moved && net->planned == net->shapes;
}

/* The host's work in a forward pass. */
static void count_pass(const crema_net *net) {
  for (int i = net->graphs->first; i < net->layers; ++i) {
    cr_net_layer *layer = &net->layer[i];
    if (cr_net_counts_passes(layer->layer)) layer->layer->pass += 1;
    layer->ran = net->shapes + 1;
  }
}

static crema_status begin_list(crema_net *net, pass_graphs *pass, const graph_stamp *stamp) {
  pass->stamp = *stamp;
  pass->step = LISTING;
  if (pass->capture == NULL) CR_TRY(cr_capture_create(net->context, &pass->capture));
  return cr_capture_begin_list(pass->capture);
}

crema_status cr_net_graphs_run(crema_net *net, cr_net_direction direction, bool *ran) {
  pass_graphs *pass = &net->graphs->pass[direction];
  graph_stamp stamp;
  *ran = false;
  pass->step = IDLE;
  if (!is_settled(net)) {
    pass->listed = false;
    return CREMA_OK;
  }
  CR_TRY(read_stamp(net, &stamp));
  if (!pass->listed || memcmp(&stamp, &pass->stamp, sizeof stamp) != 0) {
    return begin_list(net, pass, &stamp);
  }
  CR_TRY(cr_capture_prepare(pass->capture));
  CR_TRY(cr_capture_run(pass->capture, number_of(net), ran));
  if (*ran) {
    pass->unused = 0;
    if (direction == CR_FORWARD) count_pass(net);
    return CREMA_OK;
  }
  pass->step = CAPTURING;
  return cr_capture_begin(pass->capture, number_of(net));
}

static void note_failure(const crema_net *net, cr_net_direction direction, const char *why) {
  pass_graphs *pass = &net->graphs->pass[direction];
  pass->listed = false;
  pass->unused = 0;
  if (++pass->failures >= MOST_FAILURES) give_up(net, direction, NULL, why);
}

crema_status cr_net_graphs_end(crema_net *net, cr_net_direction direction, bool done) {
  pass_graphs *pass = &net->graphs->pass[direction];
  const char *why = NULL;
  switch (pass->step) {
    case IDLE: break;
    case LISTING:
      why = cr_capture_end_list(pass->capture);
      pass->listed = why == NULL && done;
      if (why != NULL) note_failure(net, direction, why);
      break;
    case CAPTURING:
      CR_TRY(cr_capture_end(pass->capture, done, &why));
      if (why != NULL) {
        note_failure(net, direction, why);
        break;
      }
      pass->failures = 0;
      if (++pass->unused > MOST_UNUSED) {
        give_up(net, direction, NULL, "its tensors are in other places in each pass");
      }
      break;
  }
  pass->step = IDLE;
  return CREMA_OK;
}
