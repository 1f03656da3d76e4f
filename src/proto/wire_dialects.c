/* The field numbers that the dialects of the schema use differently. */
#include <stddef.h>

#include "proto/wire_format.h"

/* A record with number `wire_number` and wire type `wire` in a message of type `type` is field
 * `schema_number` of our schema. */
typedef struct dialect_row {
  const ProtobufCMessageDescriptor *type;
  uint32_t wire_number;
  cr_wire_type wire;
  uint32_t schema_number;
  /* ALWAYS: the wire type decides. IN_NV: only in a message that shows the nv dialect; on writing,
   * only into such a message. IN_C3D: only on reading a message that shows C3D's numbers. READ:
   * used on reading, never on writing. */
  enum { ALWAYS, IN_NV, IN_C3D, READ } when;
} dialect_row;

#define BLOB &caffe__blob_proto__descriptor
#define CONVOLUTION &caffe__convolution_parameter__descriptor
#define LAYER &caffe__layer_parameter__descriptor
#define TRANSFORM &caffe__transformation_parameter__descriptor
#define NORM &caffe__batch_norm_parameter__descriptor
#define BN &caffe__bnparameter__descriptor
#define MULTIBOX &caffe__multi_box_loss_parameter__descriptor
#define ROI &caffe__roipooling_parameter__descriptor
#define SOLVER &caffe__solver_parameter__descriptor

