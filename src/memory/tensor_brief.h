/* Parameters that are trained change after each use, and so would every format in which they are
 * held beside the plain one that the solver updates. Their values are in such a format only as long
 * as an op runs, in memory that the next op takes over. */
#ifndef CR_MEMORY_TENSOR_BRIEF_H
#define CR_MEMORY_TENSOR_BRIEF_H

#include "memory/tensor_source.h"

/* From now on ops on contexts that have memory for it (crema_context.brief) use the values in
 * private layouts briefly. Sharing tensors do so together. */
void cr_tensor_set_brief(cr_tensor *tensor);

/* As cr_tensor_write, for an op that writes all values. *held may become the memory that they are
 * written to; cr_tensor_end_write then brings them to the tensor, in plain format, before
 * cr_tensor_give_back. Otherwise *held becomes NULL. */
crema_status cr_tensor_write_for(cr_tensor *tensor, crema_context *context, cr_format format,
                                 cr_tensor_spare **held, crema_devptr *out) CREMA_MUST_USE;
crema_status cr_tensor_end_write(cr_tensor *tensor, crema_context *context, cr_format format,
                                 crema_devptr written) CREMA_MUST_USE;

#endif
