/* The line of a layer in the text of a net, and of a field in the text of a solver. For messages
 * about texts that parse but make no sense. */
#include <string.h>

#include "proto/proto.h"
#include "proto/text_token.h"

/* The result of scanning a layer's message. */
typedef struct layer_note {
  size_t line;
  cr_buffer name;
  bool elsewhere, here; /* its include rules name a phase; they name the one looked for */
  bool left_out;        /* an exclude rule names the phase looked for */
} layer_note;

static bool token_equals(const cr_token *token, const char *word) {
  return token->size == strlen(word) && memcmp(token->text, word, token->size) == 0;
}

static bool opens(const cr_token *token) {
  return cr_token_is(token, '{') || cr_token_is(token, '<');
}

static bool closes(const cr_token *token) {
  return cr_token_is(token, '}') || cr_token_is(token, '>');
}

/* Whether a layer belongs to the phase according to its rules about phases. */
static bool is_of_phase(bool elsewhere, bool here, bool left_out) {
  return (here || !elsewhere) && !left_out;
}

bool cr_layer_names_phase(const Caffe__LayerParameter *layer, Caffe__Phase phase) {
  bool elsewhere = false, here = false, left_out = false;
  for (size_t i = 0; i < layer->n_include; ++i) {
    elsewhere = elsewhere || layer->include[i]->has_phase;
    here = here || (layer->include[i]->has_phase && layer->include[i]->phase == phase);
  }
  for (size_t i = 0; i < layer->n_exclude; ++i) {
    left_out = left_out || (layer->exclude[i]->has_phase && layer->exclude[i]->phase == phase);
  }
  return is_of_phase(elsewhere, here, left_out);
}

/* The state of the scan of a layer's message. */
typedef struct layer_scan {
  layer_note *note;
  Caffe__Phase phase;
  int depth;            /* of nested messages; 1 in the layer's own */
  cr_token field, rule; /* the name of the last field, and of the last one in a nested message */
  enum { NO_VALUE, VALUE, STRINGS } expected; /* strings that follow each other are one */
} layer_scan;

static crema_status note_value(layer_scan *scan, const cr_token *value) {
  layer_note *note = scan->note;
  /* In the first format a layer's own fields are in a message "layer" inside it. */
  const bool own = scan->depth == 1 || (scan->depth == 2 && token_equals(&scan->rule, "layer"));
  if (own && token_equals(&scan->field, "name") && value->kind == CR_TOKEN_STRING) {
    return cr_token_string(value, &note->name);
  }
  if (scan->depth != 2 || !token_equals(&scan->field, "phase")) return CREMA_OK;
  uint64_t number = 0;
  bool same = token_equals(value, scan->phase == CAFFE__PHASE__TRAIN ? "TRAIN" : "TEST");
  if (value->kind == CR_TOKEN_INTEGER) {
    same = cr_token_integer(value, INT32_MAX, &number) && number == (uint64_t)scan->phase;
  }
  if (token_equals(&scan->rule, "include")) {
    note->elsewhere = true;
    note->here = note->here || same;
  } else if (token_equals(&scan->rule, "exclude")) {
    note->left_out = note->left_out || same;
  }
  return CREMA_OK;
}

static crema_status scan_token(layer_scan *scan, const cr_token *token) {
  bool string = token->kind == CR_TOKEN_STRING;
  if (scan->expected == VALUE ? token->kind != CR_TOKEN_SYMBOL
                              : scan->expected == STRINGS && string) {
    scan->expected = string ? STRINGS : NO_VALUE;
    return note_value(scan, token);
  }
  scan->expected = cr_token_is(token, ':') ? VALUE : NO_VALUE;
  if (opens(token)) {
    if (scan->depth++ == 1) scan->rule = scan->field;
  } else if (closes(token)) {
    --scan->depth;
  } else if (token->kind == CR_TOKEN_NAME) {
    scan->field = *token;
  }
  return CREMA_OK;
}

/* Reads to the end of the layer's message, whose opening bracket has been read. False when the text
 * ends before it or has a malformed token. */
static bool scan_layer(cr_scanner *scanner, layer_note *note, Caffe__Phase phase) {
  layer_scan scan = {.note = note, .phase = phase, .depth = 1};
  cr_token token = {0};
  while (scan.depth > 0) {
    if (cr_scanner_next(scanner, &token) != CREMA_OK || token.kind == CR_TOKEN_END) return false;
    if (scan_token(&scan, &token) != CREMA_OK) return false;
  }
  return true;
}

/* The state of the search through the text. */
typedef struct search_state {
  const cr_layer_search *search;
  size_t fields;    /* messages called search->field so far */
  size_t found;     /* layers of that name and phase so far */
  size_t any,
      line; /* line of the first layer of that name, and of the layer searched for; 0: not found */
} search_state;

/* Records a scanned layer; true if it is the layer searched for. */
static bool is_it(search_state *state, const layer_note *note) {
  const cr_layer_search *search = state->search;
  const char *name = note->name.data == NULL ? "" : note->name.data;
  if (strcmp(name, search->name) != 0) return false;
  if (state->any == 0) state->any = note->line;
  if (!is_of_phase(note->elsewhere, note->here, note->left_out)) return false;
  if (state->found++ != search->before) return false;
  state->line = note->line;
  return true;
}

size_t cr_text_layer_line(const char *text, size_t size, const cr_layer_search *search) {
  search_state state = {.search = search};
  cr_scanner scanner;
  cr_token token = {0}, field = {0};
  int depth = 0, net = search->field == NULL ? 0 : -1; /* the depth of the net's own fields */
  cr_scanner_start(&scanner, text, size, "text");
  while (cr_scanner_next(&scanner, &token) == CREMA_OK && token.kind != CR_TOKEN_END) {
    if (opens(&token)) {
      bool layer = token_equals(&field, "layer") || token_equals(&field, "layers");
      if (depth == net && layer) {
        layer_note note = {.line = token.line};
        const bool whole = scan_layer(&scanner, &note, search->phase);
        const bool done = !whole || is_it(&state, &note);
        cr_buffer_free(&note.name);
        if (done) break;
        continue; /* in a list, the next layer follows */
      }
      bool holder = depth == 0 && search->field != NULL && token_equals(&field, search->field);
      if (holder && state.fields++ == search->number) net = 1;
      ++depth;
    } else if (depth > 0 && closes(&token)) {
      if (--depth < net) break;
    }
    if (token.kind == CR_TOKEN_NAME) field = token;
  }
  return state.line != 0 ? state.line : state.any;
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
