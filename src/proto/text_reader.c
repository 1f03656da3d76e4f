/* Protobuf text format to messages, driven by the descriptors. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/c_locale.h"
#include "core/did_you_mean.h"
#include "core/fail.h"
#include "core/log.h"
#include "proto/field.h"
#include "proto/text_token.h"

/* Nesting beyond this is refused: each level takes a frame of the stack. Real nets need 6. */
enum { DEPTH_MAX = 100, NAME_SIZE_MAX = 128 };

typedef struct text_reader {
  cr_scanner scanner;
  cr_token token; /* the next one, not yet consumed */
  cr_token last;  /* the one before it */
  cr_unknown_fields unknown;
  int depth;
  const char *first;             /* the text's first token */
  const ProtobufCMessage *layer; /* the one that is being read, or NULL */
} text_reader;

static crema_status read_fields(text_reader *r, ProtobufCMessage *message, char close);
static crema_status skip_fields(text_reader *r, char close);

static crema_status advance(text_reader *r) {
  r->last = r->token;
  return cr_scanner_next(&r->scanner, &r->token);
}

static crema_status fail_expected(text_reader *r, const char *what) {
  char shown[CR_TOKEN_SHOW];
  return cr_token_fail(&r->scanner, &r->token, "expected %s, found %s", what,
                       cr_token_show(&r->token, shown));
}

static crema_status try_symbol(text_reader *r, char symbol, bool *taken) {
  *taken = cr_token_is(&r->token, symbol);
  return *taken ? advance(r) : CREMA_OK;
}

static crema_status enter(text_reader *r) {
  if (++r->depth <= DEPTH_MAX) return CREMA_OK;
  return cr_token_fail(&r->scanner, &r->token, "nested deeper than %d levels", DEPTH_MAX);
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
                                                  const cr_token *token) {
  char name[NAME_SIZE_MAX];
  if (token->size + 2 > sizeof name || token->text[token->size - 1] == '_') return NULL;
  memcpy(name, token->text, token->size);
  name[token->size] = '\0';
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field_by_name(type, name);
  if (field != NULL) return field;
  memcpy(name + token->size, "_", 2);
  return protobuf_c_message_descriptor_get_field_by_name(type, name);
}

/* The known name that was probably meant, or NULL. */
static const char *nearest_name(const cr_token *token, const char *const *names, size_t count) {
  char name[NAME_SIZE_MAX];
  if (token->size >= sizeof name) return NULL;
  memcpy(name, token->text, token->size);
  name[token->size] = '\0';
  return cr_did_you_mean(name, names, count);
}

/* Fails at a token, and names the layer that is being read if its name and type are known by then.
 * A field of another Caffe is usually in a layer of that Caffe, whose type says more than the
 * field.
 */
static crema_status fail_in_layer(const text_reader *r, const cr_token *token, const char *text) {
  cr_where where = {.file = r->scanner.source, .line = token->line, .column = token->column};
  if (r->layer != NULL && r->layer->descriptor == &caffe__layer_parameter__descriptor) {
    const Caffe__LayerParameter *layer = (const Caffe__LayerParameter *)r->layer;
    where.layer = layer->name == NULL && layer->type != NULL ? "" : layer->name;
    where.type = layer->type;
  } else if (r->layer != NULL) {
    where.layer = ((const Caffe__V1LayerParameter *)r->layer)->name;
  }
  return cr_fail_at(CREMA_E_PARSE, &where, "%s", text);
}

/* The advice for a text of another kind, which its first field shows; NULL: it is of no such kind.
 */
