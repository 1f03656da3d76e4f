/* The flags of training on several devices. */
#ifndef CREMA_TOOLS_EXCHANGE_FLAGS_H
#define CREMA_TOOLS_EXCHANGE_FLAGS_H

#include "crema/solver.h"

/* The values of the flags, as text. */
typedef struct cli_exchange_flags {
  const char *exchange, *batch_mode, *order;
} cli_exchange_flags;

#define CLI_EXCHANGE_DEFAULTS \
  { .exchange = "auto", .batch_mode = "per_device", .order = "fixed" }

#define CLI_EXCHANGE_HELP "how gradients are shared: auto, tree, reduce, nccl or mpi"
#define CLI_BATCH_MODE_HELP "batch_size of the net is per_device, or the total of all devices"
#define CLI_ORDER_HELP \
  "add gradients in fixed order, for the same bits in each run, or (tree) in order of arrival"

/* Sets the options. False, with the error printed, for a text that is not known. */
bool cli_read_exchange(const cli_exchange_flags *flags, crema_solver_options *out);

#endif
