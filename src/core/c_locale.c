#include "core/c_locale.h"

#include <locale.h>

#include "core/fail.h"

crema_status cr_c_locale_begin(cr_c_locale *locale) {
  locale_t made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (made == (locale_t)0) return cr_fail(CREMA_E_NO_MEMORY, "cannot make the C locale");
  locale->made = made;
  locale->before = uselocale(made);
  return CREMA_OK;
}

void cr_c_locale_end(cr_c_locale *locale) {
  uselocale((locale_t)locale->before);
  freelocale((locale_t)locale->made);
}
