/* A tensor: one array of values held in one or more formats.
 *
 * A format is an element type and a layout. Each format that is held is a syncedmem with a
 * valid mark. Reading asks for a format and makes it valid by the cheapest route (another
 * side of the same format: a copy; another format: a conversion). Writing makes one format the
 * head and all others stale. Nothing is copied or converted twice.
 *
 * Tensors can share values (in-place layers, Split, Flatten, parameters shared by name). They see
 * each other's writes immediately.
 *
 * Threads: one thread at a time uses a tensor, even for reading, because a read also creates
 * formats and moves bytes. Tensors of different threads may share values, such as the weights of
 * several nets. Then
 *   - any number of threads may read at once (cr_tensor_read and cr_tensor_host_read, in any
 *     formats; cr_tensor_memory_of and the questions about head, count, type and zero), on the CPU
 *     and on one device. A format that is valid is found without a lock; one that is not is made
 *     once, while others who want it wait;
 *   - any of the threads may destroy its tensor;
 *   - all other calls (writing, marking as zero, resizing, sharing, adopting) require that no other
 *     thread uses one of the tensors meanwhile, and that a queue or a join orders the call.
 * Values that threads read on two devices would move to and fro: each device has its own. */
#ifndef CR_MEMORY_TENSOR_H
#define CR_MEMORY_TENSOR_H

#include "crema/syncedmem.h"
#include "crema/types.h"
#include "device/backend/layout.h"
#include "device/device.h"

typedef struct cr_tensor cr_tensor;

/* Makes a tensor of `count` elements whose plain format has element type `type`; all zero. Where
 * the thread works on a device (cr_device_current), its memory on the host is such that the device
 * copies it asynchronously. */
crema_status cr_tensor_create(crema_dtype type, int64_t count, cr_tensor **out) CREMA_MUST_USE;
void cr_tensor_destroy(cr_tensor *tensor);

int64_t cr_tensor_count(const cr_tensor *tensor);
crema_dtype cr_tensor_type(const cr_tensor *tensor);

/* Changes the count. Growing beyond the capacity drops the values (all zero on next read) in every
 * format; otherwise the first values are kept in plain format. Adopted memory is released. Other
 * tensors that share the values keep them. This tensor then has its own values: a copy of the first
 * shared values, or all zero if the count has grown. */
crema_status cr_tensor_resize(cr_tensor *tensor, int64_t count) CREMA_MUST_USE;

/* Does all of a cr_tensor_resize that can fail. The values do not change. The resize succeeds if
 * the tensor is not used in between. */
crema_status cr_tensor_prepare_resize(cr_tensor *tensor, int64_t count) CREMA_MUST_USE;

/* Access on `context`'s device in `format`. A read gives the newest values, which must not be
 * changed. A write gives memory with undefined content; the format becomes the only valid one. An
 * update gives the newest values, then acts as a write.
 * The memory stays valid until the next access in another format or on another device; reads of
 * other threads leave it as it is. */
crema_status cr_tensor_read(cr_tensor *tensor, crema_context *context, cr_format format,
                            crema_devptr *out) CREMA_MUST_USE;
crema_status cr_tensor_write(cr_tensor *tensor, crema_context *context, cr_format format,
                             crema_devptr *out) CREMA_MUST_USE;
crema_status cr_tensor_update(cr_tensor *tensor, crema_context *context, cr_format format,
                              crema_devptr *out) CREMA_MUST_USE;

/* The same on the host, in plain format of the tensor's own element type. */
crema_status cr_tensor_host_read(cr_tensor *tensor, const void **out) CREMA_MUST_USE;
crema_status cr_tensor_host_write(cr_tensor *tensor, void **out) CREMA_MUST_USE;

/* As above, in plain float32 format for any element type. */
crema_status cr_tensor_host_read_floats(cr_tensor *tensor, const float **out) CREMA_MUST_USE;
crema_status cr_tensor_host_write_floats(cr_tensor *tensor, float **out) CREMA_MUST_USE;

