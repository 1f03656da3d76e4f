#include "memory/capture.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/order.h"
#include "device/memory/device_memory.h"
#include "device/memory/heap.h"
#include "device/memory/memory_lock.h"
#include "device/memory/scratchpad.h"
#include "memory/check.h"
#include "memory/tensor_private.h"

#define NO_MEMORY "the host has no memory for it"

enum { SLOTS = 4, GRAPHS = 8 };

typedef struct look_slot {
  crema_dtype type;
  const cr_layout *layout;
  bool valid, on_device;
  bool on_host; /* of transient values */
  uintptr_t gpu;
  size_t heap; /* the bytes of the context's heap there; 0: other memory */
} look_slot;

/* The state of a tensor's values, and the places of their formats. */
typedef struct look {
  const values *values;
  int64_t count;
  cr_tensor_state state;
  cr_tensor_lifetime lifetime;
  bool shown; /* in a view, with which values are not released */
  int head;   /* a slot; -1: none */
  crema_dtype head_type;
  const cr_layout *head_layout;
  bool pending;
  int slots;
  look_slot slot[SLOTS];
} look;

typedef struct captured_tensor {
  cr_tensor *tensor;
  bool reads;   /* values from before the pass, in `format` */
  bool writes;  /* some values */
  bool settles; /* the pass reads the values in their own type and drops other types */
  cr_format format;
} captured_tensor;

typedef struct captured_graph {
  cr_device_graph *graph; /* NULL: none */
  uint64_t number;        /* of the pass */
  crema_devptr scratchpad;
  uint64_t position;    /* of the heap, before the pass */
  cr_heap_calls calls;  /* in the pass */
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
  free(g->calls.call);
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
                        .reads = (access == 'R' || access == 'U') && !is_zero(tensor->values),
                        .writes = access == 'W' || access == 'U',
                        .settles = access == 'R' && format.type == tensor->values->type,
                        .format = format};
}

void cr_capture_note(cr_capture *capture, cr_tensor *tensor, char access, cr_format format) {
  /* Most tensors were used lately. */
  for (int i = capture->count - 1; i >= 0; --i) {
    captured_tensor *e = &capture->entry[i];
    if (e->tensor != tensor) continue;
    e->writes |= capture->listing && (access == 'W' || access == 'U');
    e->settles &= !capture->listing || (access == 'R' && format.type == tensor->values->type);
    return;
  }
  if (capture->listing) add(capture, tensor, access, format);
  else capture->why = "it uses other tensors than the pass before";
}

static void look_at_slot(const format_slot *s, bool transient, const crema_context *context,
                         look_slot *out) {
  const cr_device_side *side = &s->memory.gpu;
  out->type = s->format.type;
  out->layout = s->format.layout;
  out->valid = is_valid(s);
  out->on_device = s->memory.head == CREMA_HEAD_AT_GPU || s->memory.head == CREMA_SYNCED;
  out->on_host = transient && s->memory.host.data != NULL;
  out->gpu = side->data.address;
  if (out->gpu != 0 && side->block.heap == context->heap) out->heap = side->block.bytes;
}

static bool look_at(const cr_tensor *tensor, const crema_context *context, look *out) {
  const values *v = tensor->values;
  memset(out, 0, sizeof *out); /* padding too */
  out->values = v;
  out->count = v->count;
  out->state = v->state;
  out->lifetime = v->lifetime;
  out->shown = v->view != NULL;
  out->head = -1;
  out->head_type = v->head_format.type;
  out->head_layout = v->head_format.layout;
  out->pending = has_source(v);
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    if (out->slots == SLOTS) return false;
    if (s == head_slot(v)) out->head = out->slots;
    look_at_slot(s, is_transient(v), context, &out->slot[out->slots++]);
  }
  return true;
}

const char *cr_capture_end_list(cr_capture *capture) {
  end_notes(capture);
  for (int i = 0; i < capture->count; ++i) {
    captured_tensor *e = &capture->entry[i];
    const values *v = e->tensor->values;
    for (const format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
      e->settles = e->settles && s->format.type == v->type;
    }
  }
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
      /* Samples come in another type, which the pass would drop. */
      if (e->settles) CR_TRY(cr_tensor_settle(e->tensor, context));
    }
  }
  return CREMA_OK;
}

/* False: a tensor has too many formats. */
static bool look_at_all(const cr_capture *capture, look *out) {
  for (int i = 0; i < capture->count; ++i) {
    if (!look_at(capture->entry[i].tensor, capture->context, &out[i])) return false;
  }
  return true;
}

static const captured_graph *find(const cr_capture *capture) {
  const size_t bytes = (size_t)capture->count * sizeof(look);
  const uint64_t position = cr_heap_position(capture->context);
  if (!look_at_all(capture, capture->now)) return NULL;
  for (int i = 0; i < GRAPHS; ++i) {
    const captured_graph *g = &capture->graph[i];
    if (g->graph == NULL || g->scratchpad.address != capture->scratchpad.address) continue;
    if (g->position == position && memcmp(g->before, capture->now, bytes) == 0) return g;
  }
  return NULL;
}

/* Gives a slot memory of the heap that it has after the pass, or none. */
static void move_slot(const cr_capture *capture, format_slot *s, const look_slot *after) {
  crema_context *context = capture->context;
  s->memory.gpu = (cr_device_side){0};
  s->memory.head = after->on_device ? CREMA_HEAD_AT_GPU : CREMA_UNINITIALIZED;
  if (after->gpu == 0) return;
  s->memory.gpu = (cr_device_side){.data.address = after->gpu,
                                   .own = true,
                                   .device = context->device,
                                   .block = cr_heap_block(context, after->gpu, after->heap),
                                   .user = context->id};
}

