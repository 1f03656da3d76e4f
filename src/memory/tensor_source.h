/* Where the values of tensors come from that are not read before they are wanted: weights in a
 * file. They are then made in the format that is asked for, and no other copy of them stays.
 *
 * A program that runs a net once would ask the system for memory of all weights, which clears it:
 * that takes longer than reading a file that is in the page cache. So the first op that uses values
 * may have them in memory that the next op's take over (cr_tensor_read_for); from the second use on
 * they are kept. */
#ifndef CR_MEMORY_TENSOR_SOURCE_H
#define CR_MEMORY_TENSOR_SOURCE_H

#include <stdatomic.h>

#include "memory/tensor.h"

/* Memory for values that are only needed to make others of them. Sources that share it use it one
 * after the other, and no more of it is touched than the largest needs. */
typedef struct cr_tensor_spare cr_tensor_spare;
crema_status cr_tensor_spare_create(cr_tensor_spare **out) CREMA_MUST_USE;
cr_tensor_spare *cr_tensor_spare_retain(cr_tensor_spare *spare);
void cr_tensor_spare_release(cr_tensor_spare *spare);

/* The first member of whatever is a source. */
typedef struct cr_tensor_source {
  atomic_int references;
  /* Writes bytes `at` to at + size - 1 to `out`. Called by any thread, by several at once. */
  crema_status (*read)(struct cr_tensor_source *source, uint64_t at, void *out, size_t size);
  void (*destroy)(struct cr_tensor_source *source);
  cr_tensor_spare *spare;
  cr_tensor_spare *once; /* for values that are used for the first time; NULL: these are kept */
} cr_tensor_source;

/* Sets all members, `once` to NULL; there is one reference. Takes over the caller's reference to
 * `spare`. */
void cr_tensor_source_init(cr_tensor_source *source,
                           crema_status (*read)(cr_tensor_source *, uint64_t, void *, size_t),
                           void (*destroy)(cr_tensor_source *), cr_tensor_spare *spare);
cr_tensor_source *cr_tensor_source_retain(cr_tensor_source *source);
/* Lets values be used once before they are kept; a reference to `once` is added. */
void cr_tensor_source_set_once(cr_tensor_source *source, cr_tensor_spare *once);
/* With the last reference, `destroy` is called. Accepts NULL. */
void cr_tensor_source_release(cr_tensor_source *source);

/* The values at `at`, valid until cr_tensor_source_unlock, which must follow if it succeeds.
 * Errors: those of `read`, CREMA_E_NO_MEMORY. */
crema_status cr_tensor_source_lock(cr_tensor_source *source, uint64_t at, size_t size,
                                   void **out) CREMA_MUST_USE;
void cr_tensor_source_unlock(cr_tensor_source *source);

/* The tensor's values are from now on those that `source` has from `at` on, as elements of the
 * tensor's type in plain format. They are read at once where the tensor has memory for them, and
 * otherwise when they are first wanted: reading the tensor then fails with what `read` fails with.
 * No other thread may use the values meanwhile. Errors: those of `read`, CREMA_E_NO_MEMORY. */
crema_status cr_tensor_take_from(cr_tensor *tensor, cr_tensor_source *source,
                                 uint64_t at) CREMA_MUST_USE;

/* As cr_tensor_read, for one use of the values on the CPU. Where they are used for the first time,
 * *held may become the memory that they are in, and nothing is kept in the tensor; they are valid
 * until cr_tensor_give_back, which the same thread must call. Otherwise *held becomes NULL. With
 * `held` NULL they are kept. */
crema_status cr_tensor_read_for(cr_tensor *tensor, crema_context *context, cr_format format,
                                cr_tensor_spare **held, crema_devptr *out) CREMA_MUST_USE;
void cr_tensor_give_back(cr_tensor_spare *held); /* accepts NULL */

/* Writes the values, in plain format of the tensor's own type, to `out`. Of values that are still
 * to be read none are kept in the tensor. Errors as of a read. */
crema_status cr_tensor_copy_out(cr_tensor *tensor, void *out) CREMA_MUST_USE;

#endif
