/* The kinds of foreign files that users give by mistake. */
#ifndef CR_CORE_FILE_KIND_H
#define CR_CORE_FILE_KIND_H

#include <stddef.h>
#include <stdint.h>

/* Enough bytes at the start of a file for cr_file_kind. */
enum { CR_FILE_KIND_BYTES = 512 };

/* The kind of a file that begins with `bytes`, with advice: "a Git LFS pointer (...)". NULL: none
 * of the known foreign kinds. */
const char *cr_file_kind(const uint8_t *bytes, size_t size);

/* The same of the file at `path`. NULL also if it cannot be read. */
const char *cr_file_kind_at(const char *path);

#endif
