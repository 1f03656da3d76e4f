/* Every allocation of the data room fails once: CREMA_E_NO_MEMORY with a text, or no harm; all that
 * was allocated before is given back, and the same call succeeds afterwards. */
#include "allocations.h"

#include <stdio.h>
#include <unistd.h>

#include "core/file.h"
#include "data/augment/annotated.h"
#include "data/augment/mean.h"
#include "data/augment/sample.h"
#include "data/fixture.h"
#include "data/image/image.h"
#include "data/pipeline/image_list.h"
#include "data/pipeline/record_cache.h"
#include "data/pipeline/window_list.h"
#include "proto/proto.h"
#include "transform_text.h"

static fixture folder;

/* Made once; owned by this file. */
static cr_buffer jpeg, png, raw, floats, annotated;
static Caffe__TransformationParameter *augmenting, *transforming, *with_mean;
static char mean_path[300], list_path[300], windows_path[300], lmdb_path[300];

static const uint8_t *bytes_of(const cr_buffer *buffer) {
  return (const uint8_t *)buffer->data;
}

/* ---- what is tried; each frees what it makes ---- */

typedef crema_status operation(void);

static crema_status decode(const cr_buffer *file) {
  cr_image image = {0};
  crema_status status = cr_image_decode(bytes_of(file), file->size, CR_IMAGE_NATIVE, &image);
  cr_image_free(&image);
  if (status != CREMA_OK) return status;
  status = cr_image_decode(bytes_of(file), file->size, CR_IMAGE_GRAY, &image);
  cr_image_free(&image);
  return status;
}

static crema_status decode_jpeg(void) {
  return decode(&jpeg);
}

static crema_status decode_png(void) {
  return decode(&png);
}

static crema_status decode_part(void) {
  cr_picture picture = {0};
  cr_image image = {0};
  const cr_image_part part = {2, 2, 4, 4};
  crema_status status = cr_picture_open(&picture, bytes_of(&jpeg), jpeg.size, CR_IMAGE_NATIVE);
  if (status == CREMA_OK) status = cr_picture_decode(&picture, &part, &image, NULL);
  cr_picture_free(&picture);
  cr_image_free(&image);
  return status;
}

static crema_status encode(void) {
  cr_image image = {0};
  cr_buffer out = {0};
  crema_status status = cr_image_reserve(&image, 4, 5, 3);
  if (status == CREMA_OK) {
    memset(image.pixels, 7, 60);
    status = cr_image_encode(&image, "jpg", &out);
  }
  if (status == CREMA_OK) status = cr_image_encode(&image, "png", &out);
  cr_image_free(&image);
  cr_buffer_free(&out);
  return status;
}

static crema_status resize(void) {
  cr_image in = {0}, out = {0};
  crema_status status = cr_image_reserve(&in, 4, 5, 3);
  if (status == CREMA_OK) {
    memset(in.pixels, 7, 60);
    status = cr_image_resize(&in, 7, 3, &out);
  }
  cr_image_free(&in);
  cr_image_free(&out);
  return status;
}

enum { SAMPLES = 3, BYTES = 9 * 9 * 3 };

/* A failure that is passed over would show in the picture. */
static void check_pixels(const cr_image *image, uint64_t sample) {
  static uint8_t first[SAMPLES][BYTES];
  static bool known[SAMPLES];
  assert_int_equal(image->height * image->width * image->channels, BYTES);
  if (!known[sample]) memcpy(first[sample], image->pixels, BYTES);
  known[sample] = true;
  assert_memory_equal(image->pixels, first[sample], BYTES);
}

static crema_status augment(void) {
  cr_augment *made = NULL;
  cr_image image = {0};
  crema_status status = cr_augment_create(augmenting, &made);
  for (uint64_t sample = 0; sample < SAMPLES && status == CREMA_OK; ++sample) {
    status = cr_image_reserve(&image, 12, 10, 3);
    if (status != CREMA_OK) break;
    memset(image.pixels, 90, 360);
    status = cr_augment_image(made, 1, sample, &image);
    if (status == CREMA_OK) check_pixels(&image, sample);
  }
  cr_image_free(&image);
  cr_augment_destroy(made);
  return status;
}

