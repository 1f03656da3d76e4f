/* What the tests of the data room share: a temporary folder, databases and images in it. */
#ifndef CR_TESTS_DATA_FIXTURE_H
#define CR_TESTS_DATA_FIXTURE_H

#include "core/buffer.h"
#include "data/db/datum.h"
#include "data/image/image.h"
#include "data/pipeline/datum_source.h"

/* A new empty folder; its path is kept in `path`. Removed, with all in it, by fixture_remove. */
typedef struct fixture {
  char path[256];
} fixture;

void fixture_make(fixture *f);
void fixture_remove(fixture *f);

/* A test with such a folder for its own, `const fixture *f = *state`. */
#define FIXTURE_TEST(name) TEST_BETWEEN(name, fixture_setup, fixture_teardown)
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* "<folder>/<name>", in one of a few static buffers. */
const char *fixture_path(const fixture *f, const char *name);

/* Writes record number `index` of a database into `value`. */
typedef void (*fixture_record)(int index, cr_buffer *value);

/* Makes the LMDB `name` with `count` records, keys %08d. Returns its path. */
const char *fixture_db(const fixture *f, const char *name, int count, fixture_record record);

/* The same with another back end. */
const char *fixture_db_of(const fixture *f, const char *backend, const char *name, int count,
                          fixture_record record);

/* Writes a file into the folder. */
void fixture_text(const fixture *f, const char *name, const char *text);
/* The same with an image, as a PNG. */
void fixture_write_png(const fixture *f, const char *name, const cr_image *image);

/* Appends a record that holds the image as a PNG file of which the last `cut` bytes are missing and
 * one byte is changed, `spoil` before the end (0: none). */
void fixture_encoded(const cr_image *image, int label, size_t cut, size_t spoil, cr_buffer *value);

/* Records for fixture_db. */
/* Raw, 1 x 4 x 5 pixels that all equal the index (mod 251), label = index. */
void fixture_gray(int index, cr_buffer *value);
/* Raw, 3 x 6 x 7, pixel (c, y, x) = c * 80 + y * 10 + x + index, label = index. */
void fixture_color(int index, cr_buffer *value);
/* The same pixels as a PNG file. */
void fixture_png(int index, cr_buffer *value);
/* As fixture_png, but records 3 and 4 are damaged. */
void fixture_png_damaged(int index, cr_buffer *value);
/* As fixture_png, but records 1, 4, 8, 9, 10 and 12 are damaged. */
void fixture_damaged_mixed(int index, cr_buffer *value);
/* As fixture_gray, but every third record is one row higher. */
void fixture_mixed(int index, cr_buffer *value);

/* All consumers of a reader enter, or none does; all leave. */
crema_status fixture_reader_start(cr_reader *reader);
void fixture_reader_stop(cr_reader *reader);
/* All go on after record number index - 1, which has this key. */
crema_status fixture_reader_seek(cr_reader *reader, const char *key, uint64_t index);
/* A record is given back. */
crema_status fixture_give_back(cr_reader *reader, int consumer, cr_record *record);

/* A pipeline of Datum records. `depth` batches; 0: automatic. Both out-parameters are NULL after a
 * failure. */
crema_status fixture_pipeline(const cr_datum_source_options *options, int depth,
                              cr_datum_source **source, cr_pipeline **pipeline);
/* For its only consumer. */
crema_status fixture_take(cr_pipeline *pipeline, cr_batch **out);
crema_status fixture_return(cr_pipeline *pipeline, cr_batch *batch);

/* An image with a smooth pattern. */
void fixture_image(cr_image *image, int height, int width, int channels);

/* How often to start and stop things: the environment's CREMA_TEST_CYCLES, else `usual`. */
int fixture_cycles(int usual);

#endif
