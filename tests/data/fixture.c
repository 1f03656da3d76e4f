#define _XOPEN_SOURCE 700 /* nftw */

#include "fixture.h"
#include "check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/file.h"
#include "data/db/db.h"
#include "data/pipeline/reader_private.h"

void fixture_make(fixture *f) {
  const char *base = getenv("TMPDIR");
  snprintf(f->path, sizeof f->path, "%s/crema-test-XXXXXX", base != NULL ? base : "/tmp");
  assert_non_null(mkdtemp(f->path));
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at) {
  (void)info;
  (void)type;
  (void)at;
  return remove(path);
}

void fixture_remove(fixture *f) {
  nftw(f->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

int fixture_setup(void **state) {
  static fixture of_test;
  fixture_make(&of_test);
  *state = &of_test;
  return 0;
}

int fixture_teardown(void **state) {
  fixture_remove(*state);
  return 0;
}

const char *fixture_path(const fixture *f, const char *name) {
  static char text[8][512];
  static int next = 0;
  next = (next + 1) % 8;
  snprintf(text[next], sizeof text[next], "%s/%s", f->path, name);
  return text[next];
}

void fixture_text(const fixture *f, const char *name, const char *text) {
  ok(cr_file_write(fixture_path(f, name), text, strlen(text)));
}

void fixture_write_png(const fixture *f, const char *name, const cr_image *image) {
  cr_buffer file = {0};
  ok(cr_image_encode(image, "png", &file));
  ok(cr_file_write(fixture_path(f, name), file.data, file.size));
  cr_buffer_free(&file);
}

const char *fixture_db(const fixture *f, const char *name, int count, fixture_record record) {
  return fixture_db_of(f, "lmdb", name, count, record);
}

const char *fixture_db_of(const fixture *f, const char *backend, const char *name, int count,
                          fixture_record record) {
  const char *path = fixture_path(f, name);
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  cr_buffer value = {0};
  ok(cr_db_open(backend, path, CR_DB_NEW, &db));
  ok(cr_db_txn_begin(db, &txn));
  for (int i = 0; i < count; ++i) {
    char key[16];
    int length = snprintf(key, sizeof key, "%08d", i);
    cr_buffer_clear(&value);
    record(i, &value);
    ok(cr_db_put(txn, (cr_db_bytes){(const uint8_t *)key, (size_t)length},
                 (cr_db_bytes){(const uint8_t *)value.data, value.size}));
  }
  ok(cr_db_commit(txn));
  ok(cr_db_finish(db, CREMA_OK));
  cr_buffer_free(&value);
  return path;
}

static void put_raw(int channels, int height, int width, const uint8_t *pixels, int label,
                    cr_buffer *value) {
  const cr_datum datum = {.channels = channels,
                          .height = height,
                          .width = width,
                          .data = pixels,
                          .size = (size_t)(channels * height * width),
                          .label = label};
  ok(cr_datum_append(&datum, value));
}

void fixture_gray(int index, cr_buffer *value) {
  uint8_t pixels[20];
  memset(pixels, index % 251, sizeof pixels);
  put_raw(1, 4, 5, pixels, index, value);
}

void fixture_mixed(int index, cr_buffer *value) {
  uint8_t pixels[25];
  memset(pixels, index % 251, sizeof pixels);
  put_raw(1, index % 3 == 2 ? 5 : 4, 5, pixels, index, value);
}

static uint8_t color_pixel(int index, int c, int y, int x) {
  return (uint8_t)(c * 80 + y * 10 + x + index);
}

void fixture_color(int index, cr_buffer *value) {
  uint8_t pixels[3 * 6 * 7];
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 6; ++y) {
      for (int x = 0; x < 7; ++x) pixels[(c * 6 + y) * 7 + x] = color_pixel(index, c, y, x);
    }
  }
  put_raw(3, 6, 7, pixels, index, value);
}

