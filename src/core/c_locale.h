/* The C locale for the calling thread, so that "0.5" is a number wherever the program runs. */
#ifndef CR_CORE_C_LOCALE_H
#define CR_CORE_C_LOCALE_H

#include "crema/status.h"

typedef struct cr_c_locale {
  void *made;
  void *before;
} cr_c_locale;

/* From here to cr_c_locale_end. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_c_locale_begin(cr_c_locale *locale) CREMA_MUST_USE;
void cr_c_locale_end(cr_c_locale *locale);

#endif
