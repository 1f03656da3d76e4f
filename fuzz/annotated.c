/* AnnotatedDatum records of any bytes: parsing, decoding, and dropping boxes outside a window. */
#include "data/augment/annotated.h"
#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const cr_box windows[] = {{0, 0, 1, 1}, {0.25f, 0.25f, 0.75f, 0.5f}, {0.5f, 0, 0.5f, 0}};
  Caffe__EmitConstraint overlap = CAFFE__EMIT_CONSTRAINT__INIT;
  overlap.has_emit_type = 1;
  overlap.emit_type = CAFFE__EMIT_CONSTRAINT__EMIT_TYPE__MIN_OVERLAP;
  cr_annotated annotated = {0};
  (void)cr_annotated_is(bytes, size);
  for (int color = CR_IMAGE_NATIVE; color <= CR_IMAGE_GRAY; ++color) {
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; ++i) {
      crema_status status = cr_annotated_load(&annotated, bytes, size, (cr_image_color)color);
      fuzz_require_text(status);
      if (status != CREMA_OK) break;
      size_t before = cr_annotated_count(&annotated);
      cr_annotated_project(&annotated, i == 1 ? &overlap : NULL, windows[i]);
      fuzz_require(cr_annotated_count(&annotated) <= before);
    }
  }
  cr_annotated_free(&annotated);
  return 0;
}
