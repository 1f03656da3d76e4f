/* The formats and values of a tensor as text, for finding faults. */
#ifndef CR_MEMORY_TENSOR_TEXT_H
#define CR_MEMORY_TENSOR_TEXT_H

#include "core/buffer.h"
#include "memory/tensor.h"

/* Appends lines of text; see crema_blob_text. The values are read on the host in the type that was
 * written last, so that nothing is converted. Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_tensor_print(cr_tensor *tensor, cr_buffer *out) CREMA_MUST_USE;

#endif