static const char *other_kind(const text_reader *r, const cr_token *name,
                              const ProtobufCMessageDescriptor *type) {
  if (name->text != r->first) return NULL;
  if (type == &caffe__solver_parameter__descriptor &&
      find_field(&caffe__net_parameter__descriptor, name) != NULL) {
    return "this is a network, not a solver; a solver file names it with net: \"FILE\"";
  }
  if (type == &caffe__net_parameter__descriptor &&
      find_field(&caffe__solver_parameter__descriptor, name) != NULL) {
    return "this is a solver, not a network; give the file that its field net names";
  }
  if ((type == &caffe__net_parameter__descriptor || type == &caffe__solver_parameter__descriptor) &&
      find_field(&caffe__label_map__descriptor, name) != NULL) {
    return "this is a label map, neither a network nor a solver";
  }
  return NULL;
}

static crema_status fail_unknown_field(text_reader *r, const cr_token *name,
                                       const ProtobufCMessageDescriptor *type) {
  const char *advice = other_kind(r, name, type);
  if (advice != NULL) return cr_token_fail(&r->scanner, name, "%s", advice);
  const char *names[CR_FIELDS_MAX];
  unsigned count = type->n_fields < CR_FIELDS_MAX ? type->n_fields : CR_FIELDS_MAX;
  for (unsigned i = 0; i < count; ++i) names[i] = type->fields[i].name;
  const char *nearest = nearest_name(name, names, count);
  char shown[CR_TOKEN_SHOW], text[512];
  cr_token_show(name, shown);
  if (nearest == NULL) {
    snprintf(text, sizeof text, "unknown field %s in %s", shown, type->short_name);
  } else {
    snprintf(text, sizeof text, "unknown field %s in %s; did you mean \"%.*s\"?", shown,
             type->short_name, cr_field_name_length(nearest), nearest);
  }
  return fail_in_layer(r, name, text);
}

/* "A, B or C": the names of an enum's values, in order of their numbers; "" when they are many. */
static const char *list_values(const ProtobufCEnumDescriptor *type, char *out, size_t size) {
  enum { LISTED_MAX = 8 };
  size_t used = 0;
  out[0] = '\0';
  if (type->n_values > LISTED_MAX) return out;
  for (unsigned i = 0; i < type->n_values; ++i) {
    const char *gap = i == 0 ? "; it can be " : i + 1 == type->n_values ? " or " : ", ";
    int wrote = snprintf(out + used, size - used, "%s%s", gap, type->values[i].name);
    if (wrote < 0 || (size_t)wrote >= size - used) break;
    used += (size_t)wrote;
  }
  return out;
}

/* The words before the list of values. Only in the second format are types of layers an enum. */
static void describe_unknown_value(const ProtobufCEnumDescriptor *type, const char *shown,
                                   char *out, size_t size) {
  if (type == &caffe__v1_layer_parameter__layer_type__descriptor) {
    snprintf(out, size, "unknown layer type %s", shown);
  } else {
    snprintf(out, size, "%s is not a value of %s", shown, type->name);
  }
}

static crema_status fail_unknown_value(text_reader *r, const ProtobufCEnumDescriptor *type) {
  const char *names[CR_FIELDS_MAX];
  unsigned count = type->n_value_names < CR_FIELDS_MAX ? type->n_value_names : CR_FIELDS_MAX;
  for (unsigned i = 0; i < count; ++i) names[i] = type->values_by_name[i].name;
  const char *nearest = nearest_name(&r->token, names, count);
  char shown[CR_TOKEN_SHOW], values[256], what[256], text[512];
  cr_token_show(&r->token, shown);
  describe_unknown_value(type, shown, what, sizeof what);
  if (nearest == NULL) {
    snprintf(text, sizeof text, "%s%s", what, list_values(type, values, sizeof values));
  } else {
    snprintf(text, sizeof text, "%s; did you mean %s?", what, nearest);
  }
  return fail_in_layer(r, &r->token, text);
}

