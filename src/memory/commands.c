#include "memory/commands.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/device.h"
#include "device/memory/heap.h"
#include "device/memory/scratchpad.h"
#include "memory/commands_private.h"

/* A list that is spoiled so often is not recorded any more: the net has layers that do other things
 * than running ops. */
enum { MOST_TRIES = 8 };

typedef struct conversion {
  int64_t count;
  cr_format to, from;
  crema_devptr dst, src;
} conversion;

/* An argument, or the source of a conversion (arg 0), that is asked for its memory in each run. */
typedef struct live {
  cr_tensor *tensor;
  cr_format format;
  int arg;
  char access; /* 'R', 'W', 'U' as in device/backend/ops.inc */
} live;

/* Followed by `buffers` addresses and then `lives` arguments. */
typedef struct command {
  size_t bytes; /* with what follows */
  int layer;
  int buffers, lives;
  bool scratch;                             /* the call takes the context's workspace */
  crema_status (*run)(const cr_call *call); /* NULL: a conversion */
  const cr_backend *backend;
  union {
    cr_call call;
    conversion conversion;
  } u;
} command;

typedef struct bytes {
  char *data;
  size_t size, room;
} bytes;

struct cr_commands {
  bytes now,
      before; /* of the pass that is being recorded, or was recorded last; of the one before */
  bool recording, spoiled, valid;
  int tries;
  int layer;
  size_t last;         /* of `now`: where the last command begins */
  cr_tensor *source;   /* see cr_commands_resolve */
  uint64_t heap;       /* see cr_heap_stamp: at the beginning and at the end of the pass */
  size_t workspace;    /* the most that a call takes */
  int threads;         /* see cr_scheduler_threads */
  const cr_plan *plan; /* the one that asks for most of the process: see cr_backend.ready */
};

/* ---- life ---------------------------------------------------------------- */

crema_status cr_commands_create(cr_commands **out) {
  return CR_NEW(*out, 1, "a list of commands");
}

void cr_commands_destroy(cr_commands *commands) {
  if (commands == NULL) return;
  free(commands->now.data);
  free(commands->before.data);
  free(commands);
}

void cr_commands_forget(cr_commands *commands) {
  commands->valid = false;
  commands->tries = 0;
  commands->now.size = commands->before.size = 0;
}

/* ---- recording ----------------------------------------------------------- */

static cr_commands *recorder(const crema_context *context) {
  cr_commands *commands = context->commands;
  return commands == NULL || commands->spoiled ? NULL : commands;
}

void cr_commands_spoil(const crema_context *context) {
  if (context->commands != NULL) context->commands->spoiled = true;
}

void cr_commands_resolve(const crema_context *context, cr_tensor *tensor) {
  if (context->commands != NULL) context->commands->source = tensor;
}

void cr_commands_set_layer(const crema_context *context, int layer) {
  if (context->commands != NULL) context->commands->layer = layer;
}

void cr_commands_begin(cr_commands *commands, crema_context *context) {
  const bytes old = commands->before;
  if (commands->tries >= MOST_TRIES || !context->device->backend->host_memory) return;
  commands->before = commands->now;
  commands->now = old;
  commands->now.size = 0;
  commands->recording = true;
  commands->spoiled = false;
  commands->source = NULL;
  commands->plan = NULL;
  commands->workspace = 0;
  commands->layer = -1;
  commands->heap = cr_heap_stamp(context);
  commands->threads = cr_scheduler_threads(context);
  context->commands = commands;
}

static bool same_bytes(const bytes *a, const bytes *b) {
  return a->size == b->size && a->size > 0 && memcmp(a->data, b->data, a->size) == 0;
}

void cr_commands_end(cr_commands *commands, crema_context *context, bool done) {
  context->commands = NULL;
  if (!commands->recording) return;
  commands->recording = false;
  if (!done || commands->spoiled) commands->now.size = 0;
  commands->valid =
      same_bytes(&commands->now, &commands->before) && commands->heap == cr_heap_stamp(context);
  commands->tries = commands->valid ? 0 : commands->tries + 1;
}

/* `size` more bytes at the end, all 0; NULL: there is no memory, and the list is spoiled. */
static void *add_bytes(cr_commands *commands, size_t size) {
  bytes *b = &commands->now;
  if (b->size + size > b->room) {
    const size_t room = 2 * (b->size + size) + 4096;
    char *data = realloc(b->data, room);
    commands->spoiled = data == NULL;
    if (data == NULL) return NULL;
    b->data = data;
    b->room = room;
  }
  char *out = b->data + b->size;
  memset(out, 0, size);
  b->size += size;
  return out;
}

