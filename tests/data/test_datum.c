/* Datum: agreement with protobuf-c in both directions, and hostile bytes. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/rng.h"
#include "data/db/datum.h"
#include "proto/proto.h"

static crema_status parse(const char *bytes, size_t size, cr_datum *out) {
  return cr_datum_parse((const uint8_t *)bytes, size, out);
}

/* What cr_datum_append writes, protobuf-c reads. */
TEST(test_written_datum_is_read_by_protobuf) {
  uint8_t pixels[12];
  float floats[3] = {1.5f, -2, 1e30f};
  cr_buffer wire = {0};
  for (int i = 0; i < 12; ++i) pixels[i] = (uint8_t)(i * 20);
  const cr_datum datum = {.channels = 3,
                          .height = 2,
                          .width = 2,
                          .data = pixels,
                          .size = 12,
                          .label = -7,
                          .floats = floats,
                          .float_count = 3,
                          .has_encoded = true};
  ok(cr_datum_append(&datum, &wire));
  Caffe__Datum *read = caffe__datum__unpack(NULL, wire.size, (const uint8_t *)wire.data);
  assert_non_null(read);
  assert_int_equal(read->channels, 3);
  assert_int_equal(read->height, 2);
  assert_int_equal(read->width, 2);
  assert_int_equal(read->label, -7);
  assert_int_equal(read->data.len, 12);
  assert_memory_equal(read->data.data, pixels, 12);
  assert_int_equal(read->n_float_data, 3);
  assert_memory_equal(read->float_data, floats, sizeof floats);
  assert_true(read->has_encoded && !read->encoded);
  /* Same bytes as protobuf-c writes for the same message. */
  uint8_t *again = malloc(caffe__datum__get_packed_size(read));
  size_t size = caffe__datum__pack(read, again);
  assert_int_equal(size, wire.size);
  assert_memory_equal(again, wire.data, size);
  free(again);
  caffe__datum__free_unpacked(read, NULL);
  cr_buffer_free(&wire);
}

TEST(test_read_without_copying) {
  static const char wire[] =
      "\x08\x01\x10\x02\x18\x03\x22\x06"
      "abcdef"
      "\x28\x05\x38\x00";
  cr_datum datum;
  ok(parse(wire, sizeof wire - 1, &datum));
  assert_int_equal(datum.channels, 1);
  assert_int_equal(datum.height, 2);
  assert_int_equal(datum.width, 3);
  assert_int_equal(datum.label, 5);
  assert_ptr_equal(datum.data, wire + 8);
  assert_int_equal(datum.size, 6);
  assert_true(datum.has_encoded);
  assert_false(datum.encoded);
  ok(cr_datum_check_raw(&datum));
}

/* float_data packed, not packed, and in several pieces. */
TEST(test_floats_in_any_format) {
  static const char wire[] =
      "\x35\x00\x00\x80\x3f"                     /* 1 */
      "\x32\x08\x00\x00\x00\x40\x00\x00\x40\x40" /* 2, 3 */
      "\x35\x00\x00\x80\x40";                    /* 4 */
  cr_datum datum;
  float floats[4];
  ok(parse(wire, sizeof wire - 1, &datum));
  assert_int_equal(datum.float_count, 4);
  ok(cr_datum_floats(&datum, floats, 4));
  for (int i = 0; i < 4; ++i) assert_true(floats[i] == (float)(i + 1));
  assert_int_equal(cr_datum_floats(&datum, floats, 3), CREMA_E_ARGUMENT);
}

TEST(test_unknown_fields_are_skipped) {
  /* varint 9, fixed64 10, bytes 11, fixed32 12, nested groups 13 and 14, then label 1. */
  static const char wire[] =
      "\x48\x96\x01\x51"
      "12345678"
      "\x5a\x02xy\x65"
      "1234"
      "\x6b\x28\x63\x73\x74\x6c\x28\x01";
  cr_datum datum;
  ok(parse(wire, sizeof wire - 1, &datum));
  assert_int_equal(datum.label, 1);
  /* A known field of a foreign wire type is unknown: label as bytes. */
  ok(parse("\x28\x07\x2a\x01z", 5, &datum));
  assert_int_equal(datum.label, 7);
}

