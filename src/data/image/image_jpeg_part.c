/* Parts of JPEGs through libjpeg-turbo's older interface, which can skip rows and columns.
 *
 * Rows above the part are only entropy-decoded, blocks at its sides are not transformed, rows below
 * it are not decoded; the file must have an end marker. Chroma is interpolated between neighbours,
 * so pixels at the edge could differ from the full image. One more chroma sample is therefore
 * decoded on each side. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "data/image/image_codec.h"

struct cr_jpeg {
  struct jpeg_decompress_struct base; /* must be the first member */
  struct jpeg_error_mgr errors;
  jmp_buf escape;
};

/* Errors and warnings end decoding; cr_jpeg_decode then distinguishes them. */
static void leave(j_common_ptr base) {
  cr_jpeg *jpeg = (cr_jpeg *)(void *)base;
  longjmp(jpeg->escape, 1);
}

static void on_message(j_common_ptr jpeg, int level) {
  if (level < 0) leave(jpeg);
}

/* Widens the part by a chroma sample on each side, upwards to the beginning of a block. The library
 * decides where columns may begin. */
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

static void decode_rows(struct jpeg_decompress_struct *jpeg, cr_image_part *part, cr_image *out) {
  jpeg_start_decompress(jpeg);
  widen(jpeg, part);
  if (cr_image_reserve(out, part->height, part->width, jpeg->output_components) != CREMA_OK) {
    leave((j_common_ptr)jpeg);
  }
  read_rows(jpeg, part, out);
}

bool cr_jpeg_decode_part(cr_jpeg *jpeg, const cr_image_part *wanted, cr_image *out,
                         cr_image_part *part) {
  *part = *wanted;
  if (setjmp(jpeg->escape) != 0) {
    jpeg_abort_decompress(&jpeg->base);
    return false;
  }
  decode_rows(&jpeg->base, part, out);
  jpeg_abort_decompress(&jpeg->base);
  return true;
}

/* Reads the header of a file with one scan of Huffman-coded YCbCr or gray, as cameras and Caffe's
 * tools write it. */
static bool open_file(cr_jpeg *jpeg, cr_picture *picture) {
  struct jpeg_decompress_struct *base = &jpeg->base;
  jpeg_mem_src(base, picture->bytes, picture->size);
  if (jpeg_read_header(base, TRUE) != JPEG_HEADER_OK) return false;
  if (base->progressive_mode || base->arith_code) return false;
  if (base->comps_in_scan != base->num_components) return false;
  const bool gray = base->jpeg_color_space == JCS_GRAYSCALE;
  if (!gray && base->jpeg_color_space != JCS_YCbCr) return false;
  int height = (int)base->image_height, width = (int)base->image_width;
  int channels = cr_image_channels(picture->color, gray);
  /* Implausibly many pixels. */
  if ((int64_t)height * width > CR_IMAGE_MAX_PIXELS) return false;
  if (cr_jpeg_check_density(height, width, picture->size) != CREMA_OK) return false;
  base->out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
  picture->height = height;
  picture->width = width;
  picture->channels = channels;
  return true;
}

static bool create(cr_jpeg *jpeg) {
  jpeg->base.err = jpeg_std_error(&jpeg->errors);
  jpeg->errors.error_exit = leave;
  jpeg->errors.emit_message = on_message;
  if (setjmp(jpeg->escape) != 0) return false;
  jpeg_create_decompress(&jpeg->base);
  return true;
}

bool cr_jpeg_open(cr_jpeg **jpeg, cr_picture *picture) {
  enum { TRAILER = 64 }; /* bytes that may follow the end marker */
  const uint8_t *bytes = picture->bytes;
  size_t end = picture->size;
  while (end >= 2 && picture->size - end < TRAILER &&
         (bytes[end - 2] != 0xFF || bytes[end - 1] != 0xD9)) {
    --end;
  }
  if (end < 2 || picture->size - end == TRAILER) return false;
  if (*jpeg == NULL) *jpeg = calloc(1, sizeof **jpeg);
  if (*jpeg == NULL) return false;
  /* An earlier file may be half decoded, and its tables would replace missing tables. */
  jpeg_destroy_decompress(&(*jpeg)->base);
  if (!create(*jpeg)) return false;
  if (setjmp((*jpeg)->escape) != 0) return false;
  return open_file(*jpeg, picture);
}

void cr_jpeg_free(cr_jpeg *jpeg) {
  if (jpeg == NULL) return;
  jpeg_destroy_decompress(&jpeg->base);
  free(jpeg);
}
