/* Records with boxes: what is taken from them, what is refused, and which boxes stay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/buffer.h"
#include "data/augment/annotated.h"
#include "proto/proto.h"
#include "refused_text.h"

/* The record that `text` describes, in wire format. */
static void print(const char *text, cr_buffer *out) {
  ProtobufCMessage *message = NULL;
  cr_buffer_clear(out);
  ok(cr_text_parse(&caffe__annotated_datum__descriptor, text, strlen(text), "test",
                   CR_UNKNOWN_ERROR, &message));
  ok(cr_wire_print(message, out));
  cr_message_free(message);
}

static crema_status load(const char *text, cr_annotated *annotated) {
  cr_buffer record = {0};
  print(text, &record);
  crema_status status =
      cr_annotated_load(annotated, (const uint8_t *)record.data, record.size, CR_IMAGE_NATIVE);
  cr_buffer_free(&record);
  return status;
}

#define PLANES "datum { channels: 3 height: 1 width: 2 label: 9 data: 'abcdef' } "

TEST(pixels) {
  cr_annotated annotated = {0};
  ok(load(PLANES, &annotated));
  assert_int_equal(annotated.label, 9);
  assert_false(annotated.encoded);
  assert_false(annotated.has_boxes);
  assert_int_equal(cr_annotated_count(&annotated), 0);
  assert_true(annotated.image.channels == 3 && annotated.image.height == 1 &&
              annotated.image.width == 2);
  assert_memory_equal(annotated.image.pixels, "acebdf", 6);
  /* The fewest channels and the most. */
  ok(load("datum { channels: 1 height: 2 width: 1 data: 'xy' } type: BBOX", &annotated));
  assert_true(annotated.has_boxes);
  assert_int_equal(annotated.label, 0);
  assert_memory_equal(annotated.image.pixels, "xy", 2);
  ok(load("datum { channels: 4 height: 1 width: 1 data: 'wxyz' }", &annotated));
  assert_false(annotated.has_boxes);
  assert_memory_equal(annotated.image.pixels, "wxyz", 4);
  cr_annotated_free(&annotated);
  assert_null(annotated.image.pixels);
  assert_null(annotated.objects.data);
}

TEST(refusals) {
  static const refused_text cases[] = {
      {"type: BBOX", CREMA_E_CORRUPT, "it has no datum"},
      {"datum { channels: 0 height: 1 width: 1 }", CREMA_E_CORRUPT, "0 channels"},
      {"datum { channels: 5 height: 1 width: 1 data: 'abcde' }", CREMA_E_CORRUPT, "5 channels"},
      {"datum { channels: -1 height: 1 width: 1 }", CREMA_E_CORRUPT, "-1 channels"},
      {"datum { channels: 3 height: 1 width: 2 data: 'abcde' }", CREMA_E_CORRUPT,
       "5 bytes of pixels, 3 x 1 x 2 need 6"},
      {"datum { channels: 3 height: 1 width: 2 data: 'abcdefg' }", CREMA_E_CORRUPT,
       "7 bytes of pixels, 3 x 1 x 2 need 6"},
      {"datum { channels: 1 height: 1 width: 1 float_data: 1 }", CREMA_E_UNSUPPORTED,
       "float_data with boxes"},
      {"datum { encoded: true data: 'no picture' }", CREMA_E_CORRUPT, "no image of a known format"},
  };
  cr_annotated annotated = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    assert_refused(&cases[i], load(cases[i].text, &annotated));
  }
  assert_int_not_equal(
      cr_annotated_load(&annotated, (const uint8_t *)"\x0a\x05", 2, CR_IMAGE_NATIVE), CREMA_OK);
  cr_annotated_free(&annotated);
}

#define BOX(x0, y0, x1, y1) "bbox { xmin: " x0 " ymin: " y0 " xmax: " x1 " ymax: " y1 " }"
#define OBJECTS \
  PLANES        \
  "annotation_group { group_label: 4\n"                                                       \
  "  annotation { instance_id: 1 " BOX("0", "0", "0.5", "0.5") " }\n"                         \
  "  annotation { instance_id: 2 }\n"                                                         \
  "  annotation { instance_id: 3 bbox { xmin: 0.25 ymin: 0.5 xmax: 1 ymax: 0.75\n"            \
  "    difficult: true } } }\n"                                                               \
  "annotation_group { group_label: 7 }\n"                                                     \
  "annotation_group { group_label: 8 annotation { " BOX("0.75", "0", "1", "0.25") " } }\n"

static void assert_object(const cr_annotated *annotated, size_t i, cr_object wanted) {
  const cr_object *found = cr_annotated_object(annotated, i);
  assert_int_equal(found->label, wanted.label);
  assert_int_equal(found->instance, wanted.instance);
  assert_int_equal(found->difficult, wanted.difficult);
  assert_memory_equal(&found->box, &wanted.box, sizeof wanted.box);
}

TEST(boxes) {
  cr_annotated annotated = {0};
  ok(load(OBJECTS, &annotated));
  assert_int_equal(cr_annotated_count(&annotated), 3);
  assert_object(&annotated, 0, (cr_object){4, 1, false, {0, 0, 0.5f, 0.5f}});
  assert_object(&annotated, 1, (cr_object){4, 3, true, {0.25f, 0.5f, 1, 0.75f}});
  assert_object(&annotated, 2, (cr_object){8, 0, false, {0.75f, 0, 1, 0.25f}});
  /* The right half: the first box only touches it. */
  cr_annotated_project(&annotated, NULL, (cr_box){0.5f, 0, 1, 1});
  assert_int_equal(cr_annotated_count(&annotated), 2);
  assert_object(&annotated, 0, (cr_object){4, 3, true, {0, 0.5f, 1, 0.75f}});
  assert_object(&annotated, 1, (cr_object){8, 0, false, {0.5f, 0, 1, 0.25f}});
  /* A record without boxes forgets those of the one before. */
  ok(load(PLANES, &annotated));
  assert_int_equal(cr_annotated_count(&annotated), 0);
  cr_annotated_free(&annotated);
}

/* Of the boxes in the window only those count that the constraint emits. */
TEST(constrained_boxes) {
  Caffe__EmitConstraint constraint = CAFFE__EMIT_CONSTRAINT__INIT;
  cr_annotated annotated = {0};
  ok(load(OBJECTS, &annotated));
  /* The second one's centre is at (0.625, 0.625), those of the others lie higher. */
  cr_annotated_project(&annotated, &constraint, (cr_box){0, 0.5f, 1, 1});
  assert_int_equal(cr_annotated_count(&annotated), 1);
  assert_object(&annotated, 0, (cr_object){4, 3, true, {0.25f, 0, 1, 0.5f}});
  cr_annotated_project(&annotated, &constraint, (cr_box){0, 0.5f, 0.25f, 1});
  assert_int_equal(cr_annotated_count(&annotated), 0);
  cr_annotated_free(&annotated);
}

/* Told apart by the kind of the first field. */
TEST(records_that_look_annotated) {
  cr_buffer record = {0};
  print(PLANES, &record);
  assert_true(cr_annotated_is((const uint8_t *)record.data, record.size));
  assert_true(cr_annotated_is((const uint8_t *)record.data, 1));
  assert_false(cr_annotated_is((const uint8_t *)record.data, 0));
  print("type: BBOX", &record);
  assert_false(cr_annotated_is((const uint8_t *)record.data, record.size));
  assert_false(cr_annotated_is((const uint8_t *)"\x08\x03", 2)); /* a Datum's channels */
  cr_buffer_free(&record);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
