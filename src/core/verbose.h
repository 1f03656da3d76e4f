/* CREMA_VERBOSE: lines that show what runs (docs/troubleshooting.md, "See what runs").
 *
 * The environment is read once. All lines go to the log as messages of level INFO, begin with
 * "crema_verbose,<kind>," and consist of fields with commas between them. */
#ifndef CR_CORE_VERBOSE_H
#define CR_CORE_VERBOSE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "crema/status.h"

/* What each value of CREMA_VERBOSE adds: runs of ops and conversions; kernels that decline, copies
 * between host and device, transitions of the memory automaton. */
enum { CR_VERBOSE_RUNS = 1, CR_VERBOSE_REASONS = 2 };

/* The value of CREMA_VERBOSE; above all values until it is read. */
extern atomic_int cr_verbose_level;

/* Reads the environment if that has not happened. */
bool cr_verbose_reaches(int level);

/* Whether lines of `level` are enabled. Without CREMA_VERBOSE it costs one load and one branch. */
static inline bool cr_verbose(int level) {
  const int set = atomic_load_explicit(&cr_verbose_level, memory_order_relaxed);
  return __builtin_expect(set >= level, 0) && cr_verbose_reaches(level);
}

/* Logs "crema_verbose,<kind>,<text>". */
void cr_verbose_line(const char *kind, const char *fmt, ...) CREMA_PRINTF(2, 3);

/* `name` as a field: "-" for NULL and "", with ';' instead of each comma. A longer name is cut. */
typedef struct cr_verbose_field {
  char text[96];
} cr_verbose_field;
cr_verbose_field cr_verbose_name(const char *name);

/* An interned copy of a text, which lives as long as the process; NULL without memory. For the
 * names of values, which may outlive the net that names them. */
const char *cr_verbose_label(const char *fmt, ...) CREMA_PRINTF(1, 2);

#endif
