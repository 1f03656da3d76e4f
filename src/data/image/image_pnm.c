/* PBM, PGM and PPM, as text (P1 to P3) and as bytes (P4 to P6). A file with several images gives
 * the first. */
#include <ctype.h>

#include "core/fail.h"
#include "data/image/image_codec.h"

typedef struct pnm_job {
  const uint8_t *at, *end;
  char kind; /* '1' to '6' */
  int height, width, most;
} pnm_job;

static crema_status fail_pnm(const char *text) {
  return cr_fail(CREMA_E_CORRUPT, "PNM: %s", text);
}

/* Skips blanks and comments, which last to the end of their line. */
static void skip_blanks(pnm_job *job) {
  for (bool comment = false; job->at < job->end; ++job->at) {
    if (*job->at == '#') comment = true;
    else if (*job->at == '\n' || *job->at == '\r') comment = false;
    else if (!comment && isspace(*job->at) == 0) return;
  }
}

/* A natural number of at most `most`. */
static crema_status read_number(pnm_job *job, int most, int *out) {
  skip_blanks(job);
  if (job->at == job->end) return fail_pnm("the file is truncated");
  if (isdigit(*job->at) == 0) return fail_pnm("expected a number");
  for (*out = 0; job->at < job->end && isdigit(*job->at) != 0; ++job->at) {
    *out = 10 * *out + (*job->at - '0');
    if (*out > most) return cr_fail(CREMA_E_RANGE, "PNM: a number above %d", most);
  }
  return CREMA_OK;
}

static crema_status read_header(pnm_job *job) {
  job->kind = (char)job->at[1];
  job->at += 2;
  job->most = 1;
  CR_TRY(read_number(job, CR_IMAGE_MAX_SIDE, &job->width));
  CR_TRY(read_number(job, CR_IMAGE_MAX_SIDE, &job->height));
  if (job->kind != '1' && job->kind != '4') CR_TRY(read_number(job, 65535, &job->most));
  if (job->width < 1 || job->height < 1 || job->most < 1) return fail_pnm("a size of 0");
  if (job->kind < '4') return CREMA_OK;
  if (job->at == job->end || isspace(*job->at) == 0) return fail_pnm("expected a blank");
  ++job->at;
  return CREMA_OK;
}

/* A value of at most job->most as 8 bits; 16 bits lose the lower byte, as in a PNG. */
static uint8_t to_byte(const pnm_job *job, int value) {
  return (uint8_t)(job->most == 65535 ? value >> 8 : value * 255 / job->most);
}

/* The next value of an image in text. Digits of a PBM need no blanks between them. */
static crema_status read_text(pnm_job *job, uint8_t *out) {
  int value = 0;
  if (job->kind != '1') {
    CR_TRY(read_number(job, job->most, &value));
    *out = to_byte(job, value);
    return CREMA_OK;
  }
  skip_blanks(job);
  if (job->at == job->end) return fail_pnm("the file is truncated");
  if (*job->at != '0' && *job->at != '1') return fail_pnm("expected 0 or 1");
  *out = *job->at++ == '0' ? 255 : 0;
  return CREMA_OK;
}

/* The value number `i` of the row at job->at in bytes. */
static uint8_t byte_at(const pnm_job *job, size_t i) {
  if (job->kind == '4') return job->at[i / 8] >> (7 - i % 8) & 1 ? 0 : 255;
  if (job->most < 256) return to_byte(job, job->at[i] > job->most ? job->most : job->at[i]);
  const int value = job->at[2 * i] << 8 | job->at[2 * i + 1];
  return to_byte(job, value > job->most ? job->most : value);
}

static crema_status read_row(pnm_job *job, int planes, uint8_t *to, int channels) {
  for (size_t x = 0; x < (size_t)job->width; ++x, to += channels) {
    uint8_t bgr[3] = {0};
    for (int c = 0; c < planes; ++c) {
      uint8_t *value = &bgr[planes == 3 ? 2 - c : 0];
      if (job->kind < '4') CR_TRY(read_text(job, value));
      else *value = byte_at(job, x * (size_t)planes + (size_t)c);
    }
    if (planes == 1) bgr[1] = bgr[2] = bgr[0];
    cr_image_put(to, channels, bgr);
  }
  return CREMA_OK;
}

crema_status cr_pnm_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                           cr_image *out) {
  pnm_job job = {.at = bytes, .end = bytes + size};
  CR_TRY(read_header(&job));
  const int planes = job.kind == '3' || job.kind == '6' ? 3 : 1;
  const size_t values = (size_t)job.width * (size_t)planes;
  const size_t row = job.kind == '4' ? (values + 7) / 8 : values * (job.most > 255 ? 2 : 1);
  const size_t least = job.kind < '4' ? values * (job.kind == '1' ? 1 : 2) - 1 : row;
  if (least > (size_t)(job.end - job.at) / (size_t)job.height) {
    return fail_pnm("the file is truncated");
  }
  const int channels = cr_image_channels(color, planes == 1);
  if (probe) return cr_image_set_extents(out, job.height, job.width, channels);
  CR_TRY(cr_image_reserve(out, job.height, job.width, channels));
  for (int y = 0; y < job.height; ++y) {
    uint8_t *to = out->pixels + (size_t)y * (size_t)job.width * (size_t)channels;
    CR_TRY(read_row(&job, planes, to, channels));
    if (job.kind >= '4') job.at += row;
  }
  return CREMA_OK;
}