static crema_status transform(const Caffe__TransformationParameter *param) {
  float out[3 * 6 * 7];
  const uint8_t pixels[3 * 6 * 7] = {0};
  const cr_pixels p = {.values = pixels, .type = CREMA_U8, .channels = 3, .height = 6, .width = 7};
  cr_transformer *made = NULL;
  crema_status status = cr_transformer_create(param, CAFFE__PHASE__TRAIN, 1, NULL, &made);
  if (status == CREMA_OK) status = cr_transformer_run(made, &p, 1, out);
  else if (made != NULL) return CREMA_E_INTERNAL;
  cr_transformer_destroy(made);
  return status;
}

static crema_status transform_with_values(void) {
  return transform(transforming);
}

static crema_status transform_with_file(void) {
  return transform(with_mean);
}

static crema_status mean_files(void) {
  cr_mean mean = {0};
  crema_status status = cr_mean_read(mean_path, &mean);
  cr_mean_free(&mean);
  return status;
}

static crema_status records(void) {
  const cr_buffer *const files[] = {&raw, &floats};
  cr_sample sample = {0};
  crema_status status = CREMA_OK;
  for (int i = 0; i < 2 && status == CREMA_OK; ++i) {
    status = cr_sample_load(&sample, bytes_of(files[i]), files[i]->size, CR_IMAGE_NATIVE);
  }
  cr_sample_free(&sample);
  return status;
}

static crema_status records_with_boxes(void) {
  cr_annotated made = {0};
  crema_status status =
      cr_annotated_load(&made, bytes_of(&annotated), annotated.size, CR_IMAGE_NATIVE);
  cr_annotated_free(&made);
  return status;
}

static crema_status lists(void) {
  cr_image_list list;
  crema_status status = cr_image_list_read(list_path, &list);
  if (status == CREMA_OK) cr_image_list_free(&list);
  return status;
}

static crema_status window_files(void) {
  cr_window_list list;
  crema_status status = cr_window_list_read(windows_path, &list);
  if (status == CREMA_OK) cr_window_list_free(&list);
  return status;
}

/* Without memory for more a cache takes no more records, which is no failure. */
static crema_status caches(void) {
  cr_record_cache *cache = NULL;
  crema_status status = cr_record_cache_create(false, 0, &cache);
  if (status != CREMA_OK) return status;
  const cr_db_bytes bytes = {(const uint8_t *)"abc", 3};
  const bool added = cr_record_cache_add(cache, bytes, bytes, 0);
  if (cr_record_cache_count(cache) != (added ? 1 : 0)) status = CREMA_E_INTERNAL;
  cr_record_cache_destroy(cache);
  return status;
}

static crema_status walk(const char *backend, const char *path) {
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  uint64_t count = 0;
  crema_status status = cr_db_open(backend, path, CR_DB_READ, &db);
  if (status == CREMA_OK) status = cr_db_count(db, &count);
  if (status == CREMA_OK) status = cr_db_cursor_open(db, &cursor);
  while (status == CREMA_OK && cursor->valid) status = cr_db_cursor_next(cursor);
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  return status;
}

static crema_status walk_lmdb(void) {
  return walk("lmdb", lmdb_path);
}

static crema_status read_on(const char *path, bool shuffle) {
  const cr_reader_options options = {
      .backend = "lmdb", .source = path, .consumers = 2, .depth = 2, .skip = 1, .shuffle = shuffle};
  cr_reader *reader = NULL;
  cr_db_bytes key, value;
  crema_status status = cr_reader_open(&options, &reader);
  if (status == CREMA_OK) status = cr_reader_preview(reader, 1, 1, &key, &value);
  if (status == CREMA_OK) status = cr_reader_enter(reader, 0);
  if (status == CREMA_OK) cr_reader_leave(reader, 0);
  cr_reader_close(reader);
  return status;
}

static crema_status readers(void) {
  return read_on(lmdb_path, false);
}

static crema_status shuffled_readers(void) {
  return read_on(lmdb_path, true);
}

/* ---- trying ---- */

