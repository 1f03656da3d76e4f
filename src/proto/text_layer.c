/* Where a layer stands in the text of a net: for messages about nets that parse but do not fit
 * together. */
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "proto/proto.h"
#include "proto/text_token.h"

/* What is noted of one layer's message while it is scanned. */
typedef struct layer_place {
  size_t line;
  bool named;      /* its name is the one looked for */
  bool any_phase;  /* it names a phase in a rule */
  bool same_phase; /* it names the phase looked for */
} layer_place;

static bool token_equals(const cr_token *token, const char *word) {
  return token->size == strlen(word) && memcmp(token->text, word, token->size) == 0;
}

/* A string token whose content, without escapes, is `word`. */
static bool token_quotes(const cr_token *token, const char *word) {
  size_t size = strlen(word);
  return token->kind == CR_TOKEN_STRING && token->size == size + 2 &&
         memcmp(token->text + 1, word, size) == 0;
}

/* Notes what the value of `field` says; `depth` counts messages around it, 1 inside the layer. */
static void note_value(layer_place *place, const cr_token *field, const cr_token *value, int depth,
                       const char *name, const char *phase) {
  if (token_equals(field, "name") && token_quotes(value, name)) place->named = true;
  if (token_equals(field, "phase") && depth == 2) {
    place->any_phase = true;
    if (token_equals(value, phase)) place->same_phase = true;
  }
}

/* Reads on to the end of the layer's message, whose opening bracket was read. False at its end
 * or at a token that is none. */
static bool scan_layer(cr_scanner *scanner, layer_place *place, const char *name,
                       const char *phase) {
  cr_token field = {0}, token;
  for (int depth = 1; depth > 0;) {
    if (cr_scanner_next(scanner, &token) != CREMA_OK || token.kind == CR_TOKEN_END) return false;
    if (cr_token_is(&token, '{') || cr_token_is(&token, '<')) ++depth;
    else if (cr_token_is(&token, '}') || cr_token_is(&token, '>')) --depth;
    else if (cr_token_is(&token, ':')) continue;
    else if (field.text != NULL) note_value(place, &field, &token, depth, name, phase);
    field = token.kind == CR_TOKEN_NAME ? token : (cr_token){0};
  }
  return true;
}

/* The line of the best match: one that names the phase or none, else the first of the name. */
static size_t find_in_text(const char *text, size_t size, const char *name, const char *phase) {
  cr_scanner scanner;
  cr_token token;
  size_t first = 0;
  int depth = 0;
  bool layer = false;
  cr_scanner_start(&scanner, text, size, "text");
  while (cr_scanner_next(&scanner, &token) == CREMA_OK && token.kind != CR_TOKEN_END) {
    bool opens = cr_token_is(&token, '{') || cr_token_is(&token, '<');
    if (opens && depth == 0 && layer) {
      layer_place place = {.line = token.line};
      if (!scan_layer(&scanner, &place, name, phase)) break;
      if (place.named && (place.same_phase || !place.any_phase)) return place.line;
      if (place.named && first == 0) first = place.line;
    } else if (opens) {
      ++depth;
    } else if (depth > 0 && (cr_token_is(&token, '}') || cr_token_is(&token, '>'))) {
      --depth;
    }
    if (!cr_token_is(&token, ':')) {
      layer = token_equals(&token, "layer") || token_equals(&token, "layers");
    }
  }
  return first;
}

size_t cr_text_layer_line(const char *path, const char *name, Caffe__Phase phase) {
  cr_buffer text = {0};
  struct stat info;
  size_t line = 0;
  /* A pipe has nothing to say a second time, and would be waited for. */
  if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && cr_file_read(path, &text) == CREMA_OK) {
    line =
        find_in_text(text.data, text.size, name, phase == CAFFE__PHASE__TRAIN ? "TRAIN" : "TEST");
  }
  cr_buffer_free(&text);
  return line;
}
