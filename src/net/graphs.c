#include "net/graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "layers/common/input_class.h"
#include "memory/capture.h"
#include "net/lifetimes.h"
#include "net/run.h"

/* A section is given up after this number of attempts in a row without a graph, or of graphs that
 * did not run. */
enum { MOST_FAILURES = 4, MOST_UNUSED = 24 };

typedef enum graph_step { IDLE, LISTING, CAPTURING } graph_step;

/* The conditions of a graph besides its tensors. */
typedef struct graph_stamp {
  uint64_t shapes; /* of the net */
  int fusions;
  int replayed;      /* the segment that was computed again last */
  uint64_t counters; /* how far the layers' counters of passes are apart */
  double seeds;      /* of the losses' gradients, which the host reads */
} graph_stamp;

typedef struct section_graphs section_graphs;
struct section_graphs {
  cr_net_section section;
  cr_capture *capture; /* NULL: none was made yet */
  graph_step step;     /* of the present pass */
  bool listed;         /* the last pass was, with `stamp` */
  graph_stamp stamp;
  int replayed; /* after the pass */
  int failures, unused;
  bool given_up; /* the section is not captured */
  section_graphs *next;
};

struct cr_net_graphs {
  int first;
  bool off;
  section_graphs *sections;
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
  for (section_graphs *s = net->graphs->sections, *next = NULL; s != NULL; s = next) {
    next = s->next;
    cr_capture_destroy(s->capture);
    free(s);
  }
  free(net->graphs);
  net->graphs = NULL;
}

void cr_net_use_graphs(crema_net *net, bool on) {
  if (net->graphs != NULL) net->graphs->off = !on;
}

int cr_net_graphs_first(const crema_net *net) {
  return net->graphs->first;
}

