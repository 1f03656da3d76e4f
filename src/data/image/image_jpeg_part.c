/* A part of a JPEG through libjpeg-turbo's older interface, which can pass over rows and columns.
 *
 * Rows above the part are only entropy-decoded, blocks beside it are not transformed, rows below it
 * are not looked at, save that the file must end as a whole one does. Pixels at the edge of what
 * is decoded can differ from those of the whole picture, because chroma is interpolated between
 * neighbours; so a chroma sample more is decoded on each side. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "data/image/image_codec.h"

typedef struct part_errors {
  struct jpeg_error_mgr base;
  jmp_buf escape;
} part_errors;

/* Errors and warnings alike end it: decoding the whole picture tells them apart. */
static void leave(j_common_ptr jpeg) {
  part_errors *errors = (part_errors *)(void *)jpeg->err;
  longjmp(errors->escape, 1);
}

static void on_message(j_common_ptr jpeg, int level) {
  if (level < 0) leave(jpeg);
}

/* One scan of Huffman-coded YCbCr or gray: what cameras and Caffe's tools write. */
static bool is_suitable(const struct jpeg_decompress_struct *jpeg) {
  if (jpeg->progressive_mode || jpeg->arith_code) return false;
  if (jpeg->comps_in_scan != jpeg->num_components) return false;
  return jpeg->jpeg_color_space == JCS_YCbCr || jpeg->jpeg_color_space == JCS_GRAYSCALE;
}

/* The marker at its end, or before a few bytes that somebody has appended. */
static bool is_complete(const uint8_t *bytes, size_t size) {
  enum { TRAILER = 64 };
  for (size_t i = size; i >= 2 && size - i < TRAILER; --i) {
    if (bytes[i - 2] == 0xFF && bytes[i - 1] == 0xD9) return true;
  }
  return false;
}

/* Widens the part by a chroma sample on each side, upwards to the beginning of a block. Columns are
 * left to the library, which knows where they may begin. */
static void widen(struct jpeg_decompress_struct *jpeg, cr_image_part *part) {
  int block = jpeg->max_v_samp_factor * DCTSIZE, width = jpeg->max_h_samp_factor;
  int bottom = part->top + part->height, top = part->top - jpeg->max_v_samp_factor;
  part->top = top < 0 ? 0 : top / block * block;
  part->height = bottom - part->top;
  int left = part->left - width, right = part->left + part->width + width;
  if (left < 0) left = 0;
  if (right > (int)jpeg->output_width) right = (int)jpeg->output_width;
  JDIMENSION column = (JDIMENSION)left, columns = (JDIMENSION)(right - left);
  if (columns < jpeg->output_width) jpeg_crop_scanline(jpeg, &column, &columns);
  part->left = (int)column;
  part->width = (int)columns;
}

static void read_rows(struct jpeg_decompress_struct *jpeg, const cr_image_part *part,
                      cr_image *out) {
  enum { ROWS = 16 };
  size_t pitch = (size_t)out->width * (size_t)out->channels;
  if (part->top > 0) jpeg_skip_scanlines(jpeg, (JDIMENSION)part->top);
  for (int y = 0; y < part->height;) {
    JSAMPROW row[ROWS];
    int rows = part->height - y < ROWS ? part->height - y : ROWS;
    for (int i = 0; i < rows; ++i) row[i] = out->pixels + (size_t)(y + i) * pitch;
    y += (int)jpeg_read_scanlines(jpeg, row, (JDIMENSION)rows);
  }
}

/* With the header read. */
static bool decode_part(struct jpeg_decompress_struct *jpeg, cr_image_color color,
                        const cr_image_chooser *chooser, cr_image *out, cr_image_part *whole,
                        cr_image_part *part) {
  int height = (int)jpeg->image_height, width = (int)jpeg->image_width;
  int channels = jpeg->jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
  if (color != CR_IMAGE_NATIVE) channels = color == CR_IMAGE_GRAY ? 1 : 3;
  if (!is_suitable(jpeg) || !chooser->choose(chooser->user, height, width, part)) return false;
  /* Nothing to be gained, or more than is to be believed: see cr_jpeg_decode. */
  if (part->height == height && part->width == width) return false;
  if ((int64_t)height * width > CR_IMAGE_MAX_PIXELS) return false;
  jpeg->out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
  jpeg_start_decompress(jpeg);
  widen(jpeg, part);
  if (cr_image_reserve(out, part->height, part->width, channels) != CREMA_OK) return false;
  read_rows(jpeg, part, out);
  *whole = (cr_image_part){.height = height, .width = width};
  return true;
}

bool cr_jpeg_decode_part(const uint8_t *bytes, size_t size, cr_image_color color,
                         const cr_image_chooser *chooser, cr_image *out, cr_image_part *whole,
                         cr_image_part *part) {
  struct jpeg_decompress_struct jpeg;
  part_errors errors;
  if (!is_complete(bytes, size)) return false;
  jpeg.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave;
  errors.base.emit_message = on_message;
  if (setjmp(errors.escape) != 0) {
    jpeg_destroy_decompress(&jpeg);
    return false;
  }
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, bytes, size);
  bool done = jpeg_read_header(&jpeg, TRUE) == JPEG_HEADER_OK &&
              decode_part(&jpeg, color, chooser, out, whole, part);
  jpeg_destroy_decompress(&jpeg);
  return done;
}