/* The first value of a tensor as a double. F64 is read as F64, all other types as float32. */
crema_status cr_tensor_host_value(cr_tensor *tensor, double *out) CREMA_MUST_USE;

/* Drops the formats in other element types than the tensor's own; newest values in such a type are
 * converted first. No other thread may use the values meanwhile. A no-op for values that are all in
 * the tensor's own type. */
crema_status cr_tensor_settle(cr_tensor *tensor, crema_context *context) CREMA_MUST_USE;

/* Drops the formats in other element types than the tensor's own, without converting: the format
 * that was written last stays, so that parameters that are trained keep full precision. No other
 * thread may use the values meanwhile. */
void cr_tensor_drop_types(cr_tensor *tensor);

/* Names the values for CREMA_VERBOSE, also for tensors that share them. The first name stays.
 * `label` must live as long as the process (core/verbose.h). */
void cr_tensor_set_label(cr_tensor *tensor, const char *label);

/* Whether another tensor shares the values. */
bool cr_tensor_is_shared(const cr_tensor *tensor);

/* How often the values were converted from one element type to another so far. */
uint64_t cr_tensor_conversions(const cr_tensor *tensor);

/* The format that was written last. */
cr_format cr_tensor_head(const cr_tensor *tensor);

/* Marks all values as zero without touching memory; the next read fills, the next write
 * or accumulation simply overwrites. */
void cr_tensor_set_zero(cr_tensor *tensor);
bool cr_tensor_is_zero(const cr_tensor *tensor);

/* Whether the values have been neither set, to zero or otherwise, nor read, since the tensor was
 * made or grew. */
bool cr_tensor_is_new(const cr_tensor *tensor);

/* Values that live for a part of a pass are transient: their memory comes from the heap of the
 * context that uses them (device/memory/heap.h). The functions below are no-ops for other values.
 * Sharing tensors are transient together. No tensor is at first. */
void cr_tensor_set_transient(cr_tensor *tensor, bool transient);

/* The values will not change. */
void cr_tensor_set_constant(cr_tensor *tensor);

/* Releases the values and the memory of all formats. Until new values are written, reading fails
 * with CREMA_E_STATE. Values that are all zero stay so. */
void cr_tensor_release(cr_tensor *tensor);
/* The same in a pass of the context, which may be noted (memory/capture.h). */
void cr_tensor_release_in(crema_context *context, cr_tensor *tensor);

/* Moves the values to `to`, of equal count and type; `from` is released, as above. False, and
 * nothing is done, if either is not transient or if the memory is the caller's. */
bool cr_tensor_take(cr_tensor *to, cr_tensor *from);

/* Exchanges the values of two tensors of one type, whose counts may differ. Only if no other tensor
 * shares the values, they are neither transient nor pinned in another tensor's memory, and no view
 * of them is held. */
bool cr_tensor_can_swap(const cr_tensor *tensor);
void cr_tensor_swap(cr_tensor *a, cr_tensor *b);

/* Releases the memory of invalid formats, or of all formats except the most recently written
 * format. */
void cr_tensor_drop_stale(cr_tensor *tensor);
void cr_tensor_keep_head(cr_tensor *tensor);

/* What identifies the values: equal for tensors that share them. */
const void *cr_tensor_storage(const cr_tensor *tensor);

/* Makes `tensor` share the values of `donor` and releases its own. Counts and element types must be
 * equal. Shared values live until the last sharer is destroyed. Sharing again follows the new
 * donor, and is a no-op for the values that the tensor already has. A donor that got its values
 * from `tensor`, directly or indirectly, makes a cycle. Errors, which change nothing:
 * CREMA_E_ARGUMENT for a tensor and itself, CREMA_E_SHAPE, CREMA_E_TYPE with both types,
 * CREMA_E_STATE for a cycle. */
