/* The line of a layer in the text of a net, and of a field in the text of a solver. For messages
 * about texts that parse but make no sense. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "proto/text_token.h"
#include "proto/wire_format.h"

/* The line is an unknown field of a wire type that no file has. Copies of the message keep it, and
 * writers omit it. */
static ProtobufCMessageUnknownField *find_line(const ProtobufCMessage *layer) {
  for (size_t i = 0; i < layer->n_unknown_fields; ++i) {
    ProtobufCMessageUnknownField *field = &layer->unknown_fields[i];
    if ((int)field->wire_type == CR_WIRE_NOTE) return field;
  }
  return NULL;
}

crema_status cr_layer_set_line(ProtobufCMessage *layer, size_t line) {
  const size_t size = (layer->n_unknown_fields + 1) * sizeof *layer->unknown_fields;
  ProtobufCMessageUnknownField *field = find_line(layer);
  if (field == NULL) {
    uint8_t *data = cr_proto_alloc(sizeof line);
    void *grown = data == NULL ? NULL : realloc(layer->unknown_fields, size);
    if (grown == NULL) {
      free(data);
      return cr_fail_memory(size + sizeof line, "a layer's line");
    }
    layer->unknown_fields = grown;
    field = &layer->unknown_fields[layer->n_unknown_fields++];
    *field = (ProtobufCMessageUnknownField){
        .wire_type = (ProtobufCWireType)CR_WIRE_NOTE, .len = sizeof line, .data = data};
  }
  memcpy(field->data, &line, sizeof line);
  return CREMA_OK;
}

size_t cr_layer_line(const ProtobufCMessage *layer) {
  const ProtobufCMessageUnknownField *field = find_line(layer);
  size_t line = 0;
  if (field != NULL) memcpy(&line, field->data, sizeof line);
  return line;
}

static bool token_equals(const cr_token *token, const char *word) {
  return token->size == strlen(word) && memcmp(token->text, word, token->size) == 0;
}

static bool opens(const cr_token *token) {
  return cr_token_is(token, '{') || cr_token_is(token, '<');
}

static bool closes(const cr_token *token) {
  return cr_token_is(token, '}') || cr_token_is(token, '>');
}

size_t cr_text_field_line(const char *text, size_t size, const char *field) {
  cr_scanner scanner;
  cr_token token = {0};
  size_t line = 0;
  int depth = 0;
  bool value = false; /* after a colon; an enum's value is also a name */
  cr_scanner_start(&scanner, text, size, "text");
  while (cr_scanner_next(&scanner, &token) == CREMA_OK && token.kind != CR_TOKEN_END) {
    if (opens(&token)) ++depth;
    else if (closes(&token)) --depth;
    else if (depth == 0 && !value && token_equals(&token, field)) line = token.line;
    value = cr_token_is(&token, ':');
  }
  return line;
}