TEST(test_later_fields_win) {
  cr_datum datum;
  ok(
      parse("\x28\x01\x22\x01"
            "a\x28\x02\x22\x02"
            "bc",
            11, &datum));
  assert_int_equal(datum.label, 2);
  assert_int_equal(datum.size, 2);
  assert_int_equal(datum.data[0], 'b');
}

static void expect_corrupt(const char *bytes, size_t size, const char *part) {
  cr_datum datum;
  assert_int_equal(parse(bytes, size, &datum), CREMA_E_CORRUPT);
  if (strstr(crema_error_text(), part) == NULL) {
    fail_msg("\"%s\" is not in \"%s\"", part, crema_error_text());
  }
}

TEST(test_corrupt_records_are_refused) {
  expect_corrupt("", 0, "empty");
  expect_corrupt(
      "\x22\x05"
      "abcd",
      6, "truncated at byte 2 of 6");
  expect_corrupt("\x08", 1, "truncated at byte 1 of 1");
  expect_corrupt("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "too long");
  expect_corrupt("\x0f", 1, "wire type");
  expect_corrupt("\x00\x00", 2, "field number");
  expect_corrupt("\x74", 1, "never began");
  expect_corrupt("\x73\x28\x01", 3, "truncated");
  expect_corrupt(
      "\x32\x03"
      "abc",
      5, "multiple of 4");
  expect_corrupt("\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "truncated");
  cr_datum datum;
  assert_fails(parse("\x0a\x02\x28\x01\x10\x00", 6, &datum), CREMA_E_UNSUPPORTED, "AnnotatedData");
}

TEST(test_raw_extents_are_checked) {
  static const struct {
    int channels, height, width;
    size_t size;
    crema_status status;
  } rows[] = {
      {1, 2, 3, 6, CREMA_OK},          {1, 2, 3, 7, CREMA_E_CORRUPT},
      {1, 2, 3, 5, CREMA_E_CORRUPT},   {2, 2, 3, 6, CREMA_E_CORRUPT},
      {1, 2, 3, 0, CREMA_E_CORRUPT},   {0, 2, 3, 6, CREMA_E_CORRUPT},
      {1, -2, -3, 6, CREMA_E_CORRUPT}, {2147483647, 2147483647, 2147483647, 6, CREMA_E_CORRUPT},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const cr_datum datum = {.channels = rows[i].channels,
                            .height = rows[i].height,
                            .width = rows[i].width,
                            .size = rows[i].size};
    assert_int_equal(cr_datum_check_raw(&datum), rows[i].status);
  }
}

/* Random damage never reads outside: run under a sanitizer. */
TEST(test_random_damage) {
  enum { SEED = 20261121, ROUNDS = 20000 };
  cr_mt19937 rng;
  uint8_t pixels[30] = {0};
  float floats[8] = {0};
  cr_buffer wire = {0};
  print_message("seed %d\n", SEED);
  cr_mt19937_seed(&rng, SEED);
  const cr_datum datum = {.channels = 3,
                          .height = 2,
                          .width = 5,
                          .data = pixels,
                          .size = 30,
                          .label = 3,
                          .floats = floats,
                          .float_count = 8};
  ok(cr_datum_append(&datum, &wire));
  for (int round = 0; round < ROUNDS; ++round) {
    size_t size = cr_mt19937_below(&rng, (uint32_t)wire.size) + 1;
    uint8_t *bytes = malloc(size); /* exact, so that reading on is seen */
    assert_non_null(bytes);
    memcpy(bytes, wire.data, size);
    for (int k = 0; k < 3; ++k) {
      bytes[cr_mt19937_below(&rng, (uint32_t)size)] = (uint8_t)cr_mt19937_next(&rng);
    }
    cr_datum out;
    crema_status status = cr_datum_parse(bytes, size, &out);
    assert_true(status == CREMA_OK || status == CREMA_E_CORRUPT || status == CREMA_E_UNSUPPORTED);
    if (status == CREMA_OK && out.float_count > 0) {
      float *copy = malloc(out.float_count * sizeof *copy);
      ok(cr_datum_floats(&out, copy, out.float_count));
      free(copy);
    }
    free(bytes);
  }
  cr_buffer_free(&wire);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