/* Shows a negative number with its sign, which is another token. */
static crema_status fail_not_natural(text_reader *r) {
  static const char wanted[] = "an integer of at least 0";
  const cr_token sign = r->token;
  if (sign.kind != CR_TOKEN_SYMBOL || sign.text[0] != '-') return fail_expected(r, wanted);
  CR_TRY(advance(r));
  if (r->token.kind != CR_TOKEN_INTEGER) return fail_expected(r, wanted);
  return cr_token_fail(&r->scanner, &sign, "expected %s, found -%.*s", wanted,
                       (int)(r->token.size < CR_TOKEN_SHOW ? r->token.size : CR_TOKEN_SHOW),
                       r->token.text);
}

/* The magnitude of an integer with |value| <= max, or <= max + 1 when it is negative. */
static crema_status read_integer(text_reader *r, bool is_signed, uint64_t max, uint64_t *magnitude,
                                 bool *negative) {
  *negative = false;
  if (is_signed) CR_TRY(try_symbol(r, '-', negative));
  if (r->token.kind != CR_TOKEN_INTEGER) {
    return is_signed ? fail_expected(r, "an integer") : fail_not_natural(r);
  }
  if (!cr_token_integer(&r->token, *negative ? max + 1 : max, magnitude)) {
    return cr_token_fail(
        &r->scanner, &r->token, "%s%.*s is out of range (%s%" PRIu64 " to %" PRIu64 ")",
        *negative ? "-" : "", (int)(r->token.size < CR_TOKEN_SHOW ? r->token.size : CR_TOKEN_SHOW),
        r->token.text, is_signed ? "-" : "", is_signed ? max + 1 : 0, max);
  }
  return advance(r);
}

static crema_status read_signed(text_reader *r, uint64_t max, int64_t *out) {
  uint64_t magnitude;
  bool negative;
  CR_TRY(read_integer(r, true, max, &magnitude, &negative));
  /* Complement arithmetic reaches INT64_MIN without overflow. */
  *out = negative && magnitude > 0 ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
  return CREMA_OK;
}

static bool name_is_one_of(const cr_token *token, const char *const *names) {
  for (; *names != NULL; ++names) {
    if (strlen(*names) == token->size && memcmp(*names, token->text, token->size) == 0) return true;
  }
  return false;
}

/* Infinity and NaN, in any case. */
static bool token_is_non_finite(const cr_token *token, double *out) {
  char lower[16];
  if (token->kind != CR_TOKEN_NAME || token->size >= sizeof lower) return false;
  for (size_t i = 0; i < token->size; ++i) lower[i] = (char)(token->text[i] | 0x20);
  lower[token->size] = '\0';
  if (strcmp(lower, "nan") == 0) *out = NAN;
  else if (strcmp(lower, "inf") == 0 || strcmp(lower, "infinity") == 0) *out = INFINITY;
  else return false;
  return true;
}

static crema_status read_double(text_reader *r, double *out) {
  bool negative;
  CR_TRY(try_symbol(r, '-', &negative));
  if (r->token.kind == CR_TOKEN_INTEGER || r->token.kind == CR_TOKEN_FLOAT) {
    if (!cr_token_double(&r->token, out)) return fail_expected(r, "a decimal number");
  } else if (!token_is_non_finite(&r->token, out)) {
    return fail_expected(r, "a number");
  }
  if (negative) *out = -*out;
  return advance(r);
}

static float to_float(double value) {
  if (value > FLT_MAX) {
    /* Halfway between the largest float and the next value of unlimited range. */
    return value <= 0x1.ffffffp127 ? FLT_MAX : INFINITY;
  }
  if (value < -FLT_MAX) return -to_float(-value);
  return (float)value;
}

static crema_status read_bool(text_reader *r, protobuf_c_boolean *out) {
  static const char *const yes[] = {"true", "True", "t", NULL};
  static const char *const no[] = {"false", "False", "f", NULL};
  uint64_t number = 0;
  if (r->token.kind == CR_TOKEN_INTEGER && cr_token_integer(&r->token, 1, &number)) {
    *out = number != 0;
  } else if (r->token.kind == CR_TOKEN_NAME && name_is_one_of(&r->token, yes)) {
    *out = 1;
  } else if (r->token.kind == CR_TOKEN_NAME && name_is_one_of(&r->token, no)) {
    *out = 0;
  } else {
    return fail_expected(r, "true or false");
  }
  return advance(r);
}

