/* PNG through libpng, whose errors return by longjmp: all memory to free is in a struct outside the
 * function that calls setjmp. */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "data/image/image_codec.h"

typedef struct png_job {
  png_structp png;
  png_infop info;
  png_bytep *rows; /* one address per row */
  jmp_buf escape;
  char message[160];
  /* decoding */
  const uint8_t *at, *end;
  /* encoding */
  cr_buffer *sink;
  crema_status sink_status;
} png_job;

static void on_error(png_structp png, png_const_charp message) {
  png_job *job = png_get_error_ptr(png);
  snprintf(job->message, sizeof job->message, "%s", message);
  longjmp(job->escape, 1);
}

/* Warnings concern parts that do not affect the pixels. */
static void on_warning(png_structp png, png_const_charp message) {
  (void)png, (void)message;
}

static void read_bytes(png_structp png, png_bytep out, size_t size) {
  png_job *job = png_get_io_ptr(png);
  if (size > (size_t)(job->end - job->at)) png_error(png, "truncated");
  memcpy(out, job->at, size);
  job->at += size;
}

static void write_bytes(png_structp png, png_bytep bytes, size_t size) {
  png_job *job = png_get_io_ptr(png);
  job->sink_status = cr_buffer_append(job->sink, bytes, size);
  if (job->sink_status != CREMA_OK) png_error(png, "out of memory");
}

static void flush_bytes(png_structp png) {
  (void)png;
}

static crema_status fail_png(const png_job *job) {
  return cr_fail(CREMA_E_CORRUPT, "PNG: %s", job->message);
}

static crema_status point_rows(png_job *job, const cr_image *image) {
  job->rows = malloc((size_t)image->height * sizeof *job->rows);
  if (job->rows == NULL) {
    return cr_fail_memory((size_t)image->height * sizeof *job->rows, "the rows of an image");
  }
  size_t stride = (size_t)image->width * (size_t)image->channels;
  for (int y = 0; y < image->height; ++y) job->rows[y] = image->pixels + (size_t)y * stride;
  return CREMA_OK;
}

/* The header, up to the first pixels. */
static crema_status read_header(png_job *job) {
  if (setjmp(job->escape) != 0) return fail_png(job);
  png_set_user_limits(job->png, CR_IMAGE_MAX_SIDE, CR_IMAGE_MAX_SIDE);
  png_set_read_fn(job->png, job, read_bytes);
  png_read_info(job->png, job->info);
  return CREMA_OK;
}

/* Requests 8 bits and the wanted channels, blue first. */
static crema_status set_transforms(png_job *job, int channels) {
  if (setjmp(job->escape) != 0) return fail_png(job);
  png_structp png = job->png;
  bool color = (png_get_color_type(png, job->info) & PNG_COLOR_MASK_COLOR) != 0;
  png_set_expand(png); /* palettes to RGB, 1, 2 and 4 bits to 8 */
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  if (channels == 3 && !color) png_set_gray_to_rgb(png);
  if (channels == 1 && color) png_set_rgb_to_gray(png, 1 /* silently */, 0.299, 0.587);
  if (channels == 3) png_set_bgr(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, job->info);
  return CREMA_OK;
}

static crema_status read_pixels(png_job *job) {
  if (setjmp(job->escape) != 0) return fail_png(job);
  png_read_image(job->png, job->rows);
  png_read_end(job->png, NULL);
  return CREMA_OK;
}

static crema_status decode(png_job *job, size_t size, cr_image_color color, bool probe,
                           cr_image *out) {
  CR_TRY(read_header(job));
  bool colored = (png_get_color_type(job->png, job->info) & PNG_COLOR_MASK_COLOR) != 0;
  int channels = cr_image_channels(color, !colored);
  int height = (int)png_get_image_height(job->png, job->info);
  int width = (int)png_get_image_width(job->png, job->info);
  uint64_t raw = (uint64_t)png_get_rowbytes(job->png, job->info) * (uint64_t)height;
  if (raw / 1040 > size) { /* deflate shrinks at most 1032-fold */
    return cr_fail(CREMA_E_CORRUPT, "PNG: %llu bytes of pixels in %zu bytes",
                   (unsigned long long)raw, size);
  }
  if (probe) return cr_image_set_extents(out, height, width, channels);
  CR_TRY(set_transforms(job, channels));
  CR_TRY(cr_image_reserve(out, height, width, channels));
  size_t row = (size_t)width * (size_t)channels;
  if (png_get_rowbytes(job->png, job->info) != row) {
    return cr_fail(CREMA_E_INTERNAL, "PNG: rows of %zu bytes, expected %zu",
                   png_get_rowbytes(job->png, job->info), row);
  }
  CR_TRY(point_rows(job, out));
  return read_pixels(job);
}

crema_status cr_png_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                           cr_image *out) {
  png_job job = {.at = bytes, .end = bytes + size};
  crema_status status = CREMA_OK;
  job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
  if (job.png != NULL) job.info = png_create_info_struct(job.png);
  if (job.info == NULL) {
    status = cr_fail(CREMA_E_NO_MEMORY, "PNG: cannot start the decoder");
  } else {
    status = decode(&job, size, color, probe, out);
  }
  png_destroy_read_struct(&job.png, &job.info, NULL);
  free(job.rows);
  return status;
}

static crema_status encode(png_job *job, const cr_image *image) {
  if (setjmp(job->escape) != 0) {
    if (job->sink_status != CREMA_OK) return job->sink_status;
    return cr_fail(CREMA_E_INTERNAL, "PNG: %s", job->message);
  }
  png_set_write_fn(job->png, job, write_bytes, flush_bytes);
  png_set_IHDR(job->png, job->info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
               image->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(job->png, job->info);
  if (image->channels == 3) png_set_bgr(job->png);
  png_write_image(job->png, job->rows);
  png_write_end(job->png, NULL);
  return CREMA_OK;
}

crema_status cr_png_encode(const cr_image *image, cr_buffer *out) {
  png_job job = {.sink = out};
  crema_status status = CREMA_OK;
  CR_TRY(point_rows(&job, image));
  job.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
  if (job.png != NULL) job.info = png_create_info_struct(job.png);
  if (job.info == NULL) {
    status = cr_fail(CREMA_E_NO_MEMORY, "PNG: cannot start the encoder");
  } else {
    status = encode(&job, image);
  }
  png_destroy_write_struct(&job.png, &job.info);
  free(job.rows);
  return status;
}
