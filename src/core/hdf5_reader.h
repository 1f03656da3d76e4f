/* HDF5 files for reading.
 *
 * The HDF5 library crashes or loops on some files whose metadata are damaged, and may overwrite
 * other memory. It therefore reads them in a child process (core/child.h), which sends the content.
 * A file that the child cannot finish counts as damaged. Where no child can be made (limits, a
 * sandbox), or the environment's CREMA_HDF5_FORK is 0, the library reads in this process. */
#ifndef CR_CORE_HDF5_READER_H
#define CR_CORE_HDF5_READER_H

#include <stdint.h>

#include "core/buffer.h"
#include "crema/types.h"

typedef struct cr_hdf5_reader cr_hdf5_reader;

typedef enum cr_hdf5_kind {
  CR_HDF5_NOTHING, /* no object has that name */
  CR_HDF5_GROUP,
  CR_HDF5_SET,
  CR_HDF5_OTHER /* or it cannot be opened */
} cr_hdf5_kind;

typedef enum cr_hdf5_class {
  CR_HDF5_NO_NUMBER,
  CR_HDF5_INTEGER,
  CR_HDF5_FLOAT,
  CR_HDF5_STRING /* of fixed length */
} cr_hdf5_class;

/* The type in memory to convert values to. Strings stay as they are in the file. */
typedef enum cr_hdf5_type {
  CR_HDF5_F32,
  CR_HDF5_F64,
  CR_HDF5_I32,
  CR_HDF5_U8,
  CR_HDF5_TEXT
} cr_hdf5_type;

enum {
  /* Limit on the objects of a group and on the bytes of their names that are looked at. */
  CR_HDF5_MOST_LINKS = 1 << 16,
  CR_HDF5_MOST_NAMES = 1 << 24
};

typedef struct cr_hdf5_info {
  cr_hdf5_kind kind;
  uint64_t links; /* of a group: its objects */
  /* The rest is about a data set. */
  cr_hdf5_class class;
  crema_shape shape; /* shape.axes is -1 when it cannot be read */
  uint64_t count;    /* values */
  uint64_t size;     /* bytes of each in the file */
  uint64_t unit;     /* values that are unpacked together */
  uint64_t stored;   /* bytes that it takes in the file */
} cr_hdf5_info;

/* Opens a file. Close with cr_hdf5_reader_close, in the same thread. Errors name the path:
 * CREMA_E_NOT_FOUND, CREMA_E_CORRUPT, CREMA_E_IO (a folder, a pipe), CREMA_E_UNSUPPORTED,
 * CREMA_E_NO_MEMORY. */
crema_status cr_hdf5_reader_open(const char *path, cr_hdf5_reader **out) CREMA_MUST_USE;

/* Accepts NULL. */
void cr_hdf5_reader_close(cr_hdf5_reader *reader);

/* The errors of the following functions do not name the file. Each may find it damaged
 * (CREMA_E_CORRUPT), after which the reader does nothing more. */

/* Describes the object at `path`, names with slashes between them. */
crema_status cr_hdf5_look(cr_hdf5_reader *reader, const char *path,
                          cr_hdf5_info *out) CREMA_MUST_USE;

/* Appends to `out` the objects in the group: "g<name>\0" for a group, "d<name>\0" for anything
 * else; CR_HDF5_MOST_LINKS at most. */
crema_status cr_hdf5_list(cr_hdf5_reader *reader, const char *path, cr_buffer *out) CREMA_MUST_USE;

/* All values of a data set, which are `bytes` bytes. */
crema_status cr_hdf5_read(cr_hdf5_reader *reader, const char *path, cr_hdf5_type type, void *out,
                          uint64_t bytes) CREMA_MUST_USE;

/* The shape of a data set. Errors: CREMA_E_CORRUPT, CREMA_E_SHAPE. */
crema_status cr_hdf5_shape(const cr_hdf5_info *set, crema_shape *out) CREMA_MUST_USE;

/* Checks that the data set can be as large as it claims: a few bytes of a file may announce any
 * amount of memory. Call it before memory is allocated for the values. Allowed are 64 MiB, or the
 * most that its bytes in the file can be unpacked to, or CREMA_MAX_FILE (cr_file_limit). Errors:
 * CREMA_E_RANGE. */
crema_status cr_hdf5_check_claim(const cr_hdf5_info *set) CREMA_MUST_USE;

#endif
