#include "layers/common/python_fields.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/c_locale.h"
#include "core/fail.h"

bool cr_is_python(const cr_layer *layer) {
  return layer->param->type != NULL && strcmp(layer->param->type, "Python") == 0;
}

static const char *skip(const char *at) {
  while (isspace((unsigned char)*at)) ++at;
  return at;
}

/* The text after `c`, or NULL if another character comes first. */
static const char *expect(const char *at, char c) {
  if (at == NULL) return NULL;
  at = skip(at);
  return *at == c ? at + 1 : NULL;
}

/* A name, with or without quotes; `out` has room for 64 bytes. */
static const char *read_name(const char *at, char *out) {
  size_t length = 0;
  at = skip(at);
  const char quote = *at == '\'' || *at == '"' ? *at++ : '\0';
  while (isalnum((unsigned char)at[length]) || at[length] == '_') ++length;
  if (length == 0 || length >= 64) return NULL;
  memcpy(out, at, length);
  out[length] = '\0';
  at += length;
  if (quote == '\0') return at;
  return *at == quote ? at + 1 : NULL;
}

/* A number, or some in brackets, which YAML's tag for tuples of Python may precede, as in the files
 * for COCO. */
static const char *read_numbers(const char *at, cr_python_field *field) {
  static const char tuple[] = "!!python/tuple";
  at = skip(at);
  if (strncmp(at, tuple, sizeof tuple - 1) == 0) {
    at = skip(at + sizeof tuple - 1);
    if (*at != '[') return NULL;
  }
  const char close = *at == '[' ? ']' : *at == '(' ? ')' : '\0';
  if (close != '\0') ++at;
  for (field->count = 0; field->count < field->most;) {
    char *end = NULL;
    at = skip(at);
    if (close != '\0' && *at == close && field->count > 0) return at + 1;
    const float value = strtof(at, &end);
    if (end == at || !isfinite(value)) return NULL;
    field->value[field->count++] = value;
    at = skip(end);
    if (close == '\0') return at;
    if (*at == ',') ++at;
    else if (*at != close) return NULL;
  }
  return expect(at, close);
}

static crema_status unknown(const cr_layer *layer, const char *name, const cr_python_field *field,
                            int fields) {
  cr_buffer known = {0};
  crema_status status = CREMA_OK;
  for (int i = 0; i < fields && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&known, "%s%s", i ? ", " : "", field[i].name);
  }
  if (status == CREMA_OK) {
    status =
        cr_layer_fail(layer, CREMA_E_UNKNOWN_NAME,
                      "param_str has a field '%s'; crema's own layer knows: %s", name, known.data);
  }
  cr_buffer_free(&known);
  return status;
}

static crema_status read_fields(const cr_layer *layer, const char *text, cr_python_field *field,
                                int fields) {
  const char *at = skip(text);
  const bool braces = *at == '{';
  if (braces) at = skip(at + 1);
  while (at != NULL && *at != '\0' && *at != '}') {
    char name[64];
    int i = 0;
    at = expect(read_name(at, name), ':');
    if (at == NULL) break;
    while (i < fields && strcmp(field[i].name, name) != 0) ++i;
    if (i == fields) return unknown(layer, name, field, fields);
    at = read_numbers(at, &field[i]);
    if (at == NULL) break;
    at = skip(at);
    if (*at == ',') at = skip(at + 1);
  }
  if (at != NULL && braces) at = expect(at, '}');
  if (at != NULL && *skip(at) == '\0') return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_PARSE,
                       "param_str is \"%.100s\", expected fields like 'feat_stride': 16", text);
}

crema_status cr_python_fields(const cr_layer *layer, cr_python_field *field, int fields) {
  const Caffe__PythonParameter *python = layer->param->python_param;
  cr_c_locale locale;
  if (!cr_is_python(layer) || python == NULL || python->param_str == NULL) return CREMA_OK;
  CR_TRY(cr_c_locale_begin(&locale));
  crema_status status = read_fields(layer, python->param_str, field, fields);
  cr_c_locale_end(&locale);
  return status;
}