static crema_status read_enum(text_reader *r, const ProtobufCEnumDescriptor *type, int *out) {
  if (r->token.kind == CR_TOKEN_NAME) {
    char name[NAME_SIZE_MAX];
    const ProtobufCEnumValue *value = NULL;
    if (r->token.size < sizeof name) {
      memcpy(name, r->token.text, r->token.size);
      name[r->token.size] = '\0';
      value = protobuf_c_enum_descriptor_get_value_by_name(type, name);
    }
    if (value == NULL) {
      /* The engine does not change the result, so an engine of another Caffe (MKL2017) can be
       * skipped like an unknown field; the first value, DEFAULT, is used instead. */
      crema_status status = fail_unknown_value(r, type);
      if (r->unknown == CR_UNKNOWN_ERROR || strcmp(type->short_name, "Engine") != 0) return status;
      cr_log_warning("%s (ignored)", crema_error_text());
    }
    *out = value != NULL ? value->value : type->values[0].value;
    return advance(r);
  }
  cr_token start = r->token;
  if (start.kind != CR_TOKEN_INTEGER && !cr_token_is(&start, '-')) {
    return fail_expected(r, "the name of a value");
  }
  int64_t number;
  CR_TRY(read_signed(r, INT32_MAX, &number));
  if (protobuf_c_enum_descriptor_get_value(type, (int)number) == NULL) {
    return cr_token_fail(&r->scanner, &start, "%lld is not a value of %s", (long long)number,
                         type->name);
  }
  *out = (int)number;
  return CREMA_OK;
}

/* One or more adjacent string tokens. */
static crema_status read_bytes(text_reader *r, cr_buffer *out) {
  if (r->token.kind != CR_TOKEN_STRING) return fail_expected(r, "a string in quotes");
  while (r->token.kind == CR_TOKEN_STRING) {
    CR_TRY(cr_token_string(&r->token, out));
    CR_TRY(advance(r));
  }
  return cr_buffer_append(out, "", 0);
}

static crema_status read_string_slot(text_reader *r, bool is_text, void *slot) {
  cr_token start = r->token;
  cr_buffer bytes = {0};
  crema_status status = read_bytes(r, &bytes);
  if (status == CREMA_OK && is_text && memchr(bytes.data, '\0', bytes.size) != NULL) {
    status = cr_token_fail(&r->scanner, &start, "a NUL byte in a string");
  }
  if (status != CREMA_OK) {
    cr_buffer_free(&bytes);
    return status;
  }
  size_t size = bytes.size;
  char *data = cr_buffer_take(&bytes);
  if (is_text) *(char **)slot = data;
  else *(ProtobufCBinaryData *)slot = (ProtobufCBinaryData){size, (uint8_t *)data};
  return CREMA_OK;
}

static crema_status read_number_slot(text_reader *r, ProtobufCType type, void *slot) {
  int64_t number;
  uint64_t magnitude;
  double real;
  bool negative;
  switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
      CR_TRY(read_signed(r, INT32_MAX, &number));
      *(int32_t *)slot = (int32_t)number;
      return CREMA_OK;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: return read_signed(r, INT64_MAX, slot);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
      CR_TRY(read_integer(r, false, UINT32_MAX, &magnitude, &negative));
      *(uint32_t *)slot = (uint32_t)magnitude;
      return CREMA_OK;
    case PROTOBUF_C_TYPE_FLOAT:
      CR_TRY(read_double(r, &real));
      *(float *)slot = to_float(real);
      return CREMA_OK;
    case PROTOBUF_C_TYPE_DOUBLE: return read_double(r, slot);
    default: return read_integer(r, false, UINT64_MAX, slot, &negative);
  }
}