static void fail_each(const char *name, operation *run) {
  ok(run()); /* makes what the process keeps */
  const long before = live_blocks();
  long n = 0;
  for (bool hit = true; hit; ++n) {
    no_memory_arm(n);
    crema_status status = run();
    hit = no_memory_end();
    if (live_blocks() != before) {
      fail_msg("%s, allocation %ld: %ld blocks are lost", name, n, live_blocks() - before);
    }
    if (status != CREMA_OK &&
        !(hit && status == CREMA_E_NO_MEMORY && crema_error_text()[0] != '\0')) {
      fail_msg("%s, allocation %ld: %s: \"%s\"", name, n, crema_status_name(status),
               crema_error_text());
    }
    if (run() != CREMA_OK) fail_msg("%s, behind allocation %ld: %s", name, n, crema_error_text());
  }
  assert_true(n > 1);
  print_message("%s: %ld allocations\n", name, n - 1);
}

TEST(each_allocation_fails) {
  static const struct {
    const char *name;
    operation *run;
  } rows[] = {{"JPEG", decode_jpeg},
              {"PNG", decode_png},
              {"part of a JPEG", decode_part},
              {"encoding", encode},
              {"resizing", resize},
              {"augmentation", augment},
              {"transformer", transform_with_values},
              {"transformer with a mean image", transform_with_file},
              {"mean image", mean_files},
              {"records", records},
              {"records with boxes", records_with_boxes},
              {"list of images", lists},
              {"window file", window_files},
              {"cache of records", caches},
              {"LMDB", walk_lmdb},
              {"reader", readers},
              {"shuffling reader", shuffled_readers}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) fail_each(rows[i].name, rows[i].run);
}

/* ---- files ---- */

static void encode_file(const char *kind, cr_buffer *out) {
  cr_image image = {0};
  fixture_image(&image, 20, 24, 3);
  ok(cr_image_encode(&image, kind, out));
  cr_image_free(&image);
}

static void write_text(char path[300], const char *name, const char *text) {
  snprintf(path, 300, "%s", fixture_path(&folder, name));
  ok(cr_file_write(path, text, strlen(text)));
}

static int make_files(void **state) {
  static const char boxes[] =
      "datum { channels: 1 height: 1 width: 2 data: 'ab' }\n"
      "annotation_group { group_label: 1 annotation { bbox { xmax: 1 ymax: 1 } } }";
  float values[3 * 6 * 7] = {1, 2, 3};
  char text[512];
  ProtobufCMessage *message = NULL;
  (void)state;
  fixture_make(&folder);
  encode_file("jpg", &jpeg);
  encode_file("png", &png);
  fixture_gray(3, &raw);
  const cr_datum datum = {
      .channels = 1, .height = 1, .width = 3, .floats = values, .float_count = 3};
  ok(cr_datum_append(&datum, &floats));
  ok(cr_text_parse(&caffe__annotated_datum__descriptor, boxes, sizeof boxes - 1, "test",
                   CR_UNKNOWN_ERROR, &message));
  ok(cr_wire_print(message, &annotated));
  cr_message_free(message);
  snprintf(mean_path, sizeof mean_path, "%s", fixture_path(&folder, "mean"));
  ok(cr_mean_write(mean_path, &(cr_mean){3, 6, 7, values}));
  augmenting = parse_transform(
      "expand_param { max_expand_ratio: 2 } resize_param { height: 9 width: 9 "
      "resize_mode: FIT_LARGE_SIZE_AND_PAD interp_mode: AREA } "
      "noise_param { gauss_blur: true clahe: true jpeg: 50 erode: true }");
  transforming =
      parse_transform("mean_value: [1, 2, 3] crop_size: 4 noise_param { inverse: true }");
  snprintf(text, sizeof text, "mean_file: '%s'", mean_path);
  with_mean = parse_transform(text);
  write_text(list_path, "list.txt", "a 1\nb 2\n");
  write_text(windows_path, "windows.txt", "# 0\na.jpg\n3 9 9\n1\n1 0.5 0 0 5 5\n");
  snprintf(lmdb_path, sizeof lmdb_path, "%s", fixture_db(&folder, "lmdb", 5, fixture_gray));
  return 0;
}

static int remove_files(void **state) {
  (void)state;
  cr_message_free(&augmenting->base);
  cr_message_free(&transforming->base);
  cr_message_free(&with_mean->base);
  cr_buffer_free(&jpeg);
  cr_buffer_free(&png);
  cr_buffer_free(&raw);
  cr_buffer_free(&floats);
  cr_buffer_free(&annotated);
  fixture_remove(&folder);
  return 0;
}

int main(void) {
  return run_all_tests(make_files, remove_files);
}