static command *add_command(cr_commands *commands, int buffers) {
  const size_t begin = commands->now.size;
  const size_t size = sizeof(command) + (size_t)buffers * sizeof(crema_devptr);
  command *c = add_bytes(commands, size);
  if (c == NULL) return NULL;
  commands->last = begin;
  c->bytes = size;
  c->layer = commands->layer;
  c->buffers = buffers;
  return c;
}

static command *last_command(const cr_commands *commands) {
  return (command *)(void *)(commands->now.data + commands->last);
}

static crema_devptr *buffers_of(command *c) {
  return (crema_devptr *)(void *)(c + 1);
}

static live *lives_of(command *c) {
  return (live *)(void *)(buffers_of(c) + c->buffers);
}

/* To the last command. */
static void add_live(cr_commands *commands, int arg, char access, cr_tensor *tensor,
                     cr_format format) {
  live *l = add_bytes(commands, sizeof *l);
  if (l == NULL) return;
  *l = (live){.tensor = tensor, .format = format, .arg = arg, .access = access};
  command *c = last_command(commands);
  c->bytes += sizeof *l;
  c->lives += 1;
}

/* Whether a conversion of this pass has written there. */
static bool was_converted(const cr_commands *commands, crema_devptr address) {
  for (size_t at = 0; at < commands->now.size;) {
    const command *c = (const command *)(const void *)(commands->now.data + at);
    if (c->run == NULL && c->u.conversion.dst.address == address.address) return true;
    at += c->bytes;
  }
  return false;
}

void cr_commands_add_call(const cr_call *call, const cr_backend *backend, int args) {
  cr_commands *commands = recorder(call->context);
  if (commands == NULL) return;
  command *c = add_command(commands, args);
  if (c == NULL) return;
  c->run = call->plan->kernel->run;
  c->backend = backend;
  c->scratch = call->plan->workspace_bytes > 0;
  c->u.call = *call;
  c->u.call.buffer = NULL;
  if (c->scratch) c->u.call.workspace = (crema_devptr){0};
  memcpy(buffers_of(c), call->buffer, (size_t)args * sizeof *call->buffer);
  if (call->scalars != NULL) commands->spoiled = true;
  const cr_plan *plan = call->plan, *most = commands->plan;
  if (plan->workspace_bytes > commands->workspace) commands->workspace = plan->workspace_bytes;
  if (most == NULL || (plan->kernel->library && !most->kernel->library) ||
      (plan->kernel->library && plan->threads > most->threads)) {
    commands->plan = plan;
  }
}

void cr_commands_add_argument(const crema_context *context, int arg, char access, cr_tensor *tensor,
                              cr_format format) {
  cr_commands *commands = recorder(context);
  if (commands == NULL) return;
  const values *v = tensor->values;
  crema_devptr *buffer = &buffers_of(last_command(commands))[arg];
  if (v->lifetime == CR_TENSOR_CONSTANT && access == 'R') return;
  const bool converted = format.type != v->type && access == 'R';
  if (is_transient(v) || converted) {
    /* Memory that the system gives and takes back has another address each time. */
    commands->spoiled = access == 'A' || !cr_heap_has(context, *buffer) ||
                        (!is_transient(v) && !was_converted(commands, *buffer));
    return;
  }
  commands->spoiled = access == 'A' || format.type != v->type;
  *buffer = (crema_devptr){0};
  add_live(commands, arg, access, tensor, format);
}

/* ---- what tensors tell --------------------------------------------------- */

/* Whether an op asks for the memory of these values in their own type: it does so again when the
 * list runs. */
static bool is_asked_again(const cr_commands *commands, const values *v, crema_dtype type) {
  return !is_transient(v) && type == v->type && commands->source != NULL &&
         commands->source->values == v;
}

void cr_commands_note_made(const crema_context *context, const values *v, cr_format format) {
  const cr_commands *commands = recorder(context);
  if (commands == NULL || v->lifetime == CR_TENSOR_CONSTANT ||
      is_asked_again(commands, v, format.type))
    return;
  cr_commands_spoil(context);
}

