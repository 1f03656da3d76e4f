#include "op_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

/* The row of the event, made if it is not there; NULL without memory. */
static cli_op_row *find_row(cli_op_table *table, const cr_watch_event *event) {
  char kernel[sizeof table->row->kernel];
  snprintf(kernel, sizeof kernel, "%s", event->kernel);
  if (event->desc == NULL) {
    const cr_watch_format from = cr_watch_format_text(event->format[0]);
    const cr_watch_format to = cr_watch_format_text(event->format[1]);
    snprintf(kernel, sizeof kernel, "%s>%s", from.text, to.text);
  }
  for (size_t i = 0; i < table->rows; ++i) {
    cli_op_row *row = &table->row[i];
    if (row->op == event->op && strcmp(row->kernel, kernel) == 0) return row;
  }
  cli_op_row *more = realloc(table->row, (table->rows + 1) * sizeof *more);
  if (more == NULL) return NULL;
  table->row = more;
  cli_op_row *row = &more[table->rows++];
  *row = (cli_op_row){.op = event->op};
  memcpy(row->kernel, kernel, sizeof row->kernel);
  return row;
}

static void add_run(void *user, const cr_watch_event *event) {
  cli_op_table *table = user;
  if (table->before != NULL) table->before->ran(table->before->user, event);
  cli_op_row *row = find_row(table, event);
  if (row == NULL) {
    table->lost = true;
    return;
  }
  row->calls += 1;
  row->conversions += event->conversions;
  row->launches += event->launches;
  row->seconds += event->run;
  row->queue += event->queue;
  table->prepare += event->desc == NULL ? -event->run : event->prepare;
}

void cli_op_table_begin(cli_op_table *table, crema_context *context) {
  table->before = context->watch.watcher;
  table->watcher = (cr_watcher){.ran = add_run, .user = table};
  table->launches = crema_device_get_type(crema_context_device(context)) != CREMA_DEVICE_CPU;
  context->watch.watcher = &table->watcher;
}

static int by_time(const void *a, const void *b) {
  const cli_op_row *first = a, *second = b;
  if (first->seconds != second->seconds) return first->seconds < second->seconds ? 1 : -1;
  return strcmp(first->kernel, second->kernel);
}

void cli_op_table_end(cli_op_table *table, crema_context *context) {
  double all = 0;
  int op_width = 10, kernel_width = 10;
  context->watch.watcher = table->before;
  qsort(table->row, table->rows, sizeof *table->row, by_time);
  for (size_t i = 0; i < table->rows; ++i) {
    const cli_op_row *row = &table->row[i];
    all += row->seconds;
    if ((int)strlen(row->op) > op_width) op_width = (int)strlen(row->op);
    if ((int)strlen(row->kernel) > kernel_width) kernel_width = (int)strlen(row->kernel);
  }
  cr_log_info("Ops by time:");
  cr_log_info("  %-*s  %-*s  %7s  %10s  %6s  %10s  %11s%s", op_width, "op", kernel_width, "kernel",
              "calls", "total ms", "share", "mean us", "conversions",
              table->launches ? "  launches  queue us" : "");
  for (size_t i = 0; i < table->rows; ++i) {
    const cli_op_row *row = &table->row[i];
    const double calls = (double)row->calls;
    char device[64] = "";
    if (table->launches) {
      snprintf(device, sizeof device, "  %8lld  %8.1f", (long long)row->launches,
               row->queue * 1e6 / calls);
    }
    cr_log_info("  %-*s  %-*s  %7lld  %10.3f  %5.1f%%  %10.1f  %11lld%s", op_width, row->op,
                kernel_width, row->kernel, (long long)row->calls, row->seconds * 1e3,
                all > 0 ? 100 * row->seconds / all : 0, row->seconds * 1e6 / calls,
                (long long)row->conversions, device);
  }
  cr_log_info("All ops: %.3f ms, and %.3f ms for the memory of their arguments", all * 1e3,
              table->prepare > 0 ? table->prepare * 1e3 : 0);
  if (table->lost) cr_log_warning("there was no memory for some rows");
  free(table->row);
  *table = (cli_op_table){.row = NULL};
}