static format_slot *slot_of(const values *v, const look_slot *slot) {
  return cr_tensor_find_slot(v, (cr_format){slot->type, slot->layout});
}

/* Brings a tensor from the state before the pass to the state after it. */
static void leave_as(const cr_capture *capture, const captured_tensor *e, const look *before,
                     const look *after) {
  values *v = e->tensor->values;
  v->state = after->state;
  v->head_format = (cr_format){after->head_type, after->head_layout};
  set_head(v, after->head < 0 ? NULL : slot_of(v, &after->slot[after->head]));
  for (int i = 0; i < after->slots; ++i) {
    const look_slot *from = &before->slot[i], *to = &after->slot[i];
    format_slot *s = slot_of(v, to);
    set_valid(s, to->valid);
    const bool made = to->valid && (e->writes || !from->valid);
    if (from->gpu != to->gpu) move_slot(capture, s, to);
    else if (made && to->on_device) s->memory.head = CREMA_HEAD_AT_GPU;
  }
  CR_ASSERT(cr_tensor_check(v));
}

crema_status cr_capture_run(cr_capture *capture, uint64_t number, bool *ran) {
  const captured_graph *g = find(capture);
  *ran = g != NULL;
  if (g == NULL) return CREMA_OK;
  CR_TRY(backend_of(capture)->graph_run(g->graph, capture->context, number - g->number));
  CR_TRY(cr_heap_repeat(capture->context, &g->calls));
  for (int i = 0; i < capture->count; ++i) {
    leave_as(capture, &capture->entry[i], &g->before[i], &g->after[i]);
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
  g->position = cr_heap_position(capture->context);
  capture->why = look_at_all(capture, g->before) ? NULL : "a tensor has many formats";
  CR_TRY(backend_of(capture)->capture_begin(capture->context));
  capture->context->capture = capture;
  capture->changes = cr_device_memory_changes();
  cr_heap_record(capture->context, &g->calls);
  return CREMA_OK;
}

/* Whether a slot has the same memory after the pass, or memory of the heap. */
static bool is_slot_steady(const look_slot *a, const look_slot *b) {
  const bool from_heap = a->gpu == 0 || a->heap > 0;
  const bool to_heap = b->gpu == 0 || b->heap > 0;
  if (a->type != b->type || a->layout != b->layout) return false;
  if (a->on_host != b->on_host) return false;
  if (a->gpu == b->gpu) return a->heap == b->heap;
  return from_heap && to_heap && !a->on_host;
}

/* Whether the same slots are there after the pass. */
static bool is_steady(const cr_capture *capture, const captured_graph *g) {
  for (int i = 0; i < capture->count; ++i) {
    const look *a = &g->before[i], *b = &g->after[i];
    if (a->values != b->values || a->slots != b->slots || a->pending || b->pending) return false;
    for (int k = 0; k < a->slots; ++k) {
      if (!is_slot_steady(&a->slot[k], &b->slot[k])) return false;
    }
  }
  return true;
}

/* Whether a listed tensor has the memory of the heap. */
static bool is_held(const cr_capture *capture, const look *looks, uintptr_t address) {
  for (int i = 0; i < capture->count; ++i) {
    for (int k = 0; k < looks[i].slots; ++k) {
      if (looks[i].slot[k].gpu == address && looks[i].slot[k].heap > 0) return true;
    }
  }
  return false;
}

/* Whether all blocks that the pass has freed or left were or are held by listed tensors. */
static bool is_complete(const cr_capture *capture, const captured_graph *g) {
  const cr_heap_calls *calls = &g->calls;
  for (size_t i = 0; i < calls->count; ++i) {
    const uintptr_t address = calls->call[i].address;
    const bool takes = calls->call[i].bytes > 0;
    /* The next call for the block after a take, or the last one before it is freed. */
    size_t other = takes ? i + 1 : i;
    if (takes)
      while (other < calls->count && calls->call[other].address != address) ++other;
    else
      while (other > 0 && calls->call[other - 1].address != address) --other;
    const bool inside = takes ? other < calls->count : other > 0;
    if (!inside && !is_held(capture, takes ? g->after : g->before, address)) return false;
  }
  return true;
}

/* Why the graph cannot run later; NULL: it can. */
static const char *flaw(const cr_capture *capture, const captured_graph *g) {
  if (capture->why != NULL) return capture->why;
  if (!look_at_all(capture, g->after)) return "a tensor has many formats";
  if (!is_steady(capture, g)) return "a tensor has moved";
  if (g->calls.incomplete) return NO_MEMORY;
  if (!is_complete(capture, g)) return "it takes or frees memory of values that it does not use";
  return NULL;
}

/* Ends the recording and starts its work. A driver may allocate memory for that. */
static crema_status finish_graph(const cr_capture *capture, captured_graph *g, const char **why) {
  const cr_backend *backend = backend_of(capture);
  cr_memory_lock_shared();
  crema_status status = backend->capture_end(capture->context, &g->graph, why);
  if (status == CREMA_OK && g->graph != NULL) {
    status = backend->graph_run(g->graph, capture->context, 0);
  }
  cr_memory_unlock_shared();
  return status;
}

crema_status cr_capture_end(cr_capture *capture, bool done, const char **why) {
  captured_graph *g = &capture->graph[capture->next];
  crema_context *context = capture->context;
  cr_heap_record(context, NULL);
  end_notes(capture);
  *why = NULL;
  CR_TRY(finish_graph(capture, g, why));
  if (g->graph == NULL) return CREMA_OK;
  *why = flaw(capture, g);
  if (*why == NULL && done) {
    capture->next = (capture->next + 1) % GRAPHS;
    return CREMA_OK;
  }
  CR_TRY(crema_context_finish(context));
  drop_graph(capture, g);
  return CREMA_OK;
}