void cr_commands_note_written(const crema_context *context, const values *v) {
  const cr_commands *commands = recorder(context);
  if (commands != NULL && !is_transient(v) && commands->source == NULL) cr_commands_spoil(context);
}

void cr_commands_add_conversion(const crema_context *context, const values *v, cr_format to,
                                crema_devptr dst, cr_format from, crema_devptr src) {
  cr_commands *commands = recorder(context);
  if (commands == NULL || v->lifetime == CR_TENSOR_CONSTANT || is_asked_again(commands, v, to.type))
    return;
  const bool asked = is_asked_again(commands, v, from.type);
  if (!cr_heap_has(context, dst) || !(is_transient(v) || asked || was_converted(commands, src))) {
    commands->spoiled = true;
    return;
  }
  command *c = add_command(commands, 0);
  if (c == NULL) return;
  c->backend = context->device->backend;
  c->u.conversion = (conversion){.count = v->count,
                                 .to = to,
                                 .from = from,
                                 .dst = dst,
                                 .src = asked ? (crema_devptr){0} : src};
  if (asked) add_live(commands, 0, 'R', commands->source, from);
}

/* ---- running ------------------------------------------------------------- */

static crema_status ask(const live *l, crema_context *context, crema_devptr *out) {
  switch (l->access) {
    case 'R': return cr_tensor_read(l->tensor, context, l->format, out);
    case 'W': return cr_tensor_write(l->tensor, context, l->format, out);
    default: return cr_tensor_update(l->tensor, context, l->format, out);
  }
}

static crema_status run_conversion(command *c, crema_context *context) {
  conversion *v = &c->u.conversion;
  if (c->lives > 0) CR_TRY(ask(lives_of(c), context, &v->src));
  return c->backend->convert(context, v->count, v->to, v->dst, v->from, v->src);
}

static crema_status run_call(command *c, crema_context *context, crema_devptr workspace) {
  const cr_backend *backend = c->backend;
  const live *l = lives_of(c);
  for (int i = 0; i < c->lives; ++i) CR_TRY(ask(&l[i], context, &buffers_of(c)[l[i].arg]));
  c->u.call.buffer = buffers_of(c);
  if (c->scratch) c->u.call.workspace = workspace;
  const int before = cr_scheduler_enter_run(backend, c->u.call.plan);
  crema_status status = c->run(&c->u.call);
  cr_scheduler_leave(backend, before);
  return cr_fail_in(status, "op %s", c->u.call.plan->kernel->name);
}

/* What a call looks at first. One after the other these would be waited for. */
static void fetch(const command *c) {
  if (c->run == NULL) return;
  const cr_plan *plan = c->u.call.plan;
  const char *execution = c->u.call.execution;
  __builtin_prefetch(plan);
  __builtin_prefetch(&plan->state);
  for (int i = 0; execution != NULL && i < 4; ++i) __builtin_prefetch(execution + 64 * i);
}

static crema_status run_list(cr_commands *commands, crema_context *context, int *layer) {
  crema_devptr workspace = {0};
  if (commands->workspace > 0) {
    CR_TRY(cr_context_workspace(context, commands->workspace, &workspace));
  }
  for (size_t at = 0; at < commands->now.size;) {
    command *c = (command *)(void *)(commands->now.data + at);
    fetch(c);
    crema_status status =
        c->run == NULL ? run_conversion(c, context) : run_call(c, context, workspace);
    if (status != CREMA_OK) {
      *layer = c->layer;
      return status;
    }
    at += c->bytes;
  }
  return CREMA_OK;
}

/* Whether the process may still run the kernels that were chosen. */
static bool is_ready(const cr_commands *commands, const crema_context *context) {
  const cr_backend *backend = context->device->backend;
  if (cr_scheduler_threads(context) != commands->threads) return false;
  if (commands->plan == NULL || backend->ready == NULL) return true;
  return backend->ready(commands->plan, false) == CREMA_OK;
}

crema_status cr_commands_run(cr_commands *commands, crema_context *context, bool *ran, int *layer) {
  *ran = commands->valid && is_ready(commands, context) && cr_heap_enter(context, commands->heap);
  *layer = -1;
  if (!*ran) return CREMA_OK;
  crema_status status = run_list(commands, context, layer);
  cr_heap_leave(context);
  if (status != CREMA_OK) commands->valid = false;
  return status;
}
