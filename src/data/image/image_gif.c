/* GIF through giflib: the first frame on the file's background. */
#include <gif_lib.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "data/image/image_codec.h"

typedef struct gif_source {
  const uint8_t *at, *end;
} gif_source;

static int read_bytes(GifFileType *gif, GifByteType *out, int size) {
  gif_source *source = gif->UserData;
  const size_t left = (size_t)(source->end - source->at);
  const size_t count = (size_t)size < left ? (size_t)size : left;
  memcpy(out, source->at, count);
  source->at += count;
  return (int)count;
}

static crema_status fail_gif(int code) {
  const char *text = GifErrorString(code);
  return cr_fail(code == D_GIF_ERR_NOT_ENOUGH_MEM ? CREMA_E_NO_MEMORY : CREMA_E_CORRUPT, "GIF: %s",
                 text == NULL ? "the file is damaged" : text);
}

/* Moves to the first frame and reads its place. */
static crema_status find_frame(GifFileType *gif) {
  for (;;) {
    GifRecordType type;
    if (DGifGetRecordType(gif, &type) == GIF_ERROR) return fail_gif(gif->Error);
    if (type == TERMINATE_RECORD_TYPE)
      return cr_fail(CREMA_E_CORRUPT, "GIF: the file has no image");
    if (type == IMAGE_DESC_RECORD_TYPE) break;
    GifByteType *block = NULL;
    int code = 0;
    int done = DGifGetExtension(gif, &code, &block);
    while (done != GIF_ERROR && block != NULL) done = DGifGetExtensionNext(gif, &block);
    if (done == GIF_ERROR) return fail_gif(gif->Error);
  }
  return DGifGetImageDesc(gif) == GIF_ERROR ? fail_gif(gif->Error) : CREMA_OK;
}

/* The colour of an index as blue, green, red; black without one. */
static void color_of(const ColorMapObject *map, int index, uint8_t out[3]) {
  memset(out, 0, 3);
  if (map == NULL || index >= map->ColorCount) return;
  const GifColorType color = map->Colors[index];
  out[0] = color.Blue;
  out[1] = color.Green;
  out[2] = color.Red;
}

static crema_status read_row(GifFileType *gif, int y, GifByteType *line, cr_image *out) {
  const GifImageDesc *frame = &gif->Image;
  const ColorMapObject *map = frame->ColorMap != NULL ? frame->ColorMap : gif->SColorMap;
  if (DGifGetLine(gif, line, frame->Width) == GIF_ERROR) return fail_gif(gif->Error);
  for (int x = 0; x < frame->Width; ++x) {
    uint8_t bgr[3];
    const size_t at = (size_t)(frame->Top + y) * (size_t)out->width + (size_t)(frame->Left + x);
    color_of(map, line[x], bgr);
    cr_image_put(out->pixels + at * (size_t)out->channels, out->channels, bgr);
  }
  return CREMA_OK;
}

/* An interlaced frame has every eighth row first, then the rows between them. */
static crema_status read_rows(GifFileType *gif, GifByteType *line, cr_image *out) {
  static const struct { int first, step; } passes[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  const int height = gif->Image.Height;
  for (int pass = 0; pass < (gif->Image.Interlace ? 4 : 1); ++pass) {
    const int step = gif->Image.Interlace ? passes[pass].step : 1;
    for (int y = passes[pass].first; y < height; y += step) CR_TRY(read_row(gif, y, line, out));
  }
  return CREMA_OK;
}

static crema_status read_frame(GifFileType *gif, cr_image *out) {
  uint8_t background[3];
  color_of(gif->SColorMap, gif->SBackGroundColor, background);
  const size_t pixels = (size_t)out->height * (size_t)out->width;
  for (size_t i = 0; i < pixels; ++i) {
    cr_image_put(out->pixels + i * (size_t)out->channels, out->channels, background);
  }
  GifByteType *line = malloc((size_t)gif->Image.Width);
  if (line == NULL) return cr_fail_memory((size_t)gif->Image.Width, "a row of an image");
  const crema_status status = read_rows(gif, line, out);
  free(line);
  return status;
}

static crema_status decode(GifFileType *gif, size_t size, cr_image_color color, bool probe,
                           cr_image *out) {
  enum { DENSEST = 4096 }; /* pixels of a code */
  CR_TRY(find_frame(gif));
  const GifImageDesc *frame = &gif->Image;
  int height = frame->Top + frame->Height, width = frame->Left + frame->Width;
  if (height < gif->SHeight) height = gif->SHeight;
  if (width < gif->SWidth) width = gif->SWidth;
  if (frame->Width < 1 || frame->Height < 1 || frame->Top < 0 || frame->Left < 0) {
    return cr_fail(CREMA_E_CORRUPT, "GIF: a frame without pixels");
  }
  if ((uint64_t)height * (uint64_t)width / DENSEST > size) {
    return cr_fail(CREMA_E_CORRUPT, "GIF: %d x %d pixels in %zu bytes", height, width, size);
  }
  const int channels = cr_image_channels(color, false);
  if (probe) return cr_image_set_extents(out, height, width, channels);
  CR_TRY(cr_image_reserve(out, height, width, channels));
  return read_frame(gif, out);
}

crema_status cr_gif_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                           cr_image *out) {
  gif_source source = {bytes, bytes + size};
  int code = 0;
  GifFileType *gif = DGifOpen(&source, read_bytes, &code);
  if (gif == NULL) return fail_gif(code);
  const crema_status status = decode(gif, size, color, probe, out);
  (void)DGifCloseFile(gif, &code);
  return status;
}
