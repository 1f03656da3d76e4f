#include "data/db/datum.h"

#include <string.h>

#include "core/fail.h"

/* Field numbers of message Datum in src/proto/caffe.proto. */
enum {
  FIELD_CHANNELS = 1,
  FIELD_HEIGHT = 2,
  FIELD_WIDTH = 3,
  FIELD_DATA = 4,
  FIELD_LABEL = 5,
  FIELD_FLOATS = 6,
  FIELD_ENCODED = 7
};

/* Wire types of the protocol buffer encoding. */
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_OPEN = 3, WIRE_CLOSE = 4, WIRE_32 = 5 };

typedef struct wire_reader {
  const uint8_t *start, *at, *end;
} wire_reader;

/* One field: its number, wire type and value. */
typedef struct wire_field {
  uint32_t number;
  int type;
  uint64_t varint;      /* WIRE_VARINT */
  const uint8_t *bytes; /* all other types */
  size_t size;
} wire_field;

static crema_status fail_wire(const wire_reader *reader, const char *what) {
  return cr_fail(CREMA_E_CORRUPT, "not a Datum: %s at byte %zu of %zu", what,
                 (size_t)(reader->at - reader->start), (size_t)(reader->end - reader->start));
}

static crema_status read_varint(wire_reader *reader, uint64_t *out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (reader->at == reader->end) return fail_wire(reader, "truncated");
    uint8_t byte = *reader->at++;
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *out = value;
      return CREMA_OK;
    }
  }
  return fail_wire(reader, "number too long");
}

static crema_status read_bytes(wire_reader *reader, uint64_t size, wire_field *field) {
  if (size > (uint64_t)(reader->end - reader->at)) return fail_wire(reader, "truncated");
  field->bytes = reader->at;
  field->size = (size_t)size;
  reader->at += size;
  return CREMA_OK;
}

static crema_status read_field(wire_reader *reader, wire_field *field) {
  uint64_t tag = 0;
  CR_TRY(read_varint(reader, &tag));
  if (tag > UINT32_MAX || tag >> 3 == 0) return fail_wire(reader, "bad field number");
  field->number = (uint32_t)(tag >> 3);
  field->type = (int)(tag & 7);
  switch (field->type) {
    case WIRE_VARINT: return read_varint(reader, &field->varint);
    case WIRE_64: return read_bytes(reader, 8, field);
    case WIRE_32: return read_bytes(reader, 4, field);
    case WIRE_BYTES: {
      uint64_t size = 0;
      CR_TRY(read_varint(reader, &size));
      return read_bytes(reader, size, field);
    }
    case WIRE_OPEN:
    case WIRE_CLOSE: return CREMA_OK;
    default: return fail_wire(reader, "bad wire type");
  }
}

/* Skips an unknown group whose opening mark was read. */
static crema_status skip_group(wire_reader *reader) {
  for (size_t depth = 1; depth > 0;) {
    wire_field field;
    CR_TRY(read_field(reader, &field));
    if (field.type == WIRE_OPEN) ++depth;
    if (field.type == WIRE_CLOSE) --depth;
  }
  return CREMA_OK;
}

static bool is_floats(const wire_field *field) {
  return field->number == FIELD_FLOATS && (field->type == WIRE_32 || field->type == WIRE_BYTES);
}

static crema_status take_field(wire_reader *reader, const wire_field *field, cr_datum *out) {
  if (field->type == WIRE_VARINT) {
    /* A negative int32 is written as a 64-bit varint; the low half is its value. */
    int value = (int)(uint32_t)field->varint;
    switch (field->number) {
      case FIELD_CHANNELS: out->channels = value; break;
      case FIELD_HEIGHT: out->height = value; break;
      case FIELD_WIDTH: out->width = value; break;
      case FIELD_LABEL: out->label = value; break;
      case FIELD_ENCODED:
        out->encoded = field->varint != 0;
        out->has_encoded = true;
        break;
      default: break;
    }
  } else if (field->number == FIELD_DATA && field->type == WIRE_BYTES) {
    out->data = field->bytes;
    out->size = field->size;
  } else if (field->number == FIELD_CHANNELS && field->type == WIRE_BYTES) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "an AnnotatedDatum (an image with boxes), not a Datum; layers of type "
                   "AnnotatedData read these");
  } else if (is_floats(field)) {
    if (field->size % 4 != 0) return fail_wire(reader, "float_data is no multiple of 4 bytes");
    out->float_count += field->size / 4;
  }
  return CREMA_OK;
}