static void give_up(const crema_net *net, section_graphs *s, const char *layer, const char *why) {
  const int first = s->section.direction == CR_FORWARD ? net->graphs->first : 0;
  const bool whole = s->section.first == first && s->section.last == net->layers - 1;
  char part[256] = "";
  s->given_up = true;
  if (!whole) {
    snprintf(part, sizeof part, ", layers '%s' to '%s',", net->layer[s->section.last].layer->name,
             net->layer[s->section.first].layer->name);
  }
  cr_log_info("graphs: the %s pass of net '%s'%s is not captured: %s%s%s%s",
              names[s->section.direction], net->name, part, layer != NULL ? "layer '" : "",
              layer != NULL ? layer : "", layer != NULL ? "': " : "", why);
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

/* Why the section cannot be captured; NULL: perhaps it can. */
static const char *obstacle(const crema_net *net, cr_net_section section, const char **layer) {
  *layer = NULL;
  if (net->context->device->backend->capture_begin == NULL) return "the device captures no work";
  if (section.first > section.last) return "all layers bring samples in";
  for (int i = section.first; i <= section.last; ++i) {
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

static section_graphs *find_section(const crema_net *net, cr_net_section section) {
  section_graphs *s = net->graphs->sections;
  while (s != NULL && (s->section.direction != section.direction ||
                       s->section.first != section.first || s->section.last != section.last)) {
    s = s->next;
  }
  return s;
}

/* NULL: the host has no memory for it. */
static section_graphs *add_section(crema_net *net, cr_net_section section) {
  const char *layer = NULL;
  section_graphs *s = calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  s->section = section;
  s->next = net->graphs->sections;
  net->graphs->sections = s;
  const char *why = obstacle(net, section, &layer);
  if (why != NULL) give_up(net, s, layer, why);
  return s;
}

/* Whether the section has any work. */
static bool does_work(const crema_net *net, cr_net_section section) {
  int i = section.first;
  if (section.direction == CR_FORWARD) return true;
  while (i <= section.last && !cr_net_runs_backward(&net->layer[i])) ++i;
  return i <= section.last;
}

bool cr_net_graphs_wanted(crema_net *net, cr_net_section section) {
  if (net->graphs == NULL || net->graphs->off || !does_work(net, section)) return false;
  section_graphs *s = find_section(net, section);
  if (s == NULL) s = add_section(net, section);
  if (s == NULL || s->given_up) return false;
  /* Between such passes others may be captured. */
  return !net->debug_info && !has_hooks(net, section.direction) &&
         net->context->watch.watcher == NULL;
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

static crema_status read_stamp(const crema_net *net, cr_net_section section, graph_stamp *out) {
  const uint64_t number = number_of(net);
  memset(out, 0, sizeof *out);
  out->shapes = net->shapes;
  out->fusions = net->fusions;
  out->replayed = net->replay.last;
  for (int i = section.first; i <= section.last; ++i) {
    const cr_layer *self = net->layer[i].layer;
    if (cr_net_counts_passes(self)) {
      out->counters = 3 * out->counters + self->pass - number;
    }
    CR_TRY(add_seeds(&net->layer[i], &out->seeds));
  }
  return CREMA_OK;
}

/* Whether a layer would be reshaped, or its loss seeded, in the pass. */
static bool is_settled(const crema_net *net, cr_net_section section) {
  for (int i = section.first; i <= section.last; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    if (layer->has_loss && !layer->loss_seeded) return false;
    const int blobs = layer->layer->bottoms + layer->layer->tops;
    for (int j = 0; layer->layer->bottoms > 0 && j < blobs; ++j) {
      if (!cr_blob_is_as_seen(cr_net_layer_blob(layer, j), &layer->seen[j])) return false;
    }
  }
  return !net->parts_moved && net->planned == net->shapes;
}

/* The host's work in a pass. */
static void count_pass(crema_net *net, const section_graphs *s) {
  net->replay.last = s->replayed;
  if (s->section.direction == CR_BACKWARD) return;
  for (int i = s->section.first; i <= s->section.last; ++i) {
    cr_net_layer *layer = &net->layer[i];
    if (cr_net_counts_passes(layer->layer)) layer->layer->pass += 1;
    layer->ran = net->shapes + 1;
  }
}

static crema_status begin_list(crema_net *net, section_graphs *s, const graph_stamp *stamp) {
  s->stamp = *stamp;
  s->step = LISTING;
  if (s->capture == NULL) CR_TRY(cr_capture_create(net->context, &s->capture));
  return cr_capture_begin_list(s->capture);
}

crema_status cr_net_graphs_run(crema_net *net, cr_net_section section, bool *ran) {
  section_graphs *s = find_section(net, section);
  graph_stamp stamp;
  *ran = false;
  s->step = IDLE;
  if (!is_settled(net, section)) {
    s->listed = false;
    return CREMA_OK;
  }
  CR_TRY(read_stamp(net, section, &stamp));
  if (!s->listed || memcmp(&stamp, &s->stamp, sizeof stamp) != 0) {
    return begin_list(net, s, &stamp);
  }
  CR_TRY(cr_capture_prepare(s->capture));
  CR_TRY(cr_capture_run(s->capture, number_of(net), ran));
  if (*ran) {
    s->unused = 0;
    count_pass(net, s);
    return CREMA_OK;
  }
  s->step = CAPTURING;
  return cr_capture_begin(s->capture, number_of(net));
}

static void note_failure(const crema_net *net, section_graphs *s, const char *why) {
  s->listed = false;
  s->unused = 0;
  if (++s->failures >= MOST_FAILURES) give_up(net, s, NULL, why);
}

static crema_status end_capture(const crema_net *net, section_graphs *s, bool done) {
  const char *why = NULL;
  CR_TRY(cr_capture_end(s->capture, done, &why));
  if (why != NULL) {
    note_failure(net, s, why);
    return CREMA_OK;
  }
  s->failures = 0;
  s->replayed = net->replay.last;
  if (++s->unused > MOST_UNUSED) {
    give_up(net, s, NULL, "its tensors are in other places in each pass");
  }
  return CREMA_OK;
}

crema_status cr_net_graphs_end(crema_net *net, cr_net_section section, bool done) {
  section_graphs *s = find_section(net, section);
  const graph_step step = s->step;
  s->step = IDLE;
  if (step == LISTING) {
    const char *why = cr_capture_end_list(s->capture);
    s->listed = why == NULL && done;
    if (why != NULL) note_failure(net, s, why);
  }
  return step == CAPTURING ? end_capture(net, s, done) : CREMA_OK;
}
