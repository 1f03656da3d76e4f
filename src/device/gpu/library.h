/* Libraries that are looked for when they are needed, once a process. */
#ifndef CR_GPU_LIBRARY_H
#define CR_GPU_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/fail.h"

/* Opens the library file `name` in the first of the folders that has it. `folders` are separated by
 * colons; NULL: none. NULL if it is not found. Never closed. */
void *cr_library_open_in(const char *folders, const char *name);

/* The same in the folders of the environment variable `variable`, then in the loader's folders. A
 * program that runs with more rights than its caller ignores the variable. */
void *cr_library_open(const char *variable, const char *name);

/* Stores the address of a function at *function, a pointer to it. False: the library has none. */
bool cr_library_symbol(void *library, const char *name, void *function);

enum { CR_LIBRARY_TEXT = 256 };

/* What became of a library. */
typedef struct cr_library_answer {
  pthread_mutex_t lock;
  bool asked;
  bool quiet;                    /* a missing library is not logged: the caller can do without */
  char missing[CR_LIBRARY_TEXT]; /* the reason for its absence; empty: it exists */
} cr_library_answer;

/* Opens the library, or writes why that cannot be to `missing`. */
typedef void cr_library_opener(char *missing, size_t size);

/* Calls the opener the first time. Errors: CREMA_E_UNSUPPORTED with the reason, which is logged
 * once unless it is no news. */
crema_status cr_library_ask(cr_library_answer *answer, cr_library_opener *opener) CREMA_MUST_USE;

/* Marks a library that exists but does not work as missing. Returns CREMA_E_UNSUPPORTED with the
 * reason, which is logged once. printf-formatted. */
crema_status cr_library_refuse(cr_library_answer *answer, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))) CREMA_MUST_USE;

#endif