crema_status cr_datum_parse(const uint8_t *bytes, size_t size, cr_datum *out) {
  *out = (cr_datum){.wire = bytes, .wire_size = size};
  if (size == 0) return cr_fail(CREMA_E_CORRUPT, "not a Datum: the record is empty");
  wire_reader reader = {bytes, bytes, bytes + size};
  while (reader.at < reader.end) {
    wire_field field = {0};
    CR_TRY(read_field(&reader, &field));
    if (field.type == WIRE_CLOSE) return fail_wire(&reader, "end of a group that never began");
    if (field.type == WIRE_OPEN) CR_TRY(skip_group(&reader));
    else CR_TRY(take_field(&reader, &field, out));
  }
  return CREMA_OK;
}

crema_status cr_datum_check_raw(const cr_datum *datum) {
  if (datum->channels < 1 || datum->height < 1 || datum->width < 1) {
    return cr_fail(CREMA_E_CORRUPT, "Datum of %d x %d x %d values (channels, height, width)",
                   datum->channels, datum->height, datum->width);
  }
  /* Extents are below 2^31: the product of two fits in 64 bits, and a division checks the third. */
  uint64_t have = datum->size > 0 ? datum->size : datum->float_count;
  uint64_t plane = (uint64_t)datum->height * (uint64_t)datum->width;
  uint64_t channels = (uint64_t)datum->channels;
  if (plane > have || have / plane != channels || have % plane != 0) {
    return cr_fail(CREMA_E_CORRUPT, "Datum of %d x %d x %d values holds %llu", datum->channels,
                   datum->height, datum->width, (unsigned long long)have);
  }
  return CREMA_OK;
}

crema_status cr_datum_floats(const cr_datum *datum, float *out, size_t count) {
  if (count != datum->float_count) {
    return cr_fail(CREMA_E_ARGUMENT, "Datum holds %zu floats, not %zu", datum->float_count, count);
  }
  wire_reader reader = {datum->wire, datum->wire, datum->wire + datum->wire_size};
  while (reader.at < reader.end) {
    wire_field field = {0};
    CR_TRY(read_field(&reader, &field));
    if (field.type == WIRE_OPEN) CR_TRY(skip_group(&reader));
    if (!is_floats(&field)) continue;
    for (const uint8_t *at = field.bytes; at < field.bytes + field.size; at += 4) {
      uint32_t bits =
          (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
      memcpy(out++, &bits, sizeof bits);
    }
  }
  return CREMA_OK;
}

static crema_status append_varint(cr_buffer *out, uint64_t value) {
  uint8_t bytes[10];
  size_t size = 0;
  while (value >= 0x80) {
    bytes[size++] = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  bytes[size++] = (uint8_t)value;
  return cr_buffer_append(out, bytes, size);
}

static crema_status append_int(cr_buffer *out, int field, int value) {
  CR_TRY(append_varint(out, (uint64_t)(field << 3 | WIRE_VARINT)));
  return append_varint(out, (uint64_t)(int64_t)value);
}

static crema_status append_floats(cr_buffer *out, const float *floats, size_t count) {
  CR_TRY(cr_buffer_reserve(out, out->size + 5 * count));
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    memcpy(&bits, floats + i, sizeof bits);
    uint8_t bytes[5] = {FIELD_FLOATS << 3 | WIRE_32, (uint8_t)bits, (uint8_t)(bits >> 8),
                        (uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
    CR_TRY(cr_buffer_append(out, bytes, sizeof bytes));
  }
  return CREMA_OK;
}

crema_status cr_datum_append(const cr_datum *datum, cr_buffer *out) {
  if (datum->channels > 0) CR_TRY(append_int(out, FIELD_CHANNELS, datum->channels));
  if (datum->height > 0) CR_TRY(append_int(out, FIELD_HEIGHT, datum->height));
  if (datum->width > 0) CR_TRY(append_int(out, FIELD_WIDTH, datum->width));
  if (datum->data != NULL) {
    CR_TRY(append_varint(out, FIELD_DATA << 3 | WIRE_BYTES));
    CR_TRY(append_varint(out, datum->size));
    CR_TRY(cr_buffer_append(out, datum->data, datum->size));
  }
  CR_TRY(append_int(out, FIELD_LABEL, datum->label));
  if (datum->floats != NULL) CR_TRY(append_floats(out, datum->floats, datum->float_count));
  if (datum->has_encoded) CR_TRY(append_int(out, FIELD_ENCODED, datum->encoded));
  return CREMA_OK;
}
