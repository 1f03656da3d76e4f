/* Status codes and per-thread error text.
 *
 * Every fallible call of the library returns a crema_status. The text that goes
 * with the most recent failure of the calling thread (file, line, layer, blob,
 * expected and found) is read with crema_error_text(), parts of it with
 * crema_error_layer() and so on. The library never exits,
 * aborts or prints. */
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

/* One row per code: name, value, message. Values are part of the ABI. */
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

/* The code's name without prefix, such as "E_SHAPE"; "?" for a foreign value.
 * Static storage. */
CREMA_API const char *crema_status_name(crema_status status);

/* One short sentence on the code, such as "shapes do not fit". Static storage. */
CREMA_API const char *crema_status_message(crema_status status);

/* For functions of yours that the library calls, and that fail: makes `text` the calling thread's
 * error text and returns `code`; CREMA_OK changes nothing. */
CREMA_API crema_status crema_error_set(crema_status code, const char *text) CREMA_MUST_USE;

/* The text of the calling thread's most recent failure; "" when there was none. Owned by the
 * library and valid until the thread's next call of it: one that succeeds may have had failures
 * inside. */
CREMA_API const char *crema_error_text(void);

/* Where that failure happened, as far as it is known: the name of the layer, the name of the blob,
 * and the file, or what else the text came from, that describes the layer or that the error is in;
 * "" for what is not known or does not apply. Owned by the library and valid as long as the text.
 * Names of more than 200 bytes are cut off. */
CREMA_API const char *crema_error_layer(void);
CREMA_API const char *crema_error_blob(void);
CREMA_API const char *crema_error_file(void);

/* The line of crema_error_file(), from 1 on; 0 when it is not known. */
CREMA_API size_t crema_error_line(void);

/* Frees memory of which a function's comment says so. Accepts NULL. */
CREMA_API void crema_free(void *memory);

/* The library's version, such as "0.9.0". Static storage. */
CREMA_API const char *crema_version(void);

#ifdef __cplusplus
}
#endif
#endif
