/* The file is a list of events, one per line. It is valid without its end: a viewer accepts a list
 * that a crash has cut. Times are printed from integers, because the decimal point depends on the
 * locale. */
#define _GNU_SOURCE
#include "core/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/io.h"
#include "core/system.h"
#include "core/utf8.h"

enum { MOST_EVENT = 1024, MOST_DETAILS = 700, WRITE_FROM = 1 << 18 };

/* Numbers of streams lie above numbers of threads, which the system limits to 2^22. */
enum { FIRST_STREAM = 1 << 23 };

atomic_bool cr_timeline_records;

static struct {
  pthread_mutex_t lock; /* guards all members */
  int file;
  int rank;
  char *path;
  cr_buffer text;      /* not written yet */
  crema_status status; /* the first failure */
  int error;           /* errno of it */
} timeline = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = -1};

/* With the lock held. */
static void write_out(void) {
  if (timeline.status == CREMA_OK &&
      !cr_io_write(timeline.file, timeline.text.data, timeline.text.size)) {
    timeline.status = CREMA_E_IO;
    timeline.error = errno;
  }
  cr_buffer_clear(&timeline.text);
}

static void append(const char *event, int size) {
  if (size < 0 || size >= MOST_EVENT) return;
  pthread_mutex_lock(&timeline.lock);
  if (timeline.file >= 0 && timeline.status == CREMA_OK) {
    timeline.status = cr_buffer_append(&timeline.text, event, (size_t)size);
    if (timeline.text.size >= WRITE_FROM) write_out();
  }
  pthread_mutex_unlock(&timeline.lock);
}

static int64_t track_of(uint64_t track) {
  return track == 0 ? (int64_t)cr_system_thread() : FIRST_STREAM + (int64_t)track;
}

/* Nanoseconds. The format has microseconds with a fraction. */
static int64_t nanoseconds(double seconds) {
  return (int64_t)(seconds * 1e9);
}

static void print_details(char out[MOST_DETAILS], const char *details, va_list args) {
  out[0] = '\0';
  const int size = vsnprintf(out, MOST_DETAILS, details, args);
  if (size < 0 || size >= MOST_DETAILS) out[0] = '\0';
}

void cr_timeline_span_until(uint64_t track, const char *category, const char *name, double begin,
                            double end, const char *details, ...) {
  char event[MOST_EVENT], members[MOST_DETAILS];
  const int64_t start = nanoseconds(begin), took = nanoseconds(end) - start;
  va_list args;
  if (!cr_timeline()) return;
  va_start(args, details);
  print_details(members, details, args);
  va_end(args);
  const int size = snprintf(
      event, sizeof event,
      "{\"ph\":\"X\",\"pid\":%d,\"tid\":%" PRId64 ",\"cat\":\"%s\",\"name\":\"%s\",\"ts\":%" PRId64
      ".%03d,\"dur\":%" PRId64 ".%03d,\"args\":{%s}},\n",
      timeline.rank, track_of(track), category, cr_timeline_text(name).text, start / 1000,
      (int)(start % 1000), took / 1000, (int)(took % 1000), members);
  append(event, size);
}

void cr_timeline_instant(const char *category, const char *name, const char *details, ...) {
  char event[MOST_EVENT], members[MOST_DETAILS];
  const int64_t now = nanoseconds(cr_clock_seconds());
  va_list args;
  if (!cr_timeline()) return;
  va_start(args, details);
  print_details(members, details, args);
  va_end(args);
  const int size =
      snprintf(event, sizeof event,
               "{\"ph\":\"i\",\"s\":\"t\",\"pid\":%d,\"tid\":%" PRId64
               ",\"cat\":\"%s\",\"name\":\"%s\",\"ts\":%" PRId64 ".%03d,\"args\":{%s}},\n",
               timeline.rank, track_of(0), category, cr_timeline_text(name).text, now / 1000,
               (int)(now % 1000), members);
  append(event, size);
}

