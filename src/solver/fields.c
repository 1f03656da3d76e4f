#include "solver/fields.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fail.h"
#include "core/file.h"

crema_status cr_field_fail(crema_status code, const char *field, const char *fmt, ...) {
  const cr_where where = {.field = field};
  va_list args;
  va_start(args, fmt);
  (void)cr_fail_at_list(code, &where, fmt, args);
  va_end(args);
  return code;
}

/* Reads the file a second time, as a solver keeps no text; a pipe cannot be read twice. */
size_t cr_field_line(const char *path, const char *field) {
  cr_buffer text = {0};
  struct stat info;
  size_t line = 0;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  if (cr_file_read(path, &text) == CREMA_OK) {
    line = cr_text_field_line(text.data, text.size, field);
  }
  cr_buffer_free(&text);
  return line;
}

crema_status cr_field_locate(crema_status code, const char *path) {
  size_t line = 0;
  if (code == CREMA_OK) return code;
  if (cr_error_field()[0] != '\0') {
    cr_error *error = cr_error_keep();
    if (error != NULL) line = cr_field_line(path, cr_error_field());
    if (error != NULL) cr_error_again(code, error);
    free(error);
  }
  if (line == 0) return cr_fail_in(code, "%s", path);
  return cr_fail_where(code, &(cr_where){.file = path, .line = line});
}

static crema_status check_finite(const char *name, float value) {
  if (isfinite(value)) return CREMA_OK;
  return cr_field_fail(CREMA_E_RANGE, name, "%s must be a finite number, found %g", name,
                       (double)value);
}

static crema_status check_floats(const ProtobufCMessage *message,
                                 const ProtobufCFieldDescriptor *field) {
  const char *member = (const char *)message + field->offset;
  if (field->label != PROTOBUF_C_LABEL_REPEATED) {
    return check_finite(field->name, *(const float *)(const void *)member);
  }
  const float *value = *(const float *const *)(const void *)member;
  const char *counter = (const char *)message + field->quantifier_offset;
  for (size_t i = 0; i < *(const size_t *)(const void *)counter; ++i) {
    CR_TRY(check_finite(field->name, value[i]));
  }
  return CREMA_OK;
}

crema_status cr_fields_check(const Caffe__SolverParameter *param) {
  const ProtobufCMessageDescriptor *type = param->base.descriptor;
  const struct {
    const char *name;
    double value;
  } counts[] = {
      {"max_iter", param->max_iter},
      {"test_interval", param->test_interval},
      {"display", param->display},
      {"snapshot", param->snapshot},
      {"rampup_interval", param->rampup_interval},
      {"warmup_iter", param->warmup_iter},
      {"early_stop_patience", param->early_stop_patience},
      {"warmup_start_lr", (double)param->warmup_start_lr},
      {"early_stop_min_change", (double)param->early_stop_min_change},
      {"ema_decay", (double)param->ema_decay},
  };
  for (unsigned i = 0; i < type->n_fields; ++i) {
    if (type->fields[i].type != PROTOBUF_C_TYPE_FLOAT) continue;
    CR_TRY(check_floats(&param->base, &type->fields[i]));
  }
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    if (counts[i].value >= 0) continue;
    return cr_field_fail(CREMA_E_RANGE, counts[i].name, "%s must not be negative, found %g",
                         counts[i].name, counts[i].value);
  }
  if (param->ema_decay < 1) return CREMA_OK;
  return cr_field_fail(CREMA_E_RANGE, "ema_decay", "ema_decay must be below 1, found %g",
                       (double)param->ema_decay);
}

crema_status cr_fields_check_prefix(const char *prefix, const char *path) {
  const char *slash = strrchr(prefix, '/');
  struct stat info;
  if (slash == NULL || slash == prefix) return CREMA_OK;
  char *folder = strndup(prefix, (size_t)(slash - prefix));
  if (folder == NULL) return cr_fail_memory(strlen(prefix) + 1, "a path");
  crema_status status = CREMA_OK;
  if (stat(folder, &info) != 0 && errno == ENOENT) {
    status = cr_field_fail(CREMA_E_IO, "snapshot_prefix",
                           "snapshot_prefix \"%s\": the folder '%s' does not exist; create it or "
                           "choose another prefix",
                           prefix, folder);
  }
  free(folder);
  return cr_field_locate(status, path);
}
