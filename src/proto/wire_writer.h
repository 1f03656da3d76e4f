/* Writing wire format piece by piece, so that a large model is never held twice in memory. */
#ifndef CR_PROTO_WIRE_WRITER_H
#define CR_PROTO_WIRE_WRITER_H

#include <stddef.h>

#include "proto/proto.h"

/* Takes the next bytes of the output. */
typedef crema_status (*cr_wire_sink)(void *user, const void *bytes, size_t size);

/* Sends the wire form of `message` to `sink`, fields in number order. */
crema_status cr_wire_send(const ProtobufCMessage *message, cr_wire_sink sink,
                          void *user) CREMA_MUST_USE;

/* Bytes that cr_wire_send will send. */
size_t cr_wire_size(const ProtobufCMessage *message);

/* Appends the tag and the length that precede `size` bytes of field `number`. */
crema_status cr_wire_print_head(cr_buffer *out, uint32_t number, size_t size) CREMA_MUST_USE;

#endif