void cr_timeline_count(const char *name, int64_t value) {
  char event[MOST_EVENT];
  if (!cr_timeline()) return;
  const int64_t now = nanoseconds(cr_clock_seconds());
  append(event, snprintf(event, sizeof event,
                         "{\"ph\":\"C\",\"pid\":%d,\"name\":\"%s\",\"ts\":%" PRId64
                         ".%03d,\"args\":{\"value\":%" PRId64 "}},\n",
                         timeline.rank, cr_timeline_text(name).text, now / 1000, (int)(now % 1000),
                         value));
}

static void name_track(int64_t track, const char *name) {
  char event[MOST_EVENT];
  append(event, snprintf(event, sizeof event,
                         "{\"ph\":\"M\",\"pid\":%d,\"tid\":%" PRId64
                         ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}},\n",
                         timeline.rank, track, cr_timeline_text(name).text));
}

void cr_timeline_name_thread(const char *name) {
  if (cr_timeline()) name_track(track_of(0), name);
}

void cr_timeline_name_stream(uint64_t track, const char *device, int index) {
  char name[96];
  if (!cr_timeline()) return;
  snprintf(name, sizeof name, "%.48s:%d stream %" PRIu64, device, index, track);
  name_track(track_of(track), name);
}

cr_timeline_string cr_timeline_text(const char *text) {
  cr_timeline_string out;
  size_t used = 0;
  if (text == NULL) text = "";
  while (*text != '\0' && used + 8 < sizeof out.text) {
    const size_t size = cr_utf8_size(text);
    if (*text == '"' || *text == '\\') out.text[used++] = '\\';
    if (size == 0 || *text == '\t') {
      out.text[used++] = '?';
    } else {
      memcpy(out.text + used, text, size);
      used += size;
    }
    text += size > 0 ? size : 1;
  }
  out.text[used] = '\0';
  return out;
}

/* ---- the file --------------------------------------------------------------------- */

static crema_status open_file(const char *path, int rank) {
  timeline.path = strdup(path);
  if (timeline.path == NULL) return cr_fail_memory(strlen(path) + 1, "a path");
  timeline.file = cr_io_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (timeline.file < 0) return cr_fail_errno(errno, "%s: cannot create", path);
  timeline.rank = rank;
  timeline.status = cr_buffer_print(&timeline.text,
                                    "[\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\","
                                    "\"args\":{\"name\":\"crema, rank %d\"}},\n",
                                    rank, rank);
  return timeline.status;
}

static void close_file(void) {
  if (timeline.file >= 0) (void)cr_io_close(timeline.file);
  cr_buffer_free(&timeline.text);
  free(timeline.path);
  timeline.path = NULL;
  timeline.file = -1;
}

crema_status cr_timeline_begin(const char *path, int rank) {
  pthread_mutex_lock(&timeline.lock);
  crema_status status = timeline.file >= 0
                            ? cr_fail(CREMA_E_STATE, "%s: a timeline is recorded", timeline.path)
                            : open_file(path, rank);
  if (status != CREMA_OK && status != CREMA_E_STATE) close_file();
  pthread_mutex_unlock(&timeline.lock);
  if (status != CREMA_OK) return status;
  atomic_store(&cr_timeline_records, true);
  cr_timeline_name_thread("main");
  return CREMA_OK;
}

crema_status cr_timeline_end(void) {
  atomic_store(&cr_timeline_records, false);
  pthread_mutex_lock(&timeline.lock);
  crema_status status = CREMA_OK;
  if (timeline.file >= 0) {
    if (timeline.status == CREMA_OK) timeline.status = cr_buffer_append(&timeline.text, "{}]\n", 4);
    write_out();
    status = timeline.status;
    if (status == CREMA_E_IO) {
      status = cr_fail_errno(timeline.error, "%s: cannot write", timeline.path);
    }
    close_file();
  }
  pthread_mutex_unlock(&timeline.lock);
  return status;
}
