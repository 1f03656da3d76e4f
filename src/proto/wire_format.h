/* Protobuf wire format: constants, and the field numbers of the dialects. */
#ifndef CR_PROTO_WIRE_FORMAT_H
#define CR_PROTO_WIRE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/proto.h"

/* Fixed-width numbers are copied between messages and files as they are. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire format is little-endian");

typedef enum cr_wire_type {
  CR_WIRE_VARINT = 0,
  CR_WIRE_FIXED64 = 1,
  CR_WIRE_BYTES = 2, /* a length and that many bytes */
  CR_WIRE_GROUP_START = 3,
  CR_WIRE_GROUP_END = 4,
  CR_WIRE_FIXED32 = 5,
  CR_WIRE_NOTE = 7 /* of a message in memory, see cr_layer_line; in no file */
} cr_wire_type;

enum { CR_WIRE_NUMBER_MAX = 536870911, CR_WIRE_VARINT_MAX = 10, CR_WIRE_DEPTH_MAX = 100 };

/* Bytes of a message, which may need to be loaded into memory first. */
typedef struct cr_wire_input {
  const uint8_t *bytes;
  size_t size;
  /* Makes bytes `from` to `to` - 1 readable; NULL: all of them are. */
  crema_status (*load)(void *user, size_t from, size_t to);
  void *user;
  /* Messages of type `run_type` with at least this number of contiguous bytes of values are not
   * loaded. The values stay in place and need not be aligned. 0: all values are loaded. */
  size_t run;
  const ProtobufCMessageDescriptor *run_type; /* NULL: BlobProto */
  /* The most memory for the message, with values that stay in place excluded; 0: any amount. A few
   * bytes of a hostile file stand for many times their size. */
  size_t budget;
} cr_wire_input;

/* cr_wire_parse of the input. CREMA_E_CORRUPT also for a message above the budget. If values stay in the input, the message is freed with cr_wire_free,
 * and no change may free them. */
crema_status cr_wire_parse_input(const ProtobufCMessageDescriptor *type, const cr_wire_input *input,
                                 const char *source, ProtobufCMessage **out) CREMA_MUST_USE;
/* Accepts NULL for the message. */
void cr_wire_free(const cr_wire_input *input, ProtobufCMessage *message);

/* Parses a file; a failure adds the format that the file seems to have (files.c). */
crema_status cr_message_parse(const ProtobufCMessageDescriptor *type, const char *path,
                              const cr_wire_input *input, ProtobufCMessage **out) CREMA_MUST_USE;

/* Calls `visit` for the fields in `size` bytes; see cr_message_walk_binary. */
crema_status cr_wire_walk(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size,
                          const char *source, cr_wire_visit *visit, void *user) CREMA_MUST_USE;

/* How a single value of the field is written. */
cr_wire_type cr_wire_type_of(ProtobufCType type);

/* True when a run of values may be packed into one length-delimited record. */
bool cr_wire_packable(ProtobufCType type);

/* True when a field of this number and wire type in a message of type `type` can only come from a
 * fork with other numbers. That is the nv dialect, for blobs and convolutions C3D. */
bool cr_dialect_shows_fork(const ProtobufCMessageDescriptor *type, uint32_t number,
                           cr_wire_type wire);

/* The number in our schema of a field that has `number` in a file. `fork`: some field of the
 * message showed the fork. */
uint32_t cr_dialect_to_schema(const ProtobufCMessageDescriptor *type, uint32_t number,
                              cr_wire_type wire, bool fork);

/* The number that a field of our schema is written under. `fork`: the message holds a field that
 * shows the nv dialect, so that its numbers are used throughout. C3D's numbers are never written.
 */
uint32_t cr_dialect_to_wire(const ProtobufCMessageDescriptor *type, uint32_t number, bool fork);

/* True when a message of this type may need other numbers than the schema's. */
bool cr_dialect_concerns(const ProtobufCMessageDescriptor *type);

#endif
