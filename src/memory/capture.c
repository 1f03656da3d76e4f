#include "memory/capture.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/order.h"
#include "device/memory/device_memory.h"
#include "device/memory/scratchpad.h"
#include "memory/check.h"
#include "memory/tensor_private.h"

#define NO_MEMORY "the host has no memory for it"

enum { SLOTS = 4, GRAPHS = 8 };

/* The state of a tensor's values, and the places of their formats. */
typedef struct look {
  values *values;
  int64_t count;
  cr_tensor_state state;
  format_slot *head;
  cr_format head_format;
  bool pending;
  int slots;
  struct look_slot {
    format_slot *slot;
    bool valid, on_device;
    uintptr_t gpu;
  } slot[SLOTS];
} look;

typedef struct captured_tensor {
  cr_tensor *tensor;
  bool reads;  /* values from before the pass, in `format` */
  bool writes; /* some values */
  cr_format format;
} captured_tensor;

typedef struct captured_graph {
  cr_device_graph *graph; /* NULL: none */
  uint64_t number;        /* of the pass */
  crema_devptr scratchpad;
  look *before, *after; /* one per entry */
} captured_graph;

struct cr_capture {
  crema_context *context;
  captured_tensor *entry;
  int count, room;
  bool listing;
  uint64_t changes;        /* see cr_device_memory_changes, before the pass */
  const char *why;         /* the present pass cannot be captured; NULL: it can */
  size_t workspace;        /* the most that an op takes */
  crema_devptr scratchpad; /* of that size, as prepared */
  look *now;               /* one per entry */
  captured_graph graph[GRAPHS];
  int next; /* where the next graph goes */
};

static const cr_backend *backend_of(const cr_capture *capture) {
  return capture->context->device->backend;
}

crema_status cr_capture_create(crema_context *context, cr_capture **out) {
  CR_TRY(CR_NEW(*out, 1, "a graph"));
  (*out)->context = context;
  return CREMA_OK;
}

/* The graph's work must be done. */
static void drop_graph(const cr_capture *capture, captured_graph *g) {
  backend_of(capture)->graph_destroy(g->graph);
  free(g->before);
  free(g->after);
  *g = (captured_graph){0};
}

static void drop_graphs(cr_capture *capture) {
  for (int i = 0; i < GRAPHS; ++i) drop_graph(capture, &capture->graph[i]);
}

void cr_capture_destroy(cr_capture *capture) {
  if (capture == NULL) return;
  (void)!crema_context_finish(capture->context);
  drop_graphs(capture);
  free(capture->now);
  free(capture->entry);
  free(capture);
}

/* ---- the list ---- */

crema_status cr_capture_begin_list(cr_capture *capture) {
  CR_TRY(crema_context_finish(capture->context));
  drop_graphs(capture);
  capture->count = 0;
  capture->why = NULL;
  capture->listing = true;
  capture->context->most_workspace = 0;
  capture->context->capture = capture;
  capture->changes = cr_device_memory_changes();
  return CREMA_OK;
}

/* Ends the notes of a pass. If it allocates or frees memory, such as the memory of new tensors, a
 * later run of a graph would use memory that has another user by then. */
static void end_notes(cr_capture *capture) {
  capture->context->capture = NULL;
  if (cr_device_memory_changes() != capture->changes) capture->why = "it allocates or frees memory";
}

static void add(cr_capture *capture, cr_tensor *tensor, char access, cr_format format) {
  if (capture->count == capture->room) {
    const int room = 2 * capture->room + 64;
    captured_tensor *more = realloc(capture->entry, (size_t)room * sizeof *more);
    if (more == NULL) capture->why = NO_MEMORY;
    if (more == NULL) return;
    capture->entry = more;
    capture->room = room;
  }
  capture->entry[capture->count++] =
      (captured_tensor){.tensor = tensor,
                        .reads = access != 'W' && !is_zero(tensor->values),
                        .writes = access != 'R',
                        .format = format};
}

void cr_capture_note(cr_capture *capture, cr_tensor *tensor, char access, cr_format format) {
  /* Most tensors were used lately. */
  for (int i = capture->count - 1; i >= 0; --i) {
    if (capture->entry[i].tensor != tensor) continue;
    if (capture->listing) capture->entry[i].writes |= access != 'R';
    return;
  }
  if (capture->listing) add(capture, tensor, access, format);
  else capture->why = "it uses other tensors than the pass before";
}

static bool look_at(const cr_tensor *tensor, look *out) {
  const values *v = tensor->values;
  memset(out, 0, sizeof *out); /* padding too */
  out->values = tensor->values;
  out->count = v->count;
  out->state = v->state;
  out->head = head_slot(v);
  out->head_format = v->head_format;
  out->pending = has_source(v);
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    if (out->slots == SLOTS) return false;
    struct look_slot *to = &out->slot[out->slots++];
    to->slot = s;
    to->valid = is_valid(s);
    to->on_device = s->memory.head == CREMA_HEAD_AT_GPU || s->memory.head == CREMA_SYNCED;
    to->gpu = s->memory.gpu.data.address;
  }
  return true;
}

const char *cr_capture_end_list(cr_capture *capture) {
  end_notes(capture);
  capture->listing = false;
  capture->workspace = capture->context->most_workspace;
  if (capture->why != NULL) return capture->why;
  if (capture->count == 0) return "it does nothing on the device";
  free(capture->now);
  capture->now = calloc((size_t)capture->count, sizeof *capture->now);
  return capture->now != NULL ? NULL : NO_MEMORY;
}

