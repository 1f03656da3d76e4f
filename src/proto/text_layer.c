/* Where a layer stands in the text of a net: for messages about nets that parse but do not fit
 * together. */
#include <string.h>

#include "proto/proto.h"
#include "proto/text_token.h"

/* What is noted of one layer's message while it is scanned. */
typedef struct layer_place {
  size_t line;
  cr_buffer name;
  bool elsewhere, here; /* its include rules name a phase; they name the one looked for */
  bool left_out;        /* an exclude rule names the phase looked for */
} layer_place;

static bool token_equals(const cr_token *token, const char *word) {
  return token->size == strlen(word) && memcmp(token->text, word, token->size) == 0;
}

static bool opens(const cr_token *token) {
  return cr_token_is(token, '{') || cr_token_is(token, '<');
}

static bool closes(const cr_token *token) {
  return cr_token_is(token, '}') || cr_token_is(token, '>');
}

static const char *phase_name(Caffe__Phase phase) {
  return phase == CAFFE__PHASE__TRAIN ? "TRAIN" : "TEST";
}

/* Whether a layer is one of the phase as far as its rules about phases say. */
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

/* What the scan of a layer's message stands at. */
typedef struct layer_scan {
  layer_place *place;
  Caffe__Phase phase;
  int depth;            /* messages around, the layer's own counted */
  cr_token field, rule; /* the last field's name, and the last one's that a message inside has */
  enum { NO_VALUE, VALUE, STRINGS } expected; /* strings that follow each other are one */
} layer_scan;

/* In the first format a layer's own fields are those of a message "layer" in it. */
static bool is_own_name(const layer_scan *scan, const cr_token *value) {
  return token_equals(&scan->field, "name") && value->kind == CR_TOKEN_STRING &&
         (scan->depth == 1 || (scan->depth == 2 && token_equals(&scan->rule, "layer")));
}

static crema_status note_value(layer_scan *scan, const cr_token *value) {
  layer_place *place = scan->place;
  if (is_own_name(scan, value)) return cr_token_string(value, &place->name);
  if (scan->depth != 2 || !token_equals(&scan->field, "phase")) return CREMA_OK;
  bool same = token_equals(value, phase_name(scan->phase));
  if (token_equals(&scan->rule, "include")) {
    place->elsewhere = true;
    place->here = place->here || same;
  } else if (token_equals(&scan->rule, "exclude")) {
    place->left_out = place->left_out || same;
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

/* Reads on to the end of the layer's message, whose opening bracket was read. False at its end
 * or at a token that is none. */
static bool scan_layer(cr_scanner *scanner, layer_place *place, Caffe__Phase phase) {
  layer_scan scan = {.place = place, .phase = phase, .depth = 1};
  cr_token token;
  while (scan.depth > 0) {
    if (cr_scanner_next(scanner, &token) != CREMA_OK || token.kind == CR_TOKEN_END) return false;
    if (scan_token(&scan, &token) != CREMA_OK) return false;
  }
  return true;
}

/* The search while it goes through the text. */
typedef struct search_state {
  const cr_layer_search *search;
  size_t fields;    /* messages search->field that were begun */
  size_t found;     /* layers of the name and the phase */
  size_t any, line; /* the first of the name; the one looked for; 0: none yet */
} search_state;

/* Takes note of a layer that was scanned; true when it is the one. */
static bool is_it(search_state *state, const layer_place *place) {
  const cr_layer_search *search = state->search;
  const char *name = place->name.data == NULL ? "" : place->name.data;
  if (strcmp(name, search->name) != 0) return false;
  if (state->any == 0) state->any = place->line;
  if (!is_of_phase(place->elsewhere, place->here, place->left_out)) return false;
  if (state->found++ != search->before) return false;
  state->line = place->line;
  return true;
}

static bool search_layer(search_state *state, cr_scanner *scanner, size_t line) {
  layer_place place = {.line = line};
  bool whole = scan_layer(scanner, &place, state->search->phase);
  bool done = !whole || is_it(state, &place);
  cr_buffer_free(&place.name);
  return done;
}

size_t cr_text_layer_line(const char *text, size_t size, const cr_layer_search *search) {
  search_state state = {.search = search};
  cr_scanner scanner;
  cr_token token, field = {0};
  int depth = 0, net = search->field == NULL ? 0 : -1; /* the depth of the net's own fields */
  cr_scanner_start(&scanner, text, size, "text");
  while (cr_scanner_next(&scanner, &token) == CREMA_OK && token.kind != CR_TOKEN_END) {
    if (opens(&token)) {
      bool layer = token_equals(&field, "layer") || token_equals(&field, "layers");
      if (depth == net && layer) {
        if (search_layer(&state, &scanner, token.line)) break;
        continue; /* in a list, the next one follows */
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
