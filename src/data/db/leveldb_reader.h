/* LevelDB databases for reading.
 *
 * LevelDB maps its tables: truncating one ends the process with SIGBUS. Only the C++ interface
 * allows another way to read files; leveldb_reader.cc, the library's only C++ file, uses it without
 * exceptions and run-time types. */
#ifndef CR_DATA_LEVELDB_READER_H
#define CR_DATA_LEVELDB_READER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cr_leveldb_reader cr_leveldb_reader;
typedef struct cr_leveldb_cursor cr_leveldb_cursor;

/* Opens the database in a folder, to which LevelDB writes. On failure returns NULL and sets *error,
 * which the caller frees. */
cr_leveldb_reader *cr_leveldb_reader_open(const char *path, char **error);

/* After its cursors. Accepts NULL. */
void cr_leveldb_reader_close(cr_leveldb_reader *reader);

/* A cursor on no record. */
cr_leveldb_cursor *cr_leveldb_cursor_open(cr_leveldb_reader *reader);
void cr_leveldb_cursor_close(cr_leveldb_cursor *cursor);

/* Moves to the first record, the next, or the first whose key is not below `key`. */
void cr_leveldb_cursor_first(cr_leveldb_cursor *cursor);
void cr_leveldb_cursor_next(cr_leveldb_cursor *cursor);
void cr_leveldb_cursor_seek(cr_leveldb_cursor *cursor, const void *key, size_t size);

/* Whether the cursor is on a record, whose key and value it owns until it moves. If not, *error is
 * the reason, which the caller frees, or NULL at the end. */
bool cr_leveldb_cursor_valid(const cr_leveldb_cursor *cursor, char **error);
const void *cr_leveldb_cursor_key(const cr_leveldb_cursor *cursor, size_t *size);
const void *cr_leveldb_cursor_value(const cr_leveldb_cursor *cursor, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