/* "{ ... }" or "< ... >" as a new message. */
static crema_status read_message(text_reader *r, const ProtobufCMessageDescriptor *type,
                                 ProtobufCMessage **out) {
  const size_t line = r->token.line;
  bool angle;
  CR_TRY(try_symbol(r, '<', &angle));
  if (!angle) {
    if (!cr_token_is(&r->token, '{')) return fail_expected(r, "\"{\"");
    CR_TRY(advance(r));
  }
  CR_TRY(enter(r));
  ProtobufCMessage *message;
  CR_TRY(cr_message_new(type, &message));
  bool layer =
      type == &caffe__layer_parameter__descriptor || type == &caffe__v1_layer_parameter__descriptor;
  if (layer) r->layer = message;
  crema_status status = layer ? cr_layer_set_line(message, line) : CREMA_OK;
  if (status == CREMA_OK) status = read_fields(r, message, angle ? '>' : '}');
  if (layer) r->layer = NULL;
  if (status == CREMA_OK) status = advance(r);
  if (status != CREMA_OK) {
    cr_message_free(message);
    return status;
  }
  --r->depth;
  *out = message;
  return CREMA_OK;
}

static crema_status read_value(text_reader *r, const ProtobufCFieldDescriptor *field, void *slot) {
  switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE: return read_message(r, field->descriptor, slot);
    case PROTOBUF_C_TYPE_STRING: return read_string_slot(r, true, slot);
    case PROTOBUF_C_TYPE_BYTES: return read_string_slot(r, false, slot);
    case PROTOBUF_C_TYPE_BOOL: return read_bool(r, slot);
    case PROTOBUF_C_TYPE_ENUM: return read_enum(r, field->descriptor, slot);
    default: return read_number_slot(r, field->type, slot);
  }
}

/* Reads one value of a repeated field. Capacity doubles: as the array was made here, it is full
 * whenever its length is a power of two. */
static crema_status read_element(text_reader *r, ProtobufCMessage *message,
                                 const ProtobufCFieldDescriptor *field) {
  size_t *count = cr_field_length(message, field);
  if ((*count & (*count - 1)) == 0)
    CR_TRY(cr_field_reserve(message, field, *count + (*count == 0)));
  char *array = *(char **)cr_field_slot(message, field);
  CR_TRY(read_value(r, field, array + *count * cr_field_width(field)));
  ++*count;
  return CREMA_OK;
}

static crema_status read_elements(text_reader *r, ProtobufCMessage *message,
                                  const ProtobufCFieldDescriptor *field) {
  bool more;
  CR_TRY(try_symbol(r, '[', &more));
  if (!more) return read_element(r, message, field);
  bool closed;
  CR_TRY(try_symbol(r, ']', &closed));
  if (closed) return CREMA_OK;
  while (more) {
    CR_TRY(read_element(r, message, field));
    CR_TRY(try_symbol(r, ',', &more));
  }
  if (!cr_token_is(&r->token, ']')) return fail_expected(r, "\",\" or \"]\"");
  return advance(r);
}

static crema_status skip_value(text_reader *r) {
  bool minus;
  CR_TRY(try_symbol(r, '-', &minus));
  cr_token_kind kind = r->token.kind;
  if (kind == CR_TOKEN_STRING && !minus) {
    while (r->token.kind == CR_TOKEN_STRING) CR_TRY(advance(r));
    return CREMA_OK;
  }
  if (kind != CR_TOKEN_INTEGER && kind != CR_TOKEN_FLOAT && kind != CR_TOKEN_NAME) {
    return fail_expected(r, "a value");
  }
  return advance(r);
}

/* Whether a fork has a list in a field that has one value here. The first value counts. */
static bool is_list_in_fork(const ProtobufCMessageDescriptor *type,
                            const ProtobufCFieldDescriptor *field) {
  return type == &caffe__solver_parameter__descriptor && strcmp(field->name, "device_id") == 0;
}

