/* Datum, byte by byte: numbers of every length, fields of every type, and where each damage is
 * said to lie. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data/db/datum.h"

#define PARSE(bytes, out) cr_datum_parse((const uint8_t *)(bytes), sizeof(bytes) - 1, out)

/* Labels that need from one byte to ten; the low half counts. */
TEST(numbers) {
  static const struct {
    const char *bytes;
    size_t size;
    int label;
  } cases[] = {{"\x28\x00", 2, 0},
               {"\x28\x7f", 2, 127},
               {"\x28\x80\x01", 3, 128},
               {"\x28\xff\x7f", 3, 16383},
               {"\x28\x80\x80\x01", 4, 16384},
               {"\x28\xff\xff\xff\xff\x07", 6, INT32_MAX},
               {"\x28\x80\x80\x80\x80\x08", 6, INT32_MIN},
               {"\x28\xff\xff\xff\xff\x0f", 6, -1},
               {"\x28\x81\x80\x80\x80\x10", 6, 1},
               {"\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, -1},
               {"\x28\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11, -2},
               {"\xa8\x80\x00\x05", 4, 5}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_datum datum;
    ok(cr_datum_parse((const uint8_t *)cases[i].bytes, cases[i].size, &datum));
    assert_int_equal(datum.label, cases[i].label);
    assert_false(datum.has_encoded);
    assert_ptr_equal(datum.wire, cases[i].bytes);
    assert_int_equal(datum.wire_size, cases[i].size);
  }
}

TEST(fields) {
  cr_datum datum;
  ok(PARSE("\x08\x03\x10\x04\x18\x05\x28\x06\x38\x01", &datum));
  assert_true(datum.channels == 3 && datum.height == 4 && datum.width == 5 && datum.label == 6);
  assert_true(datum.encoded && datum.has_encoded);
  assert_true(datum.data == NULL && datum.size == 0 && datum.float_count == 0);
  ok(PARSE("\x38\x00", &datum));
  assert_true(datum.has_encoded && !datum.encoded);
  ok(PARSE("\x38\x80\x80\x80\x80\x10", &datum));
  assert_true(datum.encoded);
  /* Known fields of foreign types, and unknown ones, change nothing. */
  ok(
      PARSE("\x0d"
            "1234"
            "\x12\x01z\x1d"
            "1234"
            "\x20\x07\x2d"
            "1234"
            "\x3a\x01z"
            "\x30\x09\x31"
            "12345678"
            "\x42\x01z\x45"
            "1234",
            &datum));
  assert_true(datum.channels == 0 && datum.height == 0 && datum.width == 0 && datum.label == 0);
  assert_true(!datum.has_encoded && datum.data == NULL && datum.float_count == 0);
  /* Bytes of no length are bytes. */
  ok(PARSE("\x22\x00", &datum));
  assert_true(datum.data != NULL && datum.size == 0);
}

TEST(floats) {
  static const uint8_t one[4] = {0x12, 0x34, 0x56, 0x41}; /* 13.387713 */
  cr_datum datum;
  float out[3] = {0};
  /* Among other fields, in and behind groups. */
  ok(
      PARSE("\x32\x00\x28\x01\x4b\x35"
            "abcd"
            "\x4c\x35\x12\x34\x56\x41\x22\x01z"
            "\x32\x08\x12\x34\x56\x41\x00\x00\x80\x3f",
            &datum));
  assert_int_equal(datum.float_count, 3);
  ok(cr_datum_floats(&datum, out, 3));
  assert_memory_equal(&out[0], one, 4);
  assert_memory_equal(&out[1], one, 4);
  assert_true(out[2] == 1);
  assert_says(cr_datum_floats(&datum, out, 4), CREMA_E_ARGUMENT, "Datum holds 3 floats, not 4");
  assert_says(cr_datum_floats(&datum, out, 2), CREMA_E_ARGUMENT, "Datum holds 3 floats, not 2");
}

TEST(damage) {
  cr_datum datum;
  assert_says(cr_datum_parse(NULL, 0, &datum), CREMA_E_CORRUPT, "not a Datum: the record is empty");
  assert_says(PARSE("\x28\x80", &datum), CREMA_E_CORRUPT, "not a Datum: truncated at byte 2 of 2");
  assert_says(PARSE("\x28\x01\x28\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", &datum),
              CREMA_E_CORRUPT, "not a Datum: number too long at byte 13 of 14");
  assert_says(PARSE("\x28\x01\x00\x01", &datum), CREMA_E_CORRUPT,
              "not a Datum: bad field number at byte 3 of 4");
  assert_says(PARSE("\x07\x01", &datum), CREMA_E_CORRUPT,
              "not a Datum: bad field number at byte 1 of 2");
  /* 2^29 - 1 is the largest number of a field. */
  ok(PARSE("\xf8\xff\xff\xff\x0f\x01", &datum));
  assert_says(PARSE("\x80\x80\x80\x80\x10\x01", &datum), CREMA_E_CORRUPT,
              "not a Datum: bad field number at byte 5 of 6");
  assert_says(PARSE("\x0e", &datum), CREMA_E_CORRUPT, "not a Datum: bad wire type at byte 1 of 1");
  assert_says(PARSE("\x49"
                    "1234567",
                    &datum),
              CREMA_E_CORRUPT, "not a Datum: truncated at byte 1 of 8");
  ok(
      PARSE("\x49"
            "12345678",
            &datum));
  assert_says(PARSE("\x4d"
                    "123",
                    &datum),
              CREMA_E_CORRUPT, "not a Datum: truncated at byte 1 of 4");
  ok(
      PARSE("\x4d"
            "1234",
            &datum));
  assert_says(PARSE("\x22\x02z", &datum), CREMA_E_CORRUPT, "not a Datum: truncated at byte 2 of 3");
  assert_says(PARSE("\x32\x06"
                    "abcdef",
                    &datum),
              CREMA_E_CORRUPT, "not a Datum: float_data is no multiple of 4 bytes at byte 8 of 8");
  assert_says(PARSE("\x28\x01\x4c", &datum), CREMA_E_CORRUPT,
              "not a Datum: end of a group that never began at byte 3 of 3");
  assert_says(PARSE("\x4b\x4b\x4c", &datum), CREMA_E_CORRUPT,
              "not a Datum: truncated at byte 3 of 3");
  ok(PARSE("\x4b\x53\x54\x4c", &datum));
  assert_int_equal(PARSE("\x0a\x00", &datum), CREMA_E_UNSUPPORTED);
}

TEST(extents) {
  static const struct {
    int channels, height, width;
    size_t bytes, floats;
    const char *words; /* NULL: they fit */
  } cases[] = {
      {1, 1, 1, 1, 0, NULL},
      {1, 1, 1, 0, 1, NULL},
      {2, 3, 4, 24, 0, NULL},
      {2, 3, 4, 0, 24, NULL},
      /* Bytes count where both are there. */
      {2, 3, 4, 24, 5, NULL},
      {2, 3, 4, 5, 24, "Datum of 2 x 3 x 4 values holds 5"},
      {2, 3, 4, 25, 0, "Datum of 2 x 3 x 4 values holds 25"},
      {2, 3, 4, 35, 0, "Datum of 2 x 3 x 4 values holds 35"},
      {2, 3, 4, 12, 0, "Datum of 2 x 3 x 4 values holds 12"},
      {2, 3, 4, 36, 0, "Datum of 2 x 3 x 4 values holds 36"},
      {1, 3, 4, 11, 0, "Datum of 1 x 3 x 4 values holds 11"},
      {1, 1, 1, 0, 0, "Datum of 1 x 1 x 1 values holds 0"},
      {0, 1, 1, 1, 0, "Datum of 0 x 1 x 1 values (channels, height, width)"},
      {1, 0, 1, 1, 0, "Datum of 1 x 0 x 1 values (channels, height, width)"},
      {1, 1, 0, 1, 0, "Datum of 1 x 1 x 0 values (channels, height, width)"},
      {1, -1, -1, 1, 0, "Datum of 1 x -1 x -1 values (channels, height, width)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const cr_datum datum = {.channels = cases[i].channels,
                            .height = cases[i].height,
                            .width = cases[i].width,
                            .size = cases[i].bytes,
                            .float_count = cases[i].floats};
    crema_status status = cr_datum_check_raw(&datum);
    if (cases[i].words == NULL) ok(status);
    else assert_says(status, CREMA_E_CORRUPT, cases[i].words);
  }
}

static void assert_written(const cr_datum *datum, const char *bytes, size_t size) {
  cr_buffer out = {0};
  ok(cr_datum_append(datum, &out));
  assert_int_equal(out.size, size);
  assert_memory_equal(out.data, bytes, size);
  cr_buffer_free(&out);
}

/* Fields that are not given are not written, except the label. */
TEST(writing) {
  const float values[2] = {1, -2};
  assert_written(&(cr_datum){0}, "\x28\x00", 2);
  assert_written(&(cr_datum){.channels = 1, .label = 127}, "\x08\x01\x28\x7f", 4);
  assert_written(&(cr_datum){.height = 128, .label = 128}, "\x10\x80\x01\x28\x80\x01", 6);
  assert_written(&(cr_datum){.width = 16384}, "\x18\x80\x80\x01\x28\x00", 6);
  assert_written(&(cr_datum){.channels = -1, .height = -1, .width = -1}, "\x28\x00", 2);
  assert_written(&(cr_datum){.label = -1}, "\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
  assert_written(&(cr_datum){.data = (const uint8_t *)"", .size = 0}, "\x22\x00\x28\x00", 4);
  assert_written(&(cr_datum){.data = (const uint8_t *)"abc", .size = 3},
                 "\x22\x03"
                 "abc\x28\x00",
                 7);
  assert_written(&(cr_datum){.floats = values, .float_count = 2},
                 "\x28\x00\x35\x00\x00\x80\x3f\x35\x00\x00\x00\xc0", 12);
  assert_written(&(cr_datum){.has_encoded = true}, "\x28\x00\x38\x00", 4);
  assert_written(&(cr_datum){.has_encoded = true, .encoded = true}, "\x28\x00\x38\x01", 4);
  assert_written(&(cr_datum){.encoded = true}, "\x28\x00", 2);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
