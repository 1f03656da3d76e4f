#include "core/verbose.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

enum { MOST_TEXT = 3500, MOST_LABEL = 512 };

atomic_int cr_verbose_level = INT_MAX;

typedef struct label label;
struct label {
  label *next;
  char text[];
};

static struct {
  pthread_mutex_t lock;
  label *first;
} labels = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool cr_verbose_reaches(int level) {
  int set = atomic_load_explicit(&cr_verbose_level, memory_order_relaxed);
  if (set < INT_MAX) return set >= level;
  const char *text = getenv("CREMA_VERBOSE");
  const bool good = text == NULL || text[0] == '\0' ||
                    (text[0] >= '0' && text[0] <= '0' + CR_VERBOSE_REASONS && text[1] == '\0');
  set = good && text != NULL && text[0] != '\0' ? text[0] - '0' : 0;
  const int before = atomic_exchange(&cr_verbose_level, set);
  if (!good && before == INT_MAX) {
    cr_log_warning("CREMA_VERBOSE=%.40s: expected 0, 1 or 2; nothing is printed", text);
  }
  return set >= level;
}

void cr_verbose_line(const char *kind, const char *fmt, ...) {
  char text[MOST_TEXT];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  cr_log_info("crema_verbose,%s,%s", kind, text);
}

cr_verbose_field cr_verbose_name(const char *name) {
  cr_verbose_field field;
  snprintf(field.text, sizeof field.text, "%s", name == NULL || name[0] == '\0' ? "-" : name);
  for (char *at = field.text; *at != '\0'; ++at) {
    if (*at == ',') *at = ';';
  }
  return field;
}

const char *cr_verbose_label(const char *fmt, ...) {
  char text[MOST_LABEL];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  pthread_mutex_lock(&labels.lock);
  label *found = labels.first;
  while (found != NULL && strcmp(found->text, text) != 0) found = found->next;
  if (found == NULL) {
    const size_t size = strlen(text) + 1;
    found = malloc(sizeof *found + size);
    if (found != NULL) {
      found->next = labels.first;
      memcpy(found->text, text, size);
      labels.first = found;
    }
  }
  pthread_mutex_unlock(&labels.lock);
  return found == NULL ? NULL : found->text;
}
