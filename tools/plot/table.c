#include "table.h"

#include <string.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/file.h"

/* A field, in quotes if it has commas, quotes or line breaks. */
static crema_status add_field(cr_buffer *out, const char *text) {
  if (strpbrk(text, ",\"\r\n") == NULL) return cr_buffer_print(out, "%s,", text);
  CR_TRY(cr_buffer_append(out, "\"", 1));
  for (; *text != '\0'; ++text) {
    if (*text == '"') CR_TRY(cr_buffer_append(out, "\"", 1));
    CR_TRY(cr_buffer_append(out, text, 1));
  }
  return cr_buffer_append(out, "\",", 2);
}

static crema_status add_curve(cr_buffer *out, const plot_run *run, const plot_curve *curve) {
  for (size_t i = 0; i < curve->count; ++i) {
    CR_TRY(add_field(out, run->name));
    CR_TRY(add_field(out, curve->panel));
    CR_TRY(add_field(out, curve->name));
    CR_TRY(cr_buffer_print(out, "%.15g,%.9g\r\n", curve->x[i], curve->y[i]));
  }
  return CREMA_OK;
}

crema_status table_write(const plot_run *run, size_t runs, const char *path) {
  cr_buffer out = {0};
  crema_status status = cr_buffer_print(&out, "run,quantity,curve,iteration,value\r\n");
  for (size_t r = 0; r < runs; ++r) {
    for (size_t i = 0; i < run[r].curves && status == CREMA_OK; ++i) {
      status = add_curve(&out, &run[r], run[r].curve[i]);
    }
  }
  if (status == CREMA_OK) status = cr_file_write(path, out.data, out.size);
  cr_buffer_free(&out);
  return status;
}