static void warn_of_list(const text_reader *r, const ProtobufCFieldDescriptor *field) {
  cr_log_warning("%s:%zu: only the first value of %s counts; the flag -gpu takes a list",
                 r->scanner.source, r->last.line, field->name);
}

/* The values of a list after the first one, and its end. */
static crema_status skip_elements(text_reader *r, const ProtobufCFieldDescriptor *field) {
  bool more;
  CR_TRY(try_symbol(r, ',', &more));
  if (more) warn_of_list(r, field);
  while (more) {
    CR_TRY(skip_value(r));
    CR_TRY(try_symbol(r, ',', &more));
  }
  if (!cr_token_is(&r->token, ']')) return fail_expected(r, "\",\" or \"]\"");
  return advance(r);
}

/* Keeps the first value of a list in a fork. */
static crema_status read_first(text_reader *r, ProtobufCMessage *message,
                               const ProtobufCFieldDescriptor *field, bool again) {
  bool list;
  if (again) warn_of_list(r, field);
  CR_TRY(try_symbol(r, '[', &list));
  if (again) {
    CR_TRY(skip_value(r));
  } else {
    CR_TRY(read_value(r, field, cr_field_slot(message, field)));
    cr_field_mark(message, field);
  }
  return list ? skip_elements(r, field) : CREMA_OK;
}

/* The repeated field "<name>_3d", which takes several values of a field that is one value in most
 * Caffes (kernel_size, stride and pad of pooling_param); NULL: there is none. */
static const ProtobufCFieldDescriptor *list_of(const ProtobufCMessageDescriptor *type,
                                               const ProtobufCFieldDescriptor *field) {
  char name[NAME_SIZE_MAX];
  if (field->label == PROTOBUF_C_LABEL_REPEATED) return NULL;
  const int length = snprintf(name, sizeof name, "%s_3d", field->name);
  if (length >= NAME_SIZE_MAX) return NULL;
  return protobuf_c_message_descriptor_get_field_by_name(type, name);
}

/* Fails at the second value of a field that has one. */
static crema_status fail_twice(text_reader *r, const cr_token *name,
                               const ProtobufCMessageDescriptor *type) {
  char shown[CR_TOKEN_SHOW];
  return cr_token_fail(&r->scanner, name, "%s is given twice in one %s", cr_token_show(name, shown),
                       type->short_name);
}

/* Reads the value or values after the name of a field. With `again`, the field already has one. */
static crema_status read_field(text_reader *r, ProtobufCMessage *message,
                               const ProtobufCFieldDescriptor *field, const cr_token *name,
                               bool again) {
  const ProtobufCFieldDescriptor *list = list_of(message->descriptor, field);
  bool colon;
  CR_TRY(try_symbol(r, ':', &colon));
  if (!colon && field->type != PROTOBUF_C_TYPE_MESSAGE) {
    char what[NAME_SIZE_MAX];
    int length = cr_field_name_length(field->name);
    snprintf(what, sizeof what, "\":\" after \"%.*s\"", length, field->name);
    return fail_expected(r, what);
  }
  if (field->label == PROTOBUF_C_LABEL_REPEATED) return read_elements(r, message, field);
  if (list != NULL && (again || cr_token_is(&r->token, '['))) {
    if (cr_field_count(message, field) > 0) CR_TRY(cr_field_move(message, field, message, list));
    return read_elements(r, message, list);
  }
  if (is_list_in_fork(message->descriptor, field)) return read_first(r, message, field, again);
  if (again) return fail_twice(r, name, message->descriptor);
  CR_TRY(read_value(r, field, cr_field_slot(message, field)));
  cr_field_mark(message, field);
  return CREMA_OK;
}

