/* Access to messages through their descriptors, for the text and the wire format. */
#ifndef CR_PROTO_FIELD_H
#define CR_PROTO_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/proto.h"

/* No message of the schema has more fields than this; parsers keep one mark per field on the
 * stack. */
enum { CR_FIELDS_MAX = 192 };

/* A new empty message with all defaults, to be freed with cr_message_free. `out` is the address of
 * a pointer to the message's own struct, which is NULL after a failure. */
crema_status cr_message_new(const ProtobufCMessageDescriptor *type, void *out) CREMA_MUST_USE;

/* The size of one value of the field in memory, in bytes. */
size_t cr_field_width(const ProtobufCFieldDescriptor *field);

/* Where the value lives (for a repeated field: the pointer to its array). */
void *cr_field_slot(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Number of values: the length of a repeated field, otherwise 1 when it was given and 0 when not. A
 * required scalar has no mark and counts as given. */
size_t cr_field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Value number `index` of the field. */
const void *cr_field_value(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                           size_t index);

/* Marks a scalar as set; a no-op for other fields. */
void cr_field_mark(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Makes room for `extra` more values of a repeated field. Its length stays; the caller adds to it
 * as it fills. */
crema_status cr_field_reserve(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                              size_t extra) CREMA_MUST_USE;

/* The length of a repeated field, to be written to. */
size_t *cr_field_length(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Frees the value or values; the field is then not given. */
void cr_field_clear(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Hands the value or values of a field over to a field of the same type in another message, which
 * loses its own. A single value appends to a repeated field. */
crema_status cr_field_move(ProtobufCMessage *from, const ProtobufCFieldDescriptor *from_field,
                           ProtobufCMessage *to,
                           const ProtobufCFieldDescriptor *to_field) CREMA_MUST_USE;

/* The message in an optional message field, made when it does not exist yet. */
crema_status cr_field_message(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                              ProtobufCMessage **out) CREMA_MUST_USE;

/* Fields by name: */

/* A message's field by its name; clearing it; making room for more values in it. */
const ProtobufCFieldDescriptor *cr_message_field(const ProtobufCMessage *message, const char *name);
void cr_message_clear(ProtobufCMessage *message, const char *name);
crema_status cr_message_reserve(ProtobufCMessage *message, const char *name,
                                size_t extra) CREMA_MUST_USE;

/* The message in a field, made if it does not exist yet. `out` is the address of a pointer to the
 * message's own struct. */
crema_status cr_message_inner(ProtobufCMessage *message, const char *name,
                              void *out) CREMA_MUST_USE;

/* Moves a field, if it is given, to the field `new_name` of another message. */
crema_status cr_message_move(ProtobufCMessage *from, const char *name, ProtobufCMessage *to,
                             const char *new_name) CREMA_MUST_USE;

/* The field's name in text format: without a trailing underscore. Returns its length. */
int cr_field_name_length(const char *name);

#endif
