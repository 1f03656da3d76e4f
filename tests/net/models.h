/* The nets of models/, at sizes that tests can run. */
#ifndef CR_TESTS_NET_MODELS_H
#define CR_TESTS_NET_MODELS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/file.h"

/* The text behind the layers that read data, which are the first of the file. */
static inline const char *behind_data(const char *text) {
  const char *at = text;
  for (const char *next; (next = strstr(at, "data_param {")) != NULL;) {
    at = strstr(next, "\n}");
    assert_non_null(at);
    at += 2;
  }
  return at;
}

/* Appends the text with an eighth of the channels: all numbers of outputs and of groups that are
 * multiples of 16, which numbers of classes and of boxes are not. */
static inline void put_narrow(const char *text, cr_buffer *out) {
  static const char *const fields[] = {"num_output: ", "group: "};
  while (*text != '\0') {
    size_t length = 0;
    for (int i = 0; i < 2 && length == 0; ++i) {
      if (strncmp(text, fields[i], strlen(fields[i])) == 0) length = strlen(fields[i]);
    }
    ok(cr_buffer_append(out, text, length == 0 ? 1 : length));
    text += length == 0 ? 1 : length;
    if (length == 0) continue;
    char *end;
    const long number = strtol(text, &end, 10);
    ok(cr_buffer_print(out, "%ld", number % 16 == 0 ? number / 8 : number));
    text = end;
  }
}

/* Appends the train net of models/`name` without its data: inputs of the given shapes are first. */
static inline void put_train_net(const char *name, const char *data, const char *label, bool narrow,
                                 cr_buffer *out) {
  char path[512];
  cr_buffer file = {0};
  snprintf(path, sizeof path, CREMA_SOURCE_DIR "/models/%s/train_val.prototxt", name);
  ok(cr_file_read(path, &file));
  ok(cr_buffer_print(out,
                     "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param { "
                     "shape { %s } shape { %s } } }\n",
                     data, label));
  const char *rest = behind_data(file.data);
  assert_true(rest > file.data);
  if (narrow) put_narrow(rest, out);
  else ok(cr_buffer_append(out, rest, strlen(rest)));
  cr_buffer_free(&file);
}

#endif
