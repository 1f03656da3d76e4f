/* Lists of clips: text files whose lines hold a folder of frames or a video, a number, and a label.
 * The number is the first frame, or how many frames there are. */
#ifndef CR_DATA_CLIP_LIST_H
#define CR_DATA_CLIP_LIST_H

#include <stdint.h>

#include "data/pipeline/image_list.h"

typedef struct cr_clip_list {
  cr_image_list lines; /* the names end before the numbers */
  int *number;         /* of each line */
} cr_clip_list;

/* Reads a list; empty lines are skipped. Free with cr_clip_list_free. Errors: as
 * cr_image_list_read; CREMA_E_PARSE for a line without a number. */
crema_status cr_clip_list_read(const char *path, cr_clip_list *out) CREMA_MUST_USE;

/* Frees the memory and zeroes the struct. */
void cr_clip_list_free(cr_clip_list *list);

/* Appends the name of frame `number` to `out`. In `pattern`, %d (or %04d, with any number of
 * digits) is the number, %c the letter `axis`, and %% a percent sign. Errors: CREMA_E_ARGUMENT for
 * other uses of %, CREMA_E_NO_MEMORY. */
crema_status cr_clip_frame_name(const char *pattern, char axis, int64_t number,
                                cr_buffer *out) CREMA_MUST_USE;

#endif
