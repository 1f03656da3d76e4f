/* cmocka with what it needs, and checks of the library's calls. */
#ifndef CR_TESTS_CHECK_H
#define CR_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four headers above. */
#include <cmocka.h>
#include <string.h>

#include "crema/status.h"

/* A test's head. `state` is what its set-up left there. */
#define TEST(name) static void name(__attribute__((unused)) void **state)

/* The call must succeed; else the library's error text is shown. */
#define ok(call) check_ok((call), #call, __FILE__, __LINE__)
/* The library's error text must contain `part`. */
#define assert_error_has(part) check_error_has((part), __FILE__, __LINE__)
/* The call must fail with this code and a text that contains `part`. */
#define assert_fails(call, code, part) \
  check_fails((call), (code), (part), #call, __FILE__, __LINE__)

static inline void check_ok(crema_status status, const char *call, const char *file, int line) {
  if (status == CREMA_OK) return;
  print_error("%s: %s: %s\n", call, crema_status_name(status), crema_error_text());
  _fail(file, line);
}

static inline void check_error_has(const char *part, const char *file, int line) {
  if (strstr(crema_error_text(), part) != NULL) return;
  print_error("\"%s\" is not in \"%s\"\n", part, crema_error_text());
  _fail(file, line);
}

static inline void check_fails(crema_status status, crema_status code, const char *part,
                               const char *call, const char *file, int line) {
  if (status != code) {
    print_error("%s: %s instead of %s\n", call, crema_status_name(status), crema_status_name(code));
    _fail(file, line);
  }
  check_error_has(part, file, line);
}

#endif