void fixture_encoded(const cr_image *image, int label, size_t cut, size_t spoil, cr_buffer *value) {
  cr_buffer file = {0};
  ok(cr_image_encode(image, "png", &file));
  if (spoil > 0) file.data[file.size - spoil] ^= 0x55;
  const cr_datum datum = {.data = (const uint8_t *)file.data,
                          .size = cut < file.size ? file.size - cut : 0,
                          .label = label,
                          .encoded = true,
                          .has_encoded = true};
  ok(cr_datum_append(&datum, value));
  cr_buffer_free(&file);
}

static void put_png(int index, size_t cut, cr_buffer *value) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, 6, 7, 3));
  for (int i = 0; i < 6 * 7 * 3; ++i) {
    image.pixels[i] = color_pixel(index, i % 3, i / 21, i / 3 % 7);
  }
  fixture_encoded(&image, index, cut, 0, value);
  cr_image_free(&image);
}

void fixture_png(int index, cr_buffer *value) {
  put_png(index, 0, value);
}

void fixture_png_damaged(int index, cr_buffer *value) {
  put_png(index, index == 3 || index == 4 ? 40 : 0, value);
}

/* Damaged: the first record of most batches of any size. */
void fixture_damaged_mixed(int index, cr_buffer *value) {
  bool damaged = index == 1 || index == 4 || index == 8 || index == 9 || index == 10 || index == 12;
  put_png(index, damaged ? 40 : 0, value);
}

crema_status fixture_reader_start(cr_reader *reader) {
  for (int i = 0; i < reader->consumers; ++i) {
    crema_status status = cr_reader_enter(reader, i);
    if (status == CREMA_OK) continue;
    while (--i >= 0) cr_reader_leave(reader, i);
    return status;
  }
  return CREMA_OK;
}

void fixture_reader_stop(cr_reader *reader) {
  for (int i = 0; i < reader->consumers; ++i) cr_reader_leave(reader, i);
}

crema_status fixture_reader_seek(cr_reader *reader, const char *key, uint64_t index) {
  cr_reader_cursor cursor = {.index = index, .key = {(const uint8_t *)key, strlen(key)}};
  cr_reader_note_cursor(reader, &cursor);
  for (int i = 0; i < reader->consumers; ++i) CR_TRY(cr_reader_resume(reader, i, &cursor));
  return CREMA_OK;
}

crema_status fixture_give_back(cr_reader *reader, int consumer, cr_record *record) {
  void *const records[] = {record};
  return cr_reader_give_back(reader, consumer, records, 1);
}

crema_status fixture_pipeline(const cr_datum_source_options *options, int depth,
                              cr_datum_source **source, cr_pipeline **pipeline) {
  *pipeline = NULL;
  CR_TRY(cr_datum_source_create(options, source));
  cr_pipeline_options made = cr_datum_source_pipeline(*source);
  made.depth = depth;
  crema_status status = cr_pipeline_create(&made, pipeline);
  if (status == CREMA_OK) return CREMA_OK;
  cr_datum_source_destroy(*source);
  *source = NULL;
  return status;
}

crema_status fixture_take(cr_pipeline *pipeline, cr_batch **out) {
  return cr_pipeline_take(pipeline, 0, NULL, out);
}

crema_status fixture_return(cr_pipeline *pipeline, cr_batch *batch) {
  return cr_pipeline_give_back(pipeline, 0, NULL, batch);
}

void fixture_image(cr_image *image, int height, int width, int channels) {
  ok(cr_image_reserve(image, height, width, channels));
  uint8_t *out = image->pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) *out++ = (uint8_t)((3 * x + 2 * y + 60 * c) % 256);
    }
  }
}

int fixture_cycles(int usual) {
  const char *text = getenv("CREMA_TEST_CYCLES");
  int wanted = text == NULL ? 0 : atoi(text);
  return wanted > 0 ? wanted : usual;
}
