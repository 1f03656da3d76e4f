/* Reading, writing and upgrading the messages of the Caffe schema.
 *
 * The schema is caffe.proto; protobuf-c generates a struct for each message
 * (Caffe__NetParameter and so on). Messages read here are owned by the caller
 * and freed with cr_message_free. */
#ifndef CR_PROTO_PROTO_H
#define CR_PROTO_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "caffe.pb-c.h"
#include "core/buffer.h"
#include "core/file.h"
#include "crema/status.h"

/* What to do with a field name that the schema does not know. */
typedef enum cr_unknown_fields { CR_UNKNOWN_ERROR, CR_UNKNOWN_WARN } cr_unknown_fields;

/* Any message: */

/* Parses protobuf text format. `source` names the text in messages
 * ("file:line:column: ..."). On success *out is a new message. Errors: CREMA_E_PARSE
 * (with position, offending token, nearest known field name). */
crema_status cr_text_parse(const ProtobufCMessageDescriptor *type, const char *text, size_t size,
                           const char *source, cr_unknown_fields unknown,
                           ProtobufCMessage **out) CREMA_MUST_USE;

/* Appends the canonical text form, two-space indented, fields in number order. Omits fields that
 * the schema does not know: no reader would take them. */
crema_status cr_text_print(const ProtobufCMessage *message, cr_buffer *out) CREMA_MUST_USE;

/* Appends one field as text, found by its path ("a.b"): a string as it is, a message in text form,
 * several values with spaces between, or the default. The empty path stands for the whole message.
 * Errors: CREMA_E_UNKNOWN_NAME. */
crema_status cr_text_print_field(const ProtobufCMessage *message, const char *path,
                                 cr_buffer *out) CREMA_MUST_USE;

/* Parses wire format, packed or not, of any size. Wire types distinguish fields whose numbers
 * collide between dialects. Keeps unknown fields, and enum values that the schema lacks as unknown
 * fields. Errors: CREMA_E_CORRUPT, with `source` and the byte offset if known. */
crema_status cr_wire_parse(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                           size_t size, const char *source, ProtobufCMessage **out) CREMA_MUST_USE;

/* Appends the wire form, fields in number order, under the numbers of the dialect that the message
 * is in. */
crema_status cr_wire_print(const ProtobufCMessage *message, cr_buffer *out) CREMA_MUST_USE;

/* A deep copy. `out` is the address of a pointer to the message's own struct, which is NULL after a
 * failure. */
crema_status cr_message_copy(const ProtobufCMessage *message, void *out) CREMA_MUST_USE;

/* Accepts NULL. */
void cr_message_free(ProtobufCMessage *message);

/* Allocation for editing messages: memory that cr_message_free can free. */
void *cr_proto_alloc(size_t size);
char *cr_proto_strdup(const char *text);

/* Files: */

/* Reads a net from text (any dialect) and upgrades it to today's form. */
crema_status cr_net_param_read_text(const char *path, cr_unknown_fields unknown,
                                    Caffe__NetParameter **out) CREMA_MUST_USE;

/* Reads a net (weights as a rule) from wire format and upgrades it. */
crema_status cr_net_param_read_binary(const char *path, Caffe__NetParameter **out) CREMA_MUST_USE;

/* A file that is read piece by piece, also after another file has taken its name. For any number of
 * threads. */
typedef struct cr_piece_file cr_piece_file;
cr_piece_file *cr_piece_file_retain(cr_piece_file *file);
void cr_piece_file_release(cr_piece_file *file);

/* Reads bytes `at` to at + size - 1. Errors name the path: CREMA_E_CORRUPT when the file was
 * changed since it was opened, CREMA_E_IO. */
crema_status cr_piece_file_read(const cr_piece_file *file, uint64_t at, void *out,
                                size_t size) CREMA_MUST_USE;

/* A file as a range of addresses, whose pages are read when they are first needed. */
typedef struct cr_paged_file {
  cr_piece_file *file;
  uint8_t *bytes; /* NULL: the file must be read completely */
  size_t size;
  uint8_t *loaded; /* a bit per page */
} cr_paged_file;

/* Opens a regular file of more than `run` bytes; of any other file nothing is opened, and *out has
 * no bytes. Errors: CREMA_E_RANGE for a file above the limit, CREMA_E_NO_MEMORY. */
crema_status cr_paged_file_open(const char *path, size_t run, cr_paged_file *out) CREMA_MUST_USE;
/* Reads the pages with bytes `from` to `to` - 1 of a cr_paged_file. Errors: as cr_piece_file_read.
 */
crema_status cr_paged_file_load(void *paged, size_t from, size_t to) CREMA_MUST_USE;
void cr_paged_file_close(cr_paged_file *paged);

/* A net in wire format whose larger blobs stay in the file. */
typedef struct cr_stored_net {
  Caffe__NetParameter *param; /* upgraded; the values of some blobs must be read from `file` */
  cr_piece_file *file;        /* NULL: all values are in memory */
  const uint8_t *bytes;       /* addresses of values that stay in the file */
  size_t size;                /* 0: no values stay there */
} cr_stored_net;