static crema_status skip_message_or_value(text_reader *r, bool message_only) {
  bool angle = cr_token_is(&r->token, '<');
  if (!angle && !cr_token_is(&r->token, '{')) {
    return message_only ? fail_expected(r, "\":\" or \"{\"") : skip_value(r);
  }
  CR_TRY(advance(r));
  CR_TRY(enter(r));
  CR_TRY(skip_fields(r, angle ? '>' : '}'));
  --r->depth;
  return advance(r);
}

/* Skips the value of an unknown field. */
static crema_status skip_field(text_reader *r) {
  bool colon;
  bool more;
  bool closed = false;
  CR_TRY(try_symbol(r, ':', &colon));
  CR_TRY(try_symbol(r, '[', &more));
  if (!more) return skip_message_or_value(r, !colon);
  CR_TRY(try_symbol(r, ']', &closed));
  if (closed) return CREMA_OK;
  while (more) {
    CR_TRY(skip_message_or_value(r, !colon));
    CR_TRY(try_symbol(r, ',', &more));
  }
  if (!cr_token_is(&r->token, ']')) return fail_expected(r, "\",\" or \"]\"");
  return advance(r);
}

/* Whether the comma between two number tokens is probably a decimal comma. */
static bool is_decimal_comma(const cr_token *before, const cr_token *after) {
  return before->kind == CR_TOKEN_INTEGER && before->size + after->size < CR_TOKEN_SHOW &&
         before->text + before->size + 1 == after->text &&
         memchr(after->text, '.', after->size) == NULL;
}

/* Fails at a number that a comma separates from the value of `field`: either a decimal comma, or a
 * list without brackets. */
static crema_status fail_comma(text_reader *r, const ProtobufCFieldDescriptor *field,
                               const cr_token *value) {
  const bool real = field->type == PROTOBUF_C_TYPE_FLOAT || field->type == PROTOBUF_C_TYPE_DOUBLE;
  char advice[2 * CR_TOKEN_SHOW] = "give one value only";
  if (real && is_decimal_comma(value, &r->token)) {
    snprintf(advice, sizeof advice, "write a decimal number with a point: %.*s.%.*s",
             (int)value->size, value->text, (int)r->token.size, r->token.text);
  } else if (field->label == PROTOBUF_C_LABEL_REPEATED) {
    snprintf(advice, sizeof advice, "write several values in brackets, as in [1, 2]");
  }
  return cr_token_fail(&r->scanner, &r->token, "unexpected comma in \"%.*s\"; %s",
                       cr_field_name_length(field->name), field->name, advice);
}

static crema_status try_separator(text_reader *r) {
  if (cr_token_is(&r->token, ';') || cr_token_is(&r->token, ',')) return advance(r);
  return CREMA_OK;
}

/* The same after a value of `field`, whose last token is `value`. */
static crema_status end_field(text_reader *r, const ProtobufCFieldDescriptor *field,
                              const cr_token *value) {
  const bool comma = cr_token_is(&r->token, ',');
  CR_TRY(try_separator(r));
  const bool number = r->token.kind == CR_TOKEN_INTEGER || r->token.kind == CR_TOKEN_FLOAT ||
                      cr_token_is(&r->token, '-');
  return comma && number ? fail_comma(r, field, value) : CREMA_OK;
}

static crema_status fail_close(text_reader *r, char close) {
  if (close == '\0') return fail_expected(r, "the name of a field");
  char what[NAME_SIZE_MAX];
  snprintf(what, sizeof what, "the name of a field or \"%c\"", close);
  return fail_expected(r, what);
}

/* True at the end of a message that is closed by `close` (the whole text: '\0'). */
static bool at_close(const text_reader *r, char close) {
  return close == '\0' ? r->token.kind == CR_TOKEN_END : cr_token_is(&r->token, close);
}

