/* A timeline of the process's work, in Chrome's trace event format, which Perfetto opens.
 *
 * Spans lie on tracks: one for each thread of the host and one for each stream of a device. Times
 * are seconds of cr_clock_seconds. Nothing is recorded until cr_timeline_begin, and until then each
 * call site costs one load and one branch:
 *
 *   const double begin = cr_timeline() ? cr_clock_seconds() : 0;
 *   ... work ...
 *   if (begin > 0) cr_timeline_span(0, "copy", "to device", begin, "\"bytes\":%zu", size); */
#ifndef CR_CORE_TIMELINE_H
#define CR_CORE_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"
#include "crema/status.h"

extern atomic_bool cr_timeline_records;

/* Whether a timeline is recorded. */
static inline bool cr_timeline(void) {
  return __builtin_expect(atomic_load_explicit(&cr_timeline_records, memory_order_relaxed), 0);
}

/* The time if a timeline is recorded, else 0. */
static inline double cr_timeline_now(void) {
  return cr_timeline() ? cr_clock_seconds() : 0;
}

/* Begins to record to the file `path`. `rank` distinguishes the processes of one training.
 * Errors: CREMA_E_STATE if one is recorded, CREMA_E_IO. */
crema_status cr_timeline_begin(const char *path, int rank) CREMA_MUST_USE;

/* Ends the recording and completes the file. A no-op without one. Errors: CREMA_E_IO, also of
 * earlier writes. */
crema_status cr_timeline_end(void) CREMA_MUST_USE;

/* A span from `begin` to `end`. `track` is 0 for the calling thread or the id of a context.
 * `details` are members of a JSON object without braces; "" for none. Texts in it go through
 * cr_timeline_text. */
void cr_timeline_span_until(uint64_t track, const char *category, const char *name, double begin,
                            double end, const char *details, ...) CREMA_PRINTF(6, 7);

/* The same up to now. */
#define cr_timeline_span(track, category, name, begin, ...) \
  cr_timeline_span_until(track, category, name, begin, cr_clock_seconds(), __VA_ARGS__)

/* Something that happens at once. */
void cr_timeline_instant(const char *category, const char *name, const char *details, ...)
    CREMA_PRINTF(3, 4);

/* The new value of a quantity. */
void cr_timeline_count(const char *name, int64_t value);

/* Names the track of the calling thread, or of the context with this id. */
void cr_timeline_name_thread(const char *name);
void cr_timeline_name_stream(uint64_t track, const char *device, int index);

/* A text as the content of a JSON string; a longer one is cut. */
typedef struct cr_timeline_string {
  char text[160];
} cr_timeline_string;
cr_timeline_string cr_timeline_text(const char *text);

#endif