/* The least size of a blob, in bytes, that stays in the file. */
enum { CR_STORED_RUN = 1 << 16 };

/* Opens the file at `path`, or `size` bytes of a file, which must outlive *out and which `source`
 * names in messages. Blobs of `run` bytes or more stay there; their values need not be aligned.
 * Fails as cr_net_param_read_binary does. */
crema_status cr_stored_net_open(const char *path, size_t run, cr_stored_net *out) CREMA_MUST_USE;
crema_status cr_stored_net_of(const void *bytes, size_t size, size_t run, const char *source,
                              cr_stored_net *out) CREMA_MUST_USE;
void cr_stored_net_close(cr_stored_net *net);

/* Whether these values of a blob must be read from the file, at *at. */
bool cr_stored_net_is_in_file(const cr_stored_net *net, const void *values, uint64_t *at);

/* Reads/writes any message in wire or text format; writing goes through a temporary file,
 * flush and rename. */
crema_status cr_message_read_binary(const ProtobufCMessageDescriptor *type, const char *path,
                                    ProtobufCMessage **out) CREMA_MUST_USE;
/* One field of a message in wire form, as it is in the file. */
typedef struct cr_wire_part {
  uint32_t number;
  bool has_payload; /* a length, and then `payload` */
  const uint8_t *start, *payload, *end;
} cr_wire_part;
typedef crema_status cr_wire_visit(void *user, const cr_wire_part *part);

/* Hands the fields of a message in wire form, in their order, to `visit`, without parsing them.
 * Errors: as cr_message_read_binary, and the status of `visit`. */
crema_status cr_message_walk_binary(const ProtobufCMessageDescriptor *type, const char *path,
                                    cr_wire_visit *visit, void *user) CREMA_MUST_USE;
crema_status cr_message_read_text(const ProtobufCMessageDescriptor *type, const char *path,
                                  cr_unknown_fields unknown, ProtobufCMessage **out) CREMA_MUST_USE;
crema_status cr_message_write_binary(const ProtobufCMessage *message,
                                     const char *path) CREMA_MUST_USE;
/* The same into a draft that the caller begins and ends. Warns about a message of more than 2 GiB:
 * crema reads it, but protobuf's library, which Caffe uses, does not. */
crema_status cr_message_write(const ProtobufCMessage *message, cr_file_draft *draft) CREMA_MUST_USE;
crema_status cr_message_write_text(const ProtobufCMessage *message,
                                   const char *path) CREMA_MUST_USE;

/* The line of the text on which the message of a layer, of either format, begins; 0: unknown. The
 * text reader sets it, copies keep it, and upgrades pass it to the layers that they make. Never
 * written to files. For error messages. */
size_t cr_layer_line(const ProtobufCMessage *layer);
crema_status cr_layer_set_line(ProtobufCMessage *layer, size_t line) CREMA_MUST_USE;

/* The line on which a field of the message itself, not of a nested message, is set last; 0: not
 * set. For error messages. The thread's error text may change. */
size_t cr_text_field_line(const char *text, size_t size, const char *field);

/* Upgrades: */

/* The suffix of the name of a Scale layer that an upgrade made from a BatchNorm layer's fields. */
#define CR_UPGRADED_SCALE "/scale_bias"

/* Upgrades a net of any dialect (V0, V1, input/input_dim, old transform and BatchNorm fields) to
 * the current format in place. Sets *compatible (may be NULL) to whether no stray field was
 * dropped. Logs each kind of upgrade once; `source` (may be NULL) names the file or other origin in
 * log and errors. After a failure the net can only be freed. Errors: CREMA_E_UNKNOWN_NAME for an
 * unknown layer type, CREMA_E_PARSE for layers of two formats, CREMA_E_SHAPE for inputs without a
 * shape, CREMA_E_UNSUPPORTED for padding that cannot be moved into a layer. */
crema_status cr_net_param_upgrade(Caffe__NetParameter *net, const char *source,
                                  bool *compatible) CREMA_MUST_USE;
/* Upgrades the layers of a net that is read for its weights only: `input` and its shapes stay as
 * they are. Logs at CREMA_LOG_DEBUG. Errors: as above. */
crema_status cr_weights_param_upgrade(Caffe__NetParameter *net, const char *source) CREMA_MUST_USE;
bool cr_net_param_needs_upgrade(const Caffe__NetParameter *net);

/* Whether an upgrade replaces all layers of this type. */
bool cr_net_param_upgrades_type(const char *type);

/* Turns solver_type (enum) into type (string), and upgrades the nets inside. Errors: CREMA_E_PARSE
 * when both are given; otherwise as cr_net_param_upgrade. */
crema_status cr_solver_param_upgrade(Caffe__SolverParameter *solver,
                                     const char *source) CREMA_MUST_USE;

#endif