static crema_status skip_fields(text_reader *r, char close) {
  while (!at_close(r, close)) {
    if (r->token.kind != CR_TOKEN_NAME) return fail_close(r, close);
    CR_TRY(advance(r));
    CR_TRY(skip_field(r));
    CR_TRY(try_separator(r));
  }
  return CREMA_OK;
}

/* Reads on in a layer from the value of an unknown field up to the layer's type, which a message
 * about the field names. A failure here is not reported. */
static void look_for_type(text_reader ahead, Caffe__LayerParameter *layer) {
  while (layer->type == NULL && skip_field(&ahead) == CREMA_OK &&
         try_separator(&ahead) == CREMA_OK && ahead.token.kind == CR_TOKEN_NAME) {
    bool colon;
    const bool is_type = ahead.token.size == 4 && memcmp(ahead.token.text, "type", 4) == 0;
    if (advance(&ahead) != CREMA_OK) return;
    if (!is_type) continue;
    if (try_symbol(&ahead, ':', &colon) != CREMA_OK) return;
    if (read_string_slot(&ahead, true, &layer->type) != CREMA_OK) return;
  }
}

static crema_status check_required(text_reader *r, const ProtobufCMessageDescriptor *type,
                                   const bool *seen) {
  for (unsigned i = 0; i < type->n_fields; ++i) {
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    if (field->label == PROTOBUF_C_LABEL_REQUIRED && !seen[i]) {
      return cr_token_fail(&r->scanner, &r->token, "%s lacks its required field \"%s\"",
                           type->short_name, field->name);
    }
  }
  return CREMA_OK;
}

/* Fields up to the closing token, which is left in place. */
static crema_status read_fields(text_reader *r, ProtobufCMessage *message, char close) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  bool seen[CR_FIELDS_MAX] = {false};
  if (type->n_fields > CR_FIELDS_MAX)
    return cr_fail(CREMA_E_INTERNAL, "%s is too wide", type->name);
  while (!at_close(r, close)) {
    if (r->token.kind != CR_TOKEN_NAME) return fail_close(r, close);
    cr_token name = r->token;
    CR_TRY(advance(r));
    const ProtobufCFieldDescriptor *field = find_field(type, &name);
    if (field == NULL) {
      if (type == &caffe__layer_parameter__descriptor && r->unknown == CR_UNKNOWN_ERROR) {
        look_for_type(*r, (Caffe__LayerParameter *)message);
      }
      crema_status status = fail_unknown_field(r, &name, type);
      if (r->unknown == CR_UNKNOWN_ERROR) return status;
      cr_log_warning("%s (ignored)", crema_error_text());
      CR_TRY(skip_field(r));
    } else {
      bool *mark = &seen[field - type->fields];
      const bool again = *mark;
      *mark = true;
      CR_TRY(read_field(r, message, field, &name, again));
    }
    const cr_token value = r->last;
    CR_TRY(field == NULL ? try_separator(r) : end_field(r, field, &value));
  }
  return check_required(r, type, seen);
}

static crema_status read_text(text_reader *r, const ProtobufCMessageDescriptor *type,
                              ProtobufCMessage **out) {
  ProtobufCMessage *message;
  CR_TRY(advance(r));
  r->first = r->token.text;
  CR_TRY(cr_message_new(type, &message));
  crema_status status = read_fields(r, message, '\0');
  if (status != CREMA_OK) {
    cr_message_free(message);
    return status;
  }
  *out = message;
  return CREMA_OK;
}

crema_status cr_text_parse(const ProtobufCMessageDescriptor *type, const char *text, size_t size,
                           const char *source, cr_unknown_fields unknown, ProtobufCMessage **out) {
  text_reader r = {.unknown = unknown};
  cr_c_locale locale;
  *out = NULL;
  cr_scanner_start(&r.scanner, size > 0 ? text : "", size, source);
  CR_TRY(cr_c_locale_begin(&locale));
  crema_status status = read_text(&r, type, out);
  cr_c_locale_end(&locale);
  return status;
}
