/* The values of curves as a table. */
#ifndef CREMA_TOOLS_PLOT_TABLE_H
#define CREMA_TOOLS_PLOT_TABLE_H

#include "curves.h"

/* Writes a CSV file (RFC 4180) with the columns run, quantity, curve, iteration and value. Errors:
 * CREMA_E_IO. */
crema_status table_write(const plot_run *run, size_t runs, const char *path) CREMA_MUST_USE;

#endif
