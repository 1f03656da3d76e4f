/* Values that are read at their first use, such as weights in a file, and values that are converted
 * for each use.
 *
 * A tensor with a source reads the values at their first use, in the requested format, and keeps no
 * other copy.
 *
 * A format is made per use if it is not worth keeping. Parameters that are trained change after
 * each use, and a program that runs a net once has no second use. An op then gets the values in
 * scratch memory, which the next op takes over. */
#ifndef CR_MEMORY_TENSOR_SOURCE_H
#define CR_MEMORY_TENSOR_SOURCE_H

#include <stdatomic.h>

#include "memory/tensor.h"

/* Scratch memory: */

/* Memory that several tensors use one after the other. Only the part that the largest values need
 * is touched. Counted. */
typedef struct cr_tensor_scratch cr_tensor_scratch;
crema_status cr_tensor_scratch_create(cr_tensor_scratch **out) CREMA_MUST_USE;
cr_tensor_scratch *cr_tensor_scratch_retain(cr_tensor_scratch *scratch);
void cr_tensor_scratch_release(cr_tensor_scratch *scratch); /* accepts NULL */

/* Takes the memory, of at least `size` bytes. *held is NULL if another thread has it: no thread
 * waits for the op of another thread. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_tensor_scratch_try(cr_tensor_scratch *scratch, size_t size,
                                   cr_tensor_scratch **held, void **out) CREMA_MUST_USE;
void cr_tensor_end_use(cr_tensor_scratch *held); /* accepts NULL */

/* Sources: */

/* Larger values of a source are kept at their first use. Otherwise scratch memory of the size of
 * the largest would exist in addition to the kept values. */
#define CR_TENSOR_MOST_PER_USE ((size_t)16 << 20)

/* The first member of each kind of source. */
typedef struct cr_tensor_source {
  atomic_int references;
  /* Writes bytes `at` to at + size - 1 to `out`. Called by any thread, by several at once. */
  crema_status (*read)(struct cr_tensor_source *source, uint64_t at, void *out, size_t size);
  void (*destroy)(struct cr_tensor_source *source);
  cr_tensor_scratch *scratch; /* for values that are read to be converted */
  cr_tensor_scratch *per_use; /* for the first use of values; NULL: values are kept at once */
} cr_tensor_source;

/* Sets all members, `per_use` to NULL; there is one reference. Takes over the caller's reference to
 * `scratch`. */
void cr_tensor_source_init(cr_tensor_source *source,
                           crema_status (*read)(cr_tensor_source *, uint64_t, void *, size_t),
                           void (*destroy)(cr_tensor_source *), cr_tensor_scratch *scratch);
cr_tensor_source *cr_tensor_source_retain(cr_tensor_source *source);
/* Lets values be used once before they are kept; a reference to `scratch` is added. */
void cr_tensor_source_set_per_use(cr_tensor_source *source, cr_tensor_scratch *scratch);
/* With the last reference, `destroy` is called. Accepts NULL. */
void cr_tensor_source_release(cr_tensor_source *source);

/* Notes that values of `size` bytes will be read. */
void cr_tensor_source_expect(cr_tensor_source *source, size_t size);

/* The values at `at`, valid until cr_tensor_source_unlock, which must follow if it succeeds.
 * Errors: errors of `read`, CREMA_E_NO_MEMORY. */
crema_status cr_tensor_source_lock(cr_tensor_source *source, uint64_t at, size_t size,
                                   void **out) CREMA_MUST_USE;
void cr_tensor_source_unlock(cr_tensor_source *source);

/* The tensor takes the values of `source` from `at` on, as elements of the tensor's type in plain
 * format. They are read immediately if the tensor has memory for them, otherwise at their first
 * use. A failure of `read` is then the error of reading the tensor. No other thread may use the
 * values meanwhile. Errors: errors of `read`, CREMA_E_NO_MEMORY. */
crema_status cr_tensor_take_from(cr_tensor *tensor, cr_tensor_source *source,
                                 uint64_t at) CREMA_MUST_USE;

/* Writes the values, in plain format of the tensor's own type, to `out`. Values that are still in
 * the source are not kept in the tensor. Errors as of a read. */
crema_status cr_tensor_copy_out(cr_tensor *tensor, void *out) CREMA_MUST_USE;

/* Per-use formats: */

/* Ops on contexts that have scratch memory (crema_context.per_use) get the values in private
 * layouts per use. Sharing tensors do so together. */
void cr_tensor_set_per_use(cr_tensor *tensor);

/* As cr_tensor_read, for one use of the values on the CPU. If *held becomes scratch memory, the
 * values are there until cr_tensor_end_use, which the same thread must call. Otherwise *held
 * becomes NULL and the tensor keeps the format, as it does with `held` NULL. */
crema_status cr_tensor_read_for(cr_tensor *tensor, crema_context *context, cr_format format,
                                cr_tensor_scratch **held, crema_devptr *out) CREMA_MUST_USE;

/* As cr_tensor_write, for an op that writes all values. If *held becomes scratch memory, the op
 * writes there; cr_tensor_end_write then converts the values to the tensor's plain format, before
 * cr_tensor_end_use. */
crema_status cr_tensor_write_for(cr_tensor *tensor, crema_context *context, cr_format format,
                                 cr_tensor_scratch **held, crema_devptr *out) CREMA_MUST_USE;
crema_status cr_tensor_end_write(cr_tensor *tensor, crema_context *context, cr_format format,
                                 crema_devptr written) CREMA_MUST_USE;

#endif