crema_status cr_tensor_share(cr_tensor *tensor, cr_tensor *donor) CREMA_MUST_USE;
bool cr_tensor_shares_with(const cr_tensor *a, const cr_tensor *b);

/* Takes memory of `device` with at least count values of type `type` in plain format as the newest
 * values; it stays the caller's and must outlive its use. `host`, which may be NULL, is host memory
 * with the same values, for a device with its own memory. Errors: CREMA_E_ARGUMENT without memory.
 */
crema_status cr_tensor_adopt(cr_tensor *tensor, crema_device *device, crema_dtype type,
                             crema_devptr memory, void *host) CREMA_MUST_USE;

/* The same with host memory of float32 values. */
crema_status cr_tensor_adopt_host(cr_tensor *tensor, void *memory) CREMA_MUST_USE;

/* Aliases: values in the memory of another tensor.
 *
 * Each format of a tensor may be pinned in a block, such as the array of all parameters. A planned
 * alias, at most one, is a bottom of a Concat in the top, or a top of a Slice in the bottom. */

/* Pins the plain format of the element type of `block` in the memory that `block` has on the
 * context's device in its own plain format, from value `offset` on. The newest values are kept;
 * zeros stay a mark. A no-op if the format exists. Code that writes the block's memory marks the
 * part with cr_tensor_write or cr_tensor_update. The memory lives until the last part is gone;
 * `block`, which must have been written, must not be used on another device or be resized. Errors:
 * CREMA_E_RANGE, CREMA_E_STATE, CREMA_E_NO_MEMORY, errors of a read. */
crema_status cr_tensor_alias_block(cr_tensor *tensor, crema_context *context, cr_tensor *block,
                                   int64_t offset) CREMA_MUST_USE;

/* For conversions of several parts of a block at once. Whether the newest values, which are not all
 * zero, are pinned in `block`. */
bool cr_tensor_alias_is_in(const cr_tensor *tensor, const cr_tensor *block);
/* `context` has converted the newest values to their place in `block`, where they are valid in
 * addition to the other formats. Counts as a conversion. Errors: CREMA_E_STATE if the tensor is not
 * pinned there. */
crema_status cr_tensor_alias_converted(cr_tensor *tensor, crema_context *context,
                                       const cr_tensor *block) CREMA_MUST_USE;

/* Plans to store the values in the memory of `whole`, as `part` of its values. If `whole` is itself
 * a part, they are stored in the memory of the outermost tensor. Parts are written and make the
 * whole; with `read`, the whole is written and the parts are read there. Sets *done to false, and
 * changes nothing, if shapes or types do not fit, the tensor has another alias or is a whole, or
 * either is shown (memory/view.h).
 *
 * The whole's format is unknown until cr_tensor_alias_order. Afterwards values that are written in
 * the part's format are stored in the whole, and cr_tensor_alias_move moves other values there.
 * When all parts have been moved, they are the values of the whole: cr_tensor_write in the format
 * of cr_tensor_whole_format says so. The whole must not be written while its parts are still read,
 * and writing a part that is read writes the whole. A change of either count or cr_tensor_detach
 * ends the alias. If the whole's memory is released, its parts lose the values that they hold
 * nowhere else. */
crema_status cr_tensor_alias_set(cr_tensor *tensor, cr_tensor *whole, const cr_part *part,
                                 bool read, bool *done) CREMA_MUST_USE;
void cr_tensor_detach(cr_tensor *tensor); /* a pinned alias stays */

/* Orders the whole as `format`, in which the whole or a part of it is held on `device`. A no-op if
 * the device has no such order. Also a no-op if the order is known, unless `tensor` is read and the
 * whole has no written values. Parts with gaps are written there only if some of them consist of
 * other parts. */
void cr_tensor_alias_order(cr_tensor *tensor, crema_device *device, cr_format format);

/* The format of the values in the whole; false: no planned alias, no order yet, or no place. */
bool cr_tensor_alias_format(const cr_tensor *tensor, cr_format *out);