/* ---- runs ---- */

/* Work of other contexts on the memory comes first. */
static crema_status own_memory(const values *v, crema_context *context) {
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    cr_device_side *side = &s->memory.gpu;
    if (side->data.address == 0 || side->device != context->device || side->user == context->id) {
      continue;
    }
    CR_TRY(cr_context_follow(context, side->user));
    side->user = context->id;
  }
  return CREMA_OK;
}

crema_status cr_capture_prepare(cr_capture *capture) {
  crema_context *context = capture->context;
  crema_devptr at = {0};
  if (capture->workspace > 0) {
    CR_TRY(cr_context_workspace(context, capture->workspace, &capture->scratchpad));
  }
  for (int i = 0; i < capture->count; ++i) {
    const captured_tensor *e = &capture->entry[i];
    values *v = e->tensor->values;
    CR_TRY(own_memory(v, context));
    if (e->reads && cr_tensor_has_values(v)) {
      CR_TRY(cr_tensor_read(e->tensor, context, e->format, &at));
    }
  }
  return CREMA_OK;
}

/* False: a tensor has too many formats. */
static bool look_at_all(const cr_capture *capture, look *out) {
  for (int i = 0; i < capture->count; ++i) {
    if (!look_at(capture->entry[i].tensor, &out[i])) return false;
  }
  return true;
}

static const captured_graph *find(const cr_capture *capture) {
  const size_t bytes = (size_t)capture->count * sizeof(look);
  if (!look_at_all(capture, capture->now)) return NULL;
  for (int i = 0; i < GRAPHS; ++i) {
    const captured_graph *g = &capture->graph[i];
    if (g->graph == NULL || g->scratchpad.address != capture->scratchpad.address) continue;
    if (memcmp(g->before, capture->now, bytes) == 0) return g;
  }
  return NULL;
}

/* Brings a tensor from the state before the pass to the state after it. */
static void leave_as(const captured_tensor *e, const look *before, const look *after) {
  values *v = e->tensor->values;
  v->state = after->state;
  v->head_format = after->head_format;
  set_head(v, after->head);
  for (int i = 0; i < after->slots; ++i) {
    format_slot *s = after->slot[i].slot;
    set_valid(s, after->slot[i].valid);
    const bool made = after->slot[i].valid && (e->writes || !before->slot[i].valid);
    if (made && after->slot[i].on_device) s->memory.head = CREMA_HEAD_AT_GPU;
  }
  CR_ASSERT(cr_tensor_check(v));
}

crema_status cr_capture_run(cr_capture *capture, uint64_t number, bool *ran) {
  const captured_graph *g = find(capture);
  *ran = g != NULL;
  if (g == NULL) return CREMA_OK;
  CR_TRY(backend_of(capture)->graph_run(g->graph, capture->context, number - g->number));
  for (int i = 0; i < capture->count; ++i) {
    leave_as(&capture->entry[i], &g->before[i], &g->after[i]);
  }
  return CREMA_OK;
}

crema_status cr_capture_begin(cr_capture *capture, uint64_t number) {
  captured_graph *g = &capture->graph[capture->next];
  const size_t count = (size_t)capture->count;
  if (g->graph != NULL) CR_TRY(crema_context_finish(capture->context));
  drop_graph(capture, g);
  g->number = number;
  g->scratchpad = capture->scratchpad;
  CR_TRY(CR_NEW(g->before, count, "a graph"));
  CR_TRY(CR_NEW(g->after, count, "a graph"));
  capture->why = look_at_all(capture, g->before) ? NULL : "a tensor has many formats";
  CR_TRY(backend_of(capture)->capture_begin(capture->context));
  capture->context->capture = capture;
  capture->changes = cr_device_memory_changes();
  return CREMA_OK;
}

/* Whether the same slots are there after the pass. */
static bool is_steady(const cr_capture *capture, const captured_graph *g) {
  for (int i = 0; i < capture->count; ++i) {
    const look *a = &g->before[i], *b = &g->after[i];
    if (a->values != b->values || a->slots != b->slots || a->pending || b->pending) return false;
    for (int k = 0; k < a->slots; ++k) {
      if (a->slot[k].slot != b->slot[k].slot || a->slot[k].gpu != b->slot[k].gpu) return false;
    }
  }
  return true;
}

crema_status cr_capture_end(cr_capture *capture, bool done, const char **why) {
  captured_graph *g = &capture->graph[capture->next];
  crema_context *context = capture->context;
  end_notes(capture);
  *why = NULL;
  CR_TRY(backend_of(capture)->capture_end(context, &g->graph, why));
  if (g->graph == NULL) return CREMA_OK;
  CR_TRY(backend_of(capture)->graph_run(g->graph, context, 0));
  if (capture->why == NULL && !look_at_all(capture, g->after)) {
    capture->why = "a tensor has many formats";
  }
  if (capture->why == NULL && !is_steady(capture, g)) capture->why = "a tensor has moved";
  if (capture->why == NULL && done) {
    capture->next = (capture->next + 1) % GRAPHS;
    return CREMA_OK;
  }
  *why = capture->why;
  CR_TRY(crema_context_finish(context));
  drop_graph(capture, g);
  return CREMA_OK;
}
