/* What tensors tell a list of commands that records. Without one, all are no-ops. */
#ifndef CR_MEMORY_COMMANDS_PRIVATE_H
#define CR_MEMORY_COMMANDS_PRIVATE_H

#include "memory/commands.h"
#include "memory/tensor_private.h"

/* `format` was made of zeros, or of values that were read from elsewhere. */
void cr_commands_note_made(const crema_context *context, const values *v, cr_format format);

/* The values are about to be written, whether by an op or by others. */
void cr_commands_note_written(const crema_context *context, const values *v);

/* A conversion of the values. */
void cr_commands_add_conversion(const crema_context *context, const values *v, cr_format to,
                                crema_devptr dst, cr_format from, crema_devptr src);

#endif
