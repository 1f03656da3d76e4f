/* `crema time -ops`: what each kernel takes. */
#ifndef CREMA_TOOLS_OP_TABLE_H
#define CREMA_TOOLS_OP_TABLE_H

#include "device/watch.h"

/* Runs of one kernel of one op, or of one conversion. */
typedef struct cli_op_row {
  const char *op;
  char kernel[136];
  int64_t calls, conversions, launches;
  double seconds, queue; /* of the kernels, and until the host had queued them */
} cli_op_row;

typedef struct cli_op_table {
  cr_watcher watcher;
  const cr_watcher *before; /* the context's own, which gets each run, too */
  cli_op_row *row;
  size_t rows;
  double prepare; /* seconds in which ops got their arguments, conversions not counted */
  bool launches;  /* the device has its own memory: with columns for launches and queueing */
  bool lost;      /* there was no memory for a row */
} cli_op_table;

/* Watches `context` from here to cli_op_table_end. Zero-initialise. */
void cli_op_table_begin(cli_op_table *table, crema_context *context);

/* Logs the table, the rows with the most time first, and frees it. */
void cli_op_table_end(cli_op_table *table, crema_context *context);

#endif
