/* LevelDB databases for reading.
 *
 * LevelDB maps its tables: one that is truncated while it is read ends the process with SIGBUS.
 * Only its C++ interface lets files be read in another way, so that interface is called from
 * leveldb_reader.cc, the only C++ file in the library. Exceptions and run-time types are not
 * used. */
#ifndef CR_DATA_LEVELDB_READER_H
#define CR_DATA_LEVELDB_READER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cr_leveldb_reader cr_leveldb_reader;
typedef struct cr_leveldb_cursor cr_leveldb_cursor;

/* Opens the database in a folder, in which LevelDB then writes. Returns NULL and sets *error, which
 * is to be freed, when it cannot. */
cr_leveldb_reader *cr_leveldb_reader_open(const char *path, char **error);

/* After its cursors. Accepts NULL. */
void cr_leveldb_reader_close(cr_leveldb_reader *reader);

/* A cursor on no record. */
cr_leveldb_cursor *cr_leveldb_cursor_open(cr_leveldb_reader *reader);
void cr_leveldb_cursor_close(cr_leveldb_cursor *cursor);

/* Moves to the first record, to the next one, or to the first one whose key is not below `key`. */
void cr_leveldb_cursor_first(cr_leveldb_cursor *cursor);
void cr_leveldb_cursor_next(cr_leveldb_cursor *cursor);
void cr_leveldb_cursor_seek(cr_leveldb_cursor *cursor, const void *key, size_t size);

/* Whether it stands on a record, whose key and value are the cursor's until it moves. When it does
 * not, *error, which is to be freed, tells why, or is NULL at the end. */
bool cr_leveldb_cursor_valid(const cr_leveldb_cursor *cursor, char **error);
const void *cr_leveldb_cursor_key(const cr_leveldb_cursor *cursor, size_t *size);
const void *cr_leveldb_cursor_value(const cr_leveldb_cursor *cursor, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
