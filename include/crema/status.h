/* Status codes and error texts.
 *
 * Every call that can fail returns a crema_status. The library keeps the text of each thread's most
 * recent failure, with file, line, layer, blob, expected and found values. Read it with
 * crema_error_text, and its parts with crema_error_layer and similar functions. The library never
 * exits, aborts or prints. */
#ifndef CREMA_STATUS_H
#define CREMA_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define CREMA_MUST_USE __attribute__((warn_unused_result))
#define CREMA_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define CREMA_MUST_USE
#define CREMA_PRINTF(fmt, args)
#endif

#if defined(CREMA_BUILDING) && (defined(__GNUC__) || defined(__clang__))
#define CREMA_API __attribute__((visibility("default")))
#else
#define CREMA_API
#endif

/* One line per code: name, value, message. The values are part of the ABI. */
#define CREMA_STATUS_MAP(X)                    \
  X(OK, 0, "success")                          \
  X(E_ARGUMENT, 1, "invalid argument")         \
  X(E_PARSE, 2, "syntax error")                \
  X(E_UNKNOWN_NAME, 3, "unknown name")         \
  X(E_NOT_FOUND, 4, "not found")               \
  X(E_EXISTS, 5, "already exists")             \
  X(E_SHAPE, 6, "shapes do not fit")           \
  X(E_TYPE, 7, "element types do not fit")     \
  X(E_RANGE, 8, "value out of range")          \
  X(E_CORRUPT, 9, "corrupt or truncated data") \
  X(E_IO, 10, "input/output error")            \
  X(E_NO_MEMORY, 11, "out of memory")          \
  X(E_NUMERIC, 12, "not a finite number")      \
  X(E_STATE, 13, "not allowed in this state")  \
  X(E_UNSUPPORTED, 14, "not supported")        \
  X(E_NO_DEVICE, 15, "no such device")         \
  X(E_DEVICE, 16, "device failure")            \
  X(E_CLOSED, 17, "closed")                    \
  X(E_INTERRUPTED, 18, "interrupted")          \
  X(E_INTERNAL, 19, "internal error")

typedef enum crema_status {
#define CREMA_STATUS_ENUM(name, value, text) CREMA_##name = value,
  CREMA_STATUS_MAP(CREMA_STATUS_ENUM)
#undef CREMA_STATUS_ENUM
} crema_status;

/* The code's name without the prefix, such as "E_SHAPE"; "?" for an unknown value. Static storage.
 */
CREMA_API const char *crema_status_name(crema_status status);

/* A short description of the code, such as "shapes do not fit". Static storage. */
CREMA_API const char *crema_status_message(crema_status status);

/* Reports a failure from one of your callbacks: sets the calling thread's error text to a copy of
 * `text` and returns `code`. CREMA_OK changes nothing. */
CREMA_API crema_status crema_error_set(crema_status code, const char *text) CREMA_MUST_USE;

/* The text of the calling thread's most recent failure, or "". Owned by the library and valid until
 * the thread's next call of the library. Even a successful call can replace it, because of a
 * failure that the library handled. */
CREMA_API const char *crema_error_text(void);

/* The place of that failure: the name of the layer, the name of the blob, and the file. The file is
 * the one that describes the layer or contains the error. A net built from memory has the name of
 * its source instead. "" if unknown or not applicable. Owned by the library and valid as long as
 * the error text. Names are truncated to 200 bytes. */
CREMA_API const char *crema_error_layer(void);
CREMA_API const char *crema_error_blob(void);
CREMA_API const char *crema_error_file(void);

/* The line in crema_error_file, starting at 1; 0 if unknown. */
CREMA_API size_t crema_error_line(void);

/* Frees `memory` that the library allocated, if the comment of the function that returned it names
 * crema_free. Accepts NULL. */
CREMA_API void crema_free(void *memory);

/* The library's version, such as "0.9.0". Static storage. */
CREMA_API const char *crema_version(void);

#ifdef __cplusplus
}
#endif
#endif
