/* Texts that must be refused. */
#ifndef CR_TESTS_REFUSED_TEXT_H
#define CR_TESTS_REFUSED_TEXT_H

#include "check.h"

typedef struct refused_text {
  const char *text;
  crema_status status;
  const char *words; /* in the error text */
} refused_text;

/* `status` came of the text. */
static inline void assert_refused(const refused_text *c, crema_status status) {
  if (status == c->status && strstr(crema_error_text(), c->words) != NULL) return;
  fail_msg("%s: %s: \"%s\", not %s: \"%s\"", c->text, crema_status_name(status), crema_error_text(),
           crema_status_name(c->status), c->words);
}

#endif
