#include "device/memory/heap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/backend/order.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

/* The alignment of addresses and sizes: a cache line on the host, the driver's alignment on a
 * device. */
enum { HOST_ALIGNMENT = 64, DEVICE_ALIGNMENT = 256 };

enum {
  MOST_NOTES = 1 << 14 /* of a pass; the limit counts where passes never return all blocks */
};

/* The smallest region without a plan. */
#define LEAST_REGION ((size_t)1 << 20)

/* A block in use. The gaps between pieces are free; there is no list of them. */
typedef struct heap_piece {
  uintptr_t address;
  size_t bytes; /* with the gap after it */
  size_t note;  /* its note; NO_NOTE: none */
} heap_piece;

/* A block that was requested after the last rest. */
typedef struct note {
  size_t bytes;
  size_t from, to; /* the events at its begin and end, counted from the rest on */
  size_t offset;   /* its address in the plan */
} note;

typedef struct notes {
  note *note;
  size_t count, room;
} notes;

#define NO_NOTE ((size_t)-1)

typedef struct heap_region {
  cr_block block;
  size_t bytes;
} heap_region;

struct cr_heap {
  pthread_mutex_t lock; /* guards the members below */
  crema_device *device;
  crema_context *context; /* NULL: closed */
  heap_region *regions;
  size_t region_count;
  heap_piece *pieces; /* by address */
  size_t piece_count, piece_room;
  size_t held, in_use, highest;
  notes now, plan; /* of this pass; the pattern that the next passes should follow */
  size_t events;
  size_t planned_bytes;
  bool noting;          /* there was memory for all notes so far */
  bool follows;         /* so far the pass has requested the planned blocks */
  uint64_t blocks;      /* of cr_heap_stamp: the sum over all blocks in use */
  uint64_t order;       /* a number for `plan` */
  bool entered;         /* see cr_heap_enter */
  cr_heap_calls *calls; /* that are recorded; NULL: none */
};

/* Room for one more element of an array; false when there is no memory. */
static bool make_room(void *array, size_t count, size_t *room, size_t width) {
  void *old = NULL;
  if (count < *room) return true;
  size_t wanted = *room == 0 ? 64 : 2 * *room;
  memcpy(&old, array, sizeof old);
  void *memory = realloc(old, wanted * width);
  if (memory == NULL) return false;
  memcpy(array, &memory, sizeof memory);
  *room = wanted;
  return true;
}

static void poison(const cr_heap *heap, uintptr_t address, size_t bytes) {
  if (heap->device->backend->host_memory) ASAN_POISON_MEMORY_REGION((void *)address, bytes);
}

static void unpoison(const cr_heap *heap, uintptr_t address, size_t bytes) {
  if (heap->device->backend->host_memory) ASAN_UNPOISON_MEMORY_REGION((void *)address, bytes);
}

static void free_regions(cr_heap *heap) {
  for (size_t i = 0; i < heap->region_count; ++i) {
    heap_region *r = &heap->regions[i];
    unpoison(heap, r->block.address, r->bytes);
    if (cr_block_free(&r->block) != CREMA_OK) cr_log_error("%s", crema_error_text());
  }
  heap->region_count = 0;
  heap->held = 0;
}

static bool add_region(cr_heap *heap, size_t bytes) {
  const cr_block_options options = {.keep_content = true};
  heap_region *more = realloc(heap->regions, (heap->region_count + 1) * sizeof *more);
  if (more == NULL) return false;
  heap->regions = more;
  heap_region *fresh = &more[heap->region_count];
  if (cr_block_new(heap->device, bytes, &options, &fresh->block) != CREMA_OK) return false;
  fresh->bytes = bytes;
  /* Work of other contexts ends before the heap's own. */
  fresh->block.user = heap->context->id;
  poison(heap, fresh->block.address, bytes);
  ++heap->region_count;
  heap->held += bytes;
  return true;
}