/* The same for a tensor that is a whole with written parts. */
bool cr_tensor_whole_format(const cr_tensor *tensor, cr_format *out);

/* Whether the newest values of `whole` are stored where `tensor`'s alias points. Writing `tensor`
 * in the alias's format then changes no value and makes them its own. */
bool cr_tensor_alias_can_read(const cr_tensor *tensor, const cr_tensor *whole);

/* Moves the newest values into the whole, unless they are there. Errors: errors of a read. */
crema_status cr_tensor_alias_move(cr_tensor *tensor, crema_context *context) CREMA_MUST_USE;

/* Releases memory that was made for more elements than there are now; the values are zero then.
 * Otherwise a no-op. */
void cr_tensor_shrink_to_fit(cr_tensor *tensor);

/* The device that has the newest values: the CPU when only the host has them or there are none. */
crema_device *cr_tensor_head_device(const cr_tensor *tensor);

/* A part of a tensor's values on the host, for filling a batch item by item (S0-23). It owns
 * nothing. Zero-initialise. */
typedef struct cr_tensor_view {
  const void *values;  /* which identify the tensor */
  uint64_t generation; /* of its memory when the view was made */
  void *data;
  int64_t count;
} cr_tensor_view;

/* A view of `count` elements from element `offset` on, in plain format. Only the host may have the
 * newest values (after cr_tensor_host_write or _update), because writing through the view marks
 * nothing. Errors: CREMA_E_STATE, CREMA_E_RANGE. */
crema_status cr_tensor_view_make(cr_tensor *tensor, int64_t offset, int64_t count,
                                 cr_tensor_view *out) CREMA_MUST_USE;

/* The view's memory, if `tensor`, which the view was made of, still uses it and it has the newest
 * values. Errors: CREMA_E_STATE: the tensor was resized, shared, adopted other memory, or was used
 * on a device since. */
crema_status cr_tensor_view_data(const cr_tensor_view *view, const cr_tensor *tensor,
                                 void **out) CREMA_MUST_USE;

/* Called by memory/view.c: */

typedef struct crema_view crema_view;
typedef struct cr_tensor_values cr_tensor_values;

/* The view of the tensor's values; NULL: there is none. Set once. The values hold it until they are
 * destroyed or resized beyond it. */
crema_view *cr_tensor_shown(const cr_tensor *tensor);
void cr_tensor_set_shown(cr_tensor *tensor, crema_view *view);

/* Whether the plain format is pinned in another tensor's memory (cr_tensor_alias_block). */
bool cr_tensor_is_part(const cr_tensor *tensor);

/* If that is host memory: the memory, and the values that keep it, to be released with
 * cr_tensor_values_release. */
bool cr_tensor_part_memory(const cr_tensor *tensor, float **memory, cr_tensor_values **keeps);
void cr_tensor_values_release(cr_tensor_values *keeps);

/* Copies all values of `src` (same count). It keeps the head format, or converts if the element
 * types differ. */
crema_status cr_tensor_copy(cr_tensor *dst, cr_tensor *src, crema_context *context) CREMA_MUST_USE;

/* One format that a tensor holds. */
typedef struct cr_tensor_held {
  cr_format format;
  bool valid, last;     /* has the newest values; was written last */
  crema_head side;      /* where they are */
  bool adopted;         /* some of the memory is the caller's */
  crema_device *device; /* for which the format was made */
} cr_tensor_held;

/* Describes format number `index`; false if there is no such format. */
bool cr_tensor_held_at(const cr_tensor *tensor, int index, cr_tensor_held *out);

/* Bytes that all formats of the tensor take now, per side; a part of another tensor's memory
 * counts, the caller's does not. */
typedef struct cr_tensor_memory {
  size_t host, device;
} cr_tensor_memory;
cr_tensor_memory cr_tensor_memory_of(const cr_tensor *tensor);

#endif