static const dialect_row rows[] = {
    {LAYER, 145, CR_WIRE_VARINT, 20145, ALWAYS},      /* nv forward_type */
    {LAYER, 146, CR_WIRE_VARINT, 20146, ALWAYS},      /* nv backward_type */
    {LAYER, 147, CR_WIRE_VARINT, 20147, ALWAYS},      /* nv forward_math */
    {LAYER, 148, CR_WIRE_VARINT, 20148, ALWAYS},      /* nv backward_math */
    {LAYER, 151, CR_WIRE_BYTES, 146, READ},           /* nv recurrent_param */
    {LAYER, 45, CR_WIRE_BYTES, 20154, READ},          /* SegNet's bn_param */
    {BN, 3, CR_WIRE_VARINT, 20001, READ},             /* its bn_mode */
    {TRANSFORM, 8, CR_WIRE_VARINT, 20008, ALWAYS},    /* nv use_gpu_transform */
    {TRANSFORM, 9, CR_WIRE_VARINT, 20009, ALWAYS},    /* nv random_seed */
    {TRANSFORM, 10, CR_WIRE_VARINT, 20010, ALWAYS},   /* nv img_rand_resize_lower */
    {TRANSFORM, 11, CR_WIRE_VARINT, 20011, IN_NV},    /* nv img_rand_resize_upper, ssd crop_h */
    {TRANSFORM, 12, CR_WIRE_FIXED32, 20012, ALWAYS},  /* nv rand_resize_ratio_lower */
    {TRANSFORM, 13, CR_WIRE_FIXED32, 20013, ALWAYS},  /* nv rand_resize_ratio_upper */
    {TRANSFORM, 14, CR_WIRE_FIXED32, 20014, ALWAYS},  /* nv vertical_stretch_lower */
    {TRANSFORM, 208, CR_WIRE_BYTES, 8, IN_NV},        /* resize_param */
    {TRANSFORM, 209, CR_WIRE_BYTES, 9, IN_NV},        /* noise_param */
    {TRANSFORM, 210, CR_WIRE_BYTES, 10, IN_NV},       /* emit_constraint */
    {TRANSFORM, 211, CR_WIRE_VARINT, 11, IN_NV},      /* crop_h */
    {TRANSFORM, 212, CR_WIRE_VARINT, 12, IN_NV},      /* crop_w */
    {TRANSFORM, 213, CR_WIRE_BYTES, 13, IN_NV},       /* distort_param */
    {TRANSFORM, 214, CR_WIRE_BYTES, 14, IN_NV},       /* expand_param */
    {NORM, 5, CR_WIRE_VARINT, 20005, ALWAYS},         /* forks use_weight_bias, nv scale_filler */
    {NORM, 6, CR_WIRE_VARINT, 20006, ALWAYS},         /* forks bias_term, nv bias_filler */
    {NORM, 7, CR_WIRE_BYTES, 20007, ALWAYS},          /* forks filler, nv scale_bias */
    {NORM, 8, CR_WIRE_BYTES, 6, READ},                /* forks bias_filler */
    {MULTIBOX, 24, CR_WIRE_FIXED32, 20124, ALWAYS},   /* RefineDet objectness_score */
    {ROI, 4, CR_WIRE_FIXED32, 20004, ALWAYS},         /* MS-CNN's pad_ratio */
    {BLOB, 3, CR_WIRE_VARINT, 20003, IN_C3D},         /* C3D length */
    {BLOB, 4, CR_WIRE_VARINT, 3, IN_C3D},             /* height */
    {BLOB, 5, CR_WIRE_VARINT, 4, IN_C3D},             /* width */
    {BLOB, 6, CR_WIRE_BYTES, 5, IN_C3D},              /* data */
    {BLOB, 6, CR_WIRE_FIXED32, 5, IN_C3D},            /* the same, not packed */
    {BLOB, 7, CR_WIRE_BYTES, 6, IN_C3D},              /* diff */
    {BLOB, 7, CR_WIRE_FIXED32, 6, IN_C3D},            /* the same, not packed */
    {CONVOLUTION, 6, CR_WIRE_VARINT, 20024, IN_C3D},  /* C3D kernel_depth */
    {CONVOLUTION, 7, CR_WIRE_VARINT, 6, IN_C3D},      /* stride */
    {CONVOLUTION, 8, CR_WIRE_VARINT, 20025, IN_C3D},  /* temporal_stride */
    {CONVOLUTION, 9, CR_WIRE_BYTES, 7, IN_C3D},       /* weight_filler */
    {CONVOLUTION, 10, CR_WIRE_BYTES, 8, IN_C3D},      /* bias_filler */
    {CONVOLUTION, 11, CR_WIRE_VARINT, 20027, IN_C3D}, /* filter_group */
    {CONVOLUTION, 12, CR_WIRE_VARINT, 20026, IN_C3D}, /* temporal_pad */
    {SOLVER, 41, CR_WIRE_BYTES, 241, READ},           /* ssd eval_type */
    {SOLVER, 42, CR_WIRE_FIXED32, 20042, ALWAYS},     /* nv rampup_lr */
    {SOLVER, 43, CR_WIRE_VARINT, 243, READ},          /* ssd plateau_winsize */
    {SOLVER, 43, CR_WIRE_BYTES, 243, READ},           /* the same, packed */
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

bool cr_dialect_concerns(const ProtobufCMessageDescriptor *type) {
  return type == LAYER || type == TRANSFORM || type == NORM || type == BN || type == MULTIBOX ||
         type == ROI || type == SOLVER || type == BLOB || type == CONVOLUTION;
}

bool cr_dialect_shows_fork(const ProtobufCMessageDescriptor *type, uint32_t number,
                           cr_wire_type wire) {
  if (type == BLOB) return number == 5 && wire == CR_WIRE_VARINT;
  if (type == CONVOLUTION) {
    return ((number == 7 || number == 8) && wire == CR_WIRE_VARINT) ||
           ((number == 9 || number == 10) && wire == CR_WIRE_BYTES);
  }
  if (type != TRANSFORM) return false;
  if (number >= 15 && number <= 23) {
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, number);
    return field != NULL && wire == cr_wire_type_of(field->type);
  }
  for (size_t i = 0; i < ROW_COUNT; ++i) {
    const dialect_row *row = &rows[i];
    if (row->type != type || row->wire != wire) continue;
    if (row->when == ALWAYS && (row->wire_number == number || row->schema_number == number)) {
      return true;
    }
    if (row->when == IN_NV && row->wire_number == number && number >= 208) return true;
  }
  return false;
}

uint32_t cr_dialect_to_schema(const ProtobufCMessageDescriptor *type, uint32_t number,
                              cr_wire_type wire, bool fork) {
  if (!cr_dialect_concerns(type)) return number;
  for (size_t i = 0; i < ROW_COUNT; ++i) {
    const dialect_row *row = &rows[i];
    if (row->type != type || row->wire_number != number || row->wire != wire) continue;
    if (row->when == ALWAYS || row->when == READ || fork) return row->schema_number;
  }
  return number;
}

uint32_t cr_dialect_to_wire(const ProtobufCMessageDescriptor *type, uint32_t number, bool fork) {
  for (size_t i = 0; i < ROW_COUNT; ++i) {
    const dialect_row *row = &rows[i];
    if (row->type != type || row->schema_number != number || row->when == READ) continue;
    if (row->when == ALWAYS || (row->when == IN_NV && fork)) return row->wire_number;
  }
  return number;
}

cr_wire_type cr_wire_type_of(ProtobufCType type) {
  switch (type) {
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return CR_WIRE_FIXED64;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return CR_WIRE_FIXED32;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return CR_WIRE_BYTES;
    default: return CR_WIRE_VARINT;
  }
}

bool cr_wire_packable(ProtobufCType type) {
  return cr_wire_type_of(type) != CR_WIRE_BYTES;
}