static void destroy(cr_heap *heap) {
  free_regions(heap);
  free(heap->regions);
  free(heap->pieces);
  free(heap->now.note);
  free(heap->plan.note);
  pthread_mutex_destroy(&heap->lock);
  free(heap);
}

/* The contribution of a block to the stamp. */
static uint64_t mix(uintptr_t address, size_t bytes) {
  uint64_t mixed = (uint64_t)address * 0x9e3779b97f4a7c15u + (uint64_t)bytes;
  mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
  return mixed ^ mixed >> 32;
}

/* The number of the first piece at or after an address. */
static size_t find_piece(const cr_heap *heap, uintptr_t address) {
  size_t low = 0, high = heap->piece_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (heap->pieces[middle].address < address) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Whether `bytes` bytes at `address`, in a region, are free. */
static bool is_free(const cr_heap *heap, uintptr_t address, size_t bytes) {
  size_t next = find_piece(heap, address);
  if (next < heap->piece_count && heap->pieces[next].address < address + bytes) return false;
  if (next == 0) return true;
  const heap_piece *before = &heap->pieces[next - 1];
  return before->address + before->bytes <= address;
}

/* The smallest gap that fits `bytes`; 0: none. */
static uintptr_t best_gap(const cr_heap *heap, size_t bytes) {
  uintptr_t best = 0;
  size_t best_bytes = 0;
  for (size_t r = 0; r < heap->region_count; ++r) {
    uintptr_t at = heap->regions[r].block.address, end = at + heap->regions[r].bytes;
    for (size_t i = find_piece(heap, at); at < end; ++i) {
      bool last = i == heap->piece_count || heap->pieces[i].address >= end;
      size_t gap = (last ? end : heap->pieces[i].address) - at;
      if (gap >= bytes && (best == 0 || gap < best_bytes)) {
        best = at;
        best_bytes = gap;
      }
      at = last ? end : heap->pieces[i].address + heap->pieces[i].bytes;
    }
  }
  return best;
}

static size_t note_begin(cr_heap *heap, size_t bytes) {
  heap->noting = heap->noting && heap->now.count < MOST_NOTES &&
                 make_room(&heap->now.note, heap->now.count, &heap->now.room, sizeof(note));
  if (!heap->noting) return NO_NOTE;
  heap->now.note[heap->now.count] = (note){.bytes = bytes, .from = heap->events++};
  return heap->now.count++;
}

/* The planned address of the requested block; 0: not planned. */
static uintptr_t planned_address(cr_heap *heap, size_t bytes) {
  const size_t number = heap->now.count;
  if (!heap->follows) return 0;
  heap->follows = number < heap->plan.count && heap->plan.note[number].bytes == bytes;
  if (!heap->follows) return 0;
  uintptr_t address = heap->regions[0].block.address + heap->plan.note[number].offset;
  return is_free(heap, address, bytes) ? address : 0;
}

static int by_size(const void *a, const void *b) {
  const note *const *x = a, *const *y = b;
  if ((*x)->bytes != (*y)->bytes) return (*x)->bytes > (*y)->bytes ? -1 : 1;
  return (*x)->from < (*y)->from ? -1 : 1;
}

/* Puts order[n] into the smallest gap between the blocks before it that live at the same time;
 * `same_time` has room for these. */
static void place(note **order, size_t n, const note **same_time, size_t *end) {
  size_t count = 0, at = 0, best = NO_NOTE, best_gap_bytes = 0;
  note *self = order[n];
  for (size_t i = 0; i < n; ++i) {
    if (order[i]->from >= self->to || self->from >= order[i]->to) continue;
    /* By offset. */
    size_t k = count++;
    for (; k > 0 && same_time[k - 1]->offset > order[i]->offset; --k)
      same_time[k] = same_time[k - 1];
    same_time[k] = order[i];
  }
  for (size_t i = 0; i < count; ++i) {
    if (same_time[i]->offset > at) {
      size_t gap = same_time[i]->offset - at;
      if (gap >= self->bytes && (best == NO_NOTE || gap < best_gap_bytes)) {
        best = at;
        best_gap_bytes = gap;
      }
    }
    if (same_time[i]->offset + same_time[i]->bytes > at)
      at = same_time[i]->offset + same_time[i]->bytes;
  }
  self->offset = best == NO_NOTE ? at : best;
  if (self->offset + self->bytes > *end) *end = self->offset + self->bytes;
}

/* Gives each block of the last pass its place, large ones first. */
static bool make_plan(cr_heap *heap) {
  const size_t count = heap->now.count;
  note **order = malloc(2 * (count + 1) * sizeof *order);
  if (order == NULL) return false;
  for (size_t i = 0; i < count; ++i) order[i] = &heap->now.note[i];
  qsort(order, count, sizeof *order, by_size);
  heap->planned_bytes = 0;
  heap->order = count;
  for (size_t i = 0; i < count; ++i) {
    place(order, i, (const note **)(order + count), &heap->planned_bytes);
  }
  for (size_t i = 0; i < count; ++i) {
    const note *n = &heap->now.note[i];
    heap->order = mix((uintptr_t)heap->order + n->offset, n->bytes);
  }
  free(order);
  const notes old = heap->plan;
  heap->plan = heap->now;
  heap->now = old;
  return true;
}

void cr_heap_rest(crema_context *context) {
  cr_heap *heap = context->heap;
  if (heap == NULL) return;
  pthread_mutex_lock(&heap->lock);
  if (heap->piece_count == 0) {
    /* Whether the last pass requested the planned blocks in order, or none. */
    bool planned = heap->plan.count > 0 &&
                   (heap->now.count == 0 || (heap->follows && heap->now.count == heap->plan.count));
    if (!planned && heap->noting && heap->now.count > 0) planned = make_plan(heap);
    size_t had = heap->region_count == 1 ? heap->held : 0;
    if (planned && had < heap->planned_bytes) {
      free_regions(heap);
      planned = add_region(heap, heap->planned_bytes);
    }
    heap->now.count = 0;
    heap->events = 0;
    heap->noting = true;
    heap->follows = planned;
  }
  pthread_mutex_unlock(&heap->lock);
}

/* With the lock held: later work of the heap's context waits for the work of the context called
 * `id`, which has used a block last; else the host does. Work that fails is over; its context
 * reports the failure. */
static void order_after(const cr_heap *heap, uint64_t id) {
  crema_device *device = heap->device;
  cr_native_event *event = NULL;
  bool busy = false;
  if (device->backend->host_memory || id == 0) return;
  if (heap->context != NULL && cr_context_follow(heap->context, id) == CREMA_OK) return;
  if (cr_context_mark(device, id, &event, &busy) == CREMA_OK && busy) {
    (void)device->backend->event_finish(event);
  }
  if (event != NULL) device->backend->event_destroy(event);
}

static void note_call(cr_heap_calls *calls, uintptr_t address, size_t bytes) {
  if (calls == NULL || calls->incomplete) return;
  calls->incomplete = !make_room(&calls->call, calls->count, &calls->room, sizeof *calls->call);
  if (!calls->incomplete) calls->call[calls->count++] = (cr_heap_call){address, bytes};
}

/* Ends the block at an address. False: there is none. */
static bool end_piece(cr_heap *heap, uintptr_t address) {
  size_t i = find_piece(heap, address);
  if (i == heap->piece_count || heap->pieces[i].address != address) return false;
  heap_piece ended = heap->pieces[i];
  memmove(&heap->pieces[i], &heap->pieces[i + 1],
          (--heap->piece_count - i) * sizeof heap->pieces[0]);
  heap->in_use -= ended.bytes;
  heap->blocks -= mix(ended.address, ended.bytes);
  if (ended.note != NO_NOTE) heap->now.note[ended.note].to = heap->events++;
  poison(heap, ended.address, ended.bytes);
  note_call(heap->calls, address, 0);
  return true;
}

static void release_piece(cr_block *block) {
  cr_heap *heap = block->heap;
  pthread_mutex_lock(&heap->lock);
  order_after(heap, block->user);
  (void)end_piece(heap, block->address);
  bool unused = heap->context == NULL && heap->piece_count == 0;
  pthread_mutex_unlock(&heap->lock);
  if (unused) destroy(heap);
}

/* An address for a block of `bytes`; 0: the system has no memory. */
static uintptr_t find_address(cr_heap *heap, size_t bytes) {
  uintptr_t address = planned_address(heap, bytes);
  if (address == 0) address = best_gap(heap, bytes);
  if (address != 0) return address;
  size_t region_bytes = heap->held / 4 > LEAST_REGION ? heap->held / 4 : LEAST_REGION;
  if (region_bytes < bytes) region_bytes = bytes;
  if (!add_region(heap, region_bytes) && !add_region(heap, bytes)) return 0;
  return heap->regions[heap->region_count - 1].block.address;
}

/* The block of `bytes` bytes that was taken at an address. */
static cr_block block_at(cr_heap *heap, uintptr_t address, size_t bytes) {
  return (cr_block){.address = address,
                    .bytes = bytes,
                    .release = release_piece,
                    .device = heap->device,
                    .user = heap->device->backend->host_memory ? 0 : heap->context->id,
                    .heap = heap};
}

static bool take(cr_heap *heap, size_t bytes, cr_block *out) {
  if (!make_room(&heap->pieces, heap->piece_count, &heap->piece_room, sizeof *heap->pieces)) {
    return false;
  }
  const bool host = heap->device->backend->host_memory;
  const size_t alignment = host ? HOST_ALIGNMENT : DEVICE_ALIGNMENT;
  /* With a gap, so that a kernel that works beyond the end of its block is noticed. */
  size_t whole = (bytes + 2 * alignment - 1) / alignment * alignment;
  uintptr_t address = find_address(heap, whole);
  if (address == 0) return false;
  size_t i = find_piece(heap, address);
  memmove(&heap->pieces[i + 1], &heap->pieces[i],
          (heap->piece_count++ - i) * sizeof heap->pieces[0]);
  heap->pieces[i] =
      (heap_piece){.address = address, .bytes = whole, .note = note_begin(heap, whole)};
  heap->in_use += whole;
  heap->blocks += mix(address, whole);
  if (heap->in_use > heap->highest) heap->highest = heap->in_use;
  unpoison(heap, address, bytes);
  note_call(heap->calls, address, bytes);
  *out = block_at(heap, address, bytes);
  return true;
}

bool cr_heap_take(crema_context *context, size_t bytes, cr_block *out) {
  cr_heap *heap = context->heap;
  if (heap == NULL || bytes == 0 || bytes > PTRDIFF_MAX) return false;
  pthread_mutex_lock(&heap->lock);
  bool taken = !heap->entered && take(heap, bytes, out);
  pthread_mutex_unlock(&heap->lock);
  return taken;
}

static uint64_t stamp_of(const cr_heap *heap) {
  uint64_t stamp = heap->blocks + 1;
  for (size_t i = 0; i < heap->region_count; ++i) {
    stamp += mix(heap->regions[i].block.address + 1, heap->regions[i].bytes);
  }
  return stamp == 0 ? 1 : stamp;
}

uint64_t cr_heap_stamp(const crema_context *context) {
  cr_heap *heap = context->heap;
  if (heap == NULL) return 0;
  pthread_mutex_lock(&heap->lock);
  const uint64_t stamp = stamp_of(heap);
  pthread_mutex_unlock(&heap->lock);
  return stamp;
}

uint64_t cr_heap_position(const crema_context *context) {
  cr_heap *heap = context->heap;
  if (heap == NULL) return 0;
  pthread_mutex_lock(&heap->lock);
  uint64_t position = stamp_of(heap);
  if (heap->follows) position += mix((uintptr_t)heap->order, heap->now.count);
  pthread_mutex_unlock(&heap->lock);
  return position;
}

void cr_heap_record(crema_context *context, cr_heap_calls *calls) {
  cr_heap *heap = context->heap;
  if (heap == NULL) return;
  pthread_mutex_lock(&heap->lock);
  heap->calls = calls;
  pthread_mutex_unlock(&heap->lock);
}

crema_status cr_heap_repeat(crema_context *context, const cr_heap_calls *calls) {
  cr_heap *heap = context->heap;
  bool same = true;
  if (calls->count == 0) return CREMA_OK;
  pthread_mutex_lock(&heap->lock);
  for (size_t i = 0; i < calls->count && same; ++i) {
    const cr_heap_call *call = &calls->call[i];
    cr_block block = {0};
    if (call->bytes > 0) same = take(heap, call->bytes, &block) && block.address == call->address;
    else same = end_piece(heap, call->address);
  }
  pthread_mutex_unlock(&heap->lock);
  return same ? CREMA_OK : cr_fail(CREMA_E_INTERNAL, "the memory of a pass is not as it was");
}

cr_block cr_heap_block(const crema_context *context, uintptr_t address, size_t bytes) {
  return block_at(context->heap, address, bytes);
}

bool cr_heap_has(const crema_context *context, crema_devptr address) {
  cr_heap *heap = context->heap;
  bool has = false;
  if (heap == NULL) return false;
  pthread_mutex_lock(&heap->lock);
  for (size_t i = 0; i < heap->region_count && !has; ++i) {
    const uintptr_t begin = heap->regions[i].block.address;
    has = address.address >= begin && address.address - begin < heap->regions[i].bytes;
  }
  pthread_mutex_unlock(&heap->lock);
  return has;
}

bool cr_heap_enter(crema_context *context, uint64_t stamp) {
  cr_heap *heap = context->heap;
  if (heap == NULL || stamp == 0) return false;
  pthread_mutex_lock(&heap->lock);
  heap->entered = stamp_of(heap) == stamp;
  for (size_t i = 0; heap->entered && i < heap->region_count; ++i) {
    unpoison(heap, heap->regions[i].block.address, heap->regions[i].bytes);
  }
  const bool entered = heap->entered;
  pthread_mutex_unlock(&heap->lock);
  return entered;
}

void cr_heap_leave(crema_context *context) {
  cr_heap *heap = context->heap;
  pthread_mutex_lock(&heap->lock);
  heap->entered = false;
  for (size_t i = 0; i < heap->region_count; ++i) {
    poison(heap, heap->regions[i].block.address, heap->regions[i].bytes);
  }
  for (size_t i = 0; i < heap->piece_count; ++i) {
    unpoison(heap, heap->pieces[i].address, heap->pieces[i].bytes);
  }
  pthread_mutex_unlock(&heap->lock);
}

crema_status cr_heap_open(crema_context *context) {
  if (context->heap != NULL) return CREMA_OK;
  cr_heap *heap = NULL;
  CR_TRY(CR_NEW(heap, 1, "a heap"));
  pthread_mutex_init(&heap->lock, NULL);
  heap->device = context->device;
  heap->context = context;
  heap->noting = true;
  context->heap = heap;
  return CREMA_OK;
}

void cr_heap_close(crema_context *context) {
  cr_heap *heap = context->heap;
  if (heap == NULL) return;
  context->heap = NULL;
  pthread_mutex_lock(&heap->lock);
  heap->context = NULL;
  bool unused = heap->piece_count == 0;
  pthread_mutex_unlock(&heap->lock);
  if (unused) destroy(heap);
}

cr_heap_usage cr_heap_usage_of(const crema_context *context) {
  cr_heap *heap = context->heap;
  if (heap == NULL) return (cr_heap_usage){0};
  pthread_mutex_lock(&heap->lock);
  cr_heap_usage usage = {heap->held, heap->in_use, heap->highest};
  pthread_mutex_unlock(&heap->lock);
  return usage;
}
