#include "device/cpu/onednn/layout.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/backend.h"

#define COUNT_TYPE(name, value, bytes, text) +1
enum { TYPES = 0 CREMA_DTYPE_MAP(COUNT_TYPE) };
#undef COUNT_TYPE

typedef struct layout_node {
  cr_layout layout;
  cr_md md;
  bool opaque;
  cr_dnnl_order order;
  const cr_layout *_Atomic in_type[TYPES]; /* of the same order; NULL: not requested yet */
  struct layout_node *next;
} layout_node;

/* Shared by the process: the engine and the interned layouts. */
typedef struct layout_registry {
  pthread_mutex_t lock;
  dnnl_engine_t engine;
  layout_node *layouts;
} layout_registry;

static layout_registry dnnl_layouts = {.lock = PTHREAD_MUTEX_INITIALIZER};

crema_status cr_dnnl_check(dnnl_status_t status, const char *what) {
  switch (status) {
    case dnnl_success: return CREMA_OK;
    case dnnl_out_of_memory: return cr_fail(CREMA_E_NO_MEMORY, "oneDNN, %s: out of memory", what);
    case dnnl_unimplemented:
      return cr_fail(CREMA_E_UNSUPPORTED, "oneDNN, %s: not implemented", what);
    case dnnl_invalid_arguments:
      return cr_fail(CREMA_E_UNSUPPORTED, "oneDNN, %s: arguments not accepted", what);
    default: return cr_fail(CREMA_E_DEVICE, "oneDNN, %s: status %d", what, (int)status);
  }
}

void cr_dnnl_describe(char *text, size_t size) {
  const dnnl_version_t *version = dnnl_version();
  snprintf(text, size, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}

/* On 64-bit Arm oneDNN would list its generated code in a file /tmp/perf-<process>.map, for Linux's
 * profiler, and leave it there. */
static void list_no_code(void) {
#ifdef __aarch64__
  (void)dnnl_set_jit_profiling_flags(DNNL_JIT_PROFILE_NONE);
#endif
}

crema_status cr_dnnl_engine(dnnl_engine_t *out) {
  dnnl_status_t status = dnnl_success;
  pthread_mutex_lock(&dnnl_layouts.lock);
  if (dnnl_layouts.engine == NULL) {
    list_no_code();
    status = dnnl_engine_create(&dnnl_layouts.engine, dnnl_cpu, 0);
  }
  *out = dnnl_layouts.engine;
  pthread_mutex_unlock(&dnnl_layouts.lock);
  return cr_dnnl_check(status, "engine");
}

crema_status cr_dnnl_type(crema_dtype type, dnnl_data_type_t *out) {
  switch (type) {
    case CREMA_F32: *out = dnnl_f32; return CREMA_OK;
    case CREMA_F16: *out = dnnl_f16; return CREMA_OK;
    case CREMA_BF16: *out = dnnl_bf16; return CREMA_OK;
    case CREMA_I32: *out = dnnl_s32; return CREMA_OK;
    case CREMA_I8: *out = dnnl_s8; return CREMA_OK;
    case CREMA_U8: *out = dnnl_u8; return CREMA_OK;
    default:
      return cr_fail(CREMA_E_UNSUPPORTED, "oneDNN has no element type %s", crema_dtype_name(type));
  }
}

crema_status cr_dnnl_md_type(cr_const_md md, crema_dtype *out) {
  cr_md_view view;
  cr_md_look(md, &view);
  switch (view.type) {
    case dnnl_f32: *out = CREMA_F32; return CREMA_OK;
    case dnnl_f16: *out = CREMA_F16; return CREMA_OK;
    case dnnl_bf16: *out = CREMA_BF16; return CREMA_OK;
    case dnnl_s32: *out = CREMA_I32; return CREMA_OK;
    case dnnl_s8: *out = CREMA_I8; return CREMA_OK;
    case dnnl_u8: *out = CREMA_U8; return CREMA_OK;
    default:
      return cr_fail(CREMA_E_UNSUPPORTED, "unknown element type %d of oneDNN", (int)view.type);
  }
}

/* Format tags with 3, 4 and 5 axes. */
static const struct {
  cr_dnnl_order order;
  dnnl_format_tag_t tag[3];
} orders[] = {
    {{CR_DNNL_LAST, 1}, {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc}},
    {{CR_DNNL_BLOCKED, 4}, {dnnl_nCw4c, dnnl_nChw4c, dnnl_nCdhw4c}},
    {{CR_DNNL_BLOCKED, 8}, {dnnl_nCw8c, dnnl_nChw8c, dnnl_nCdhw8c}},
    {{CR_DNNL_BLOCKED, 16}, {dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c}},
};

static dnnl_format_tag_t order_tag(cr_dnnl_order order, int axes) {
  if (axes < 3 || axes > 5) return dnnl_format_tag_undef;
  for (size_t i = 0; i < sizeof orders / sizeof orders[0]; ++i) {
    if (orders[i].order.kind == order.kind && orders[i].order.block == order.block) {
      return orders[i].tag[axes - 3];
    }
  }
  return dnnl_format_tag_undef;
}

crema_status cr_dnnl_md_ordered(const crema_shape *shape, crema_dtype type, cr_dnnl_order order,
                                cr_md *out) {
  dnnl_data_type_t data_type = dnnl_f32;
  CR_TRY(cr_dnnl_type(type, &data_type));
  if (shape->axes < 1 || shape->axes > DNNL_MAX_NDIMS) {
    return cr_fail(CREMA_E_UNSUPPORTED, "%d axes", shape->axes);
  }
  dnnl_dims_t dims;
  for (int i = 0; i < shape->axes; ++i) {
    dims[i] = shape->dim[i];
    if (dims[i] < 1) return cr_fail(CREMA_E_UNSUPPORTED, "an empty shape");
  }
  if (order.kind == CR_DNNL_PLAIN) {
    return cr_dnnl_check(cr_md_create(out, shape->axes, dims, data_type, NULL), "plain memory");
  }
  dnnl_format_tag_t tag = order_tag(order, shape->axes);
  if (tag == dnnl_format_tag_undef) return cr_fail(CREMA_E_UNSUPPORTED, "no such memory order");
  return cr_dnnl_check(cr_md_create_tag(out, shape->axes, dims, data_type, tag), "memory order");
}

static bool is_row_major(const cr_md_view *v) {
  if (!v->blocked || v->inner_blocks != 0 || v->offset != 0) return false;
  dnnl_dim_t step = 1;
  for (int i = v->ndims - 1; i >= 0; --i) {
    if (v->dims[i] != 1 && v->strides[i] != step) return false;
    step *= v->dims[i];
  }
  return true;
}

static cr_dnnl_order find_order(cr_const_md md, const cr_md_view *view) {
  cr_dnnl_order none = {CR_DNNL_OTHER, 1};
  if (!view->blocked || view->ndims < 3 || view->ndims > 5) return none;
  for (size_t i = 0; i < sizeof orders / sizeof orders[0]; ++i) {
    cr_md candidate = NULL;
    if (cr_md_create_tag(&candidate, view->ndims, view->dims, view->type,
                         orders[i].tag[view->ndims - 3]) != dnnl_success) {
      continue;
    }
    bool equal = dnnl_memory_desc_equal(candidate, md) != 0;
    cr_md_destroy(candidate);
    if (equal) return orders[i].order;
  }
  return none;
}

/* Full blocks of channels with one value per channel are the same bytes as row-major memory. */
static bool is_row_major_in_blocks(cr_const_md md, const cr_md_view *v) {
  cr_dnnl_order order = find_order(md, v);
  if (order.kind != CR_DNNL_BLOCKED || v->dims[1] % order.block != 0) return false;
  for (int i = 2; i < v->ndims; ++i) {
    if (v->dims[i] != 1) return false;
  }
  return true;
}

static layout_node *find_layout(const crema_device *device, cr_const_md md, bool opaque,
                                const crema_shape *shape, crema_dtype type) {
  for (layout_node *node = dnnl_layouts.layouts; node != NULL; node = node->next) {
    if (node->layout.device == device && node->opaque == opaque && node->layout.type == type &&
        crema_shape_equal(&node->layout.shape, shape) && dnnl_memory_desc_equal(node->md, md)) {
      return node;
    }
  }
  return NULL;
}

/* `packed`: the same layout without gaps, or NULL. */
static crema_status add_layout(crema_device *device, cr_const_md md, bool opaque,
                               const crema_shape *shape, crema_dtype type, bool gaps,
                               const cr_layout *packed, layout_node **out) {
  layout_node *node = calloc(1, sizeof *node);
  if (node == NULL) return cr_fail_memory(sizeof *node, "a memory layout");
  crema_status status = cr_dnnl_check(cr_md_clone(&node->md, md), "memory descriptor");
  if (status != CREMA_OK) {
    free(node);
    return status;
  }
  cr_md_view view;
  cr_md_look(node->md, &view);
  node->opaque = opaque;
  node->order = opaque ? (cr_dnnl_order){CR_DNNL_OTHER, 1} : find_order(node->md, &view);
  node->layout = (cr_layout){.device = device,
                             .type = type,
                             .shape = *shape,
                             .bytes = dnnl_memory_desc_get_size(md),
                             .gaps = gaps,
                             .packed = packed,
                             .detail = node};
  node->next = dnnl_layouts.layouts;
  dnnl_layouts.layouts = node;
  *out = node;
  return CREMA_OK;
}

static crema_status intern(crema_device *device, cr_const_md md, bool opaque,
                           const crema_shape *shape, crema_dtype type, bool gaps,
                           const cr_layout *packed, const cr_layout **out) {
  pthread_mutex_lock(&dnnl_layouts.lock);
  crema_status status = CREMA_OK;
  layout_node *node = find_layout(device, md, opaque, shape, type);
  if (node == NULL) {
    status = add_layout(device, md, opaque, shape, type, gaps, packed, &node);
  }
  pthread_mutex_unlock(&dnnl_layouts.lock);
  if (status == CREMA_OK) *out = &node->layout;
  return status;
}

crema_status cr_dnnl_layout(crema_device *device, cr_const_md md, const cr_layout **out) {
  cr_md_view view;
  cr_md_look(md, &view);
  *out = NULL;
  if (is_row_major(&view) || is_row_major_in_blocks(md, &view)) return CREMA_OK;
  crema_dtype type = CREMA_F32;
  CR_TRY(cr_dnnl_md_type(md, &type));
  crema_shape shape = {.axes = view.ndims};
  for (int i = 0; i < view.ndims; ++i) shape.dim[i] = view.dims[i];
  return intern(device, md, false, &shape, type, false, NULL, out);
}

crema_status cr_dnnl_layout_opaque(crema_device *device, cr_const_md md, const crema_shape *shape,
                                   crema_dtype type, const cr_layout **out) {
  return intern(device, md, true, shape, type, false, NULL, out);
}

static const layout_node *node_of(const cr_layout *layout) {
  return layout->detail;
}

cr_const_md cr_dnnl_layout_md(const cr_layout *layout) {
  return node_of(layout)->md;
}

cr_dnnl_order cr_dnnl_layout_order(const cr_layout *layout) {
  return layout == NULL ? (cr_dnnl_order){CR_DNNL_PLAIN, 1} : node_of(layout)->order;
}

bool cr_dnnl_layout_is_opaque(const cr_layout *layout) {
  return node_of(layout)->opaque;
}

crema_status cr_dnnl_layout_ordered(crema_device *device, const crema_shape *shape,
                                    crema_dtype type, cr_dnnl_order order, const cr_layout **out) {
  cr_md md = NULL;
  *out = NULL;
  if (order.kind == CR_DNNL_PLAIN) return CREMA_OK;
  CR_TRY(cr_dnnl_md_ordered(shape, type, order, &md));
  crema_status status = cr_dnnl_layout(device, md, out);
  cr_md_destroy(md);
  return status;
}

const cr_layout *cr_dnnl_layout_in(const cr_layout *layout, crema_dtype type) {
  layout_node *node = (layout_node *)layout->detail;
  if (layout->type == type) return layout;
  if (node->order.kind == CR_DNNL_OTHER) return NULL;
  const cr_layout *found = atomic_load(&node->in_type[type]);
  if (found != NULL) return found;
  if (cr_dnnl_layout_ordered(layout->device, &layout->shape, type, node->order, &found) !=
          CREMA_OK ||
      found == NULL) {
    return NULL;
  }
  const size_t size = crema_dtype_size(layout->type), other = crema_dtype_size(type);
  if (layout->bytes / size != found->bytes / other) return NULL;
  atomic_store(&node->in_type[type], found);
  return found;
}

/* `part` in `order` with the strides of `whole` in that order. */
static crema_status part_with_gaps(crema_device *device, crema_dtype type, cr_dnnl_order order,
                                   const crema_shape *whole, const crema_shape *part,
                                   const cr_layout *packed, const cr_layout **out) {
  cr_md all = NULL, md = NULL;
  cr_md_view view;
  dnnl_dims_t dims;
  dnnl_data_type_t element = dnnl_f32;
  CR_TRY(cr_dnnl_type(type, &element));
  CR_TRY(cr_dnnl_md_ordered(whole, type, order, &all));
  cr_md_look(all, &view);
  for (int i = 0; i < part->axes; ++i) dims[i] = part->dim[i];
  crema_status status = cr_dnnl_check(cr_md_create(&md, part->axes, dims, element, view.strides),
                                      "a part of an array");
  if (status == CREMA_OK) status = intern(device, md, false, part, type, true, packed, out);
  cr_md_destroy(md);
  cr_md_destroy(all);
  return status;
}

/* The bytes from one index of the part's axis to the next; 0: they differ. */
static size_t step_of(cr_format format, cr_dnnl_order order, const cr_part *part) {
  const crema_shape *whole = &part->whole;
  const size_t size = crema_dtype_size(format.type);
  if (part->axis == 0) {
    const size_t values = (size_t)crema_shape_count(whole, 0, whole->axes);
    const size_t bytes = format.layout != NULL ? format.layout->bytes : values * size;
    return whole->dim[0] > 0 ? bytes / (size_t)whole->dim[0] : 0;
  }
  if (part->axis != 1 || part->at % order.block != 0) return 0;
  if (order.kind == CR_DNNL_LAST) return size;
  if (part->shape.dim[0] != 1 || part->shape.dim[1] % order.block != 0) return 0;
  return (size_t)crema_shape_count(whole, 2, whole->axes) * size;
}

bool cr_dnnl_part(cr_format format, const cr_part *part, cr_part_place *out) {
  const cr_dnnl_order order = cr_dnnl_layout_order(format.layout);
  const crema_shape *whole = &part->whole;
  crema_device *device = cr_cpu_device();
  if (order.kind == CR_DNNL_OTHER) return false;
  if (format.layout != NULL && !crema_shape_equal(&format.layout->shape, whole)) return false;
  const size_t step = step_of(format, order, part);
  if (step == 0) return false;
  *out = (cr_part_place){.format.type = format.type, .offset = (size_t)part->at * step};
  const cr_layout *packed = NULL;
  if (cr_dnnl_layout_ordered(device, &part->shape, format.type, order, &packed) != CREMA_OK) {
    return false;
  }
  out->format.layout = packed;
  if (order.kind != CR_DNNL_LAST || part->shape.dim[1] == whole->dim[1]) return true;
  return part_with_gaps(device, format.type, order, whole, &part->shape, packed,
                        &out->format.layout) == CREMA_OK;
}

bool cr_dnnl_enlarge(cr_format format, const crema_shape *shape, cr_format *out) {
  const cr_dnnl_order order = cr_dnnl_layout_order(format.layout);
  *out = (cr_format){format.type, NULL};
  if (order.kind == CR_DNNL_OTHER) return false;
  return cr_dnnl_layout_ordered(cr_cpu_device(), shape, format.type, order, &out->layout) ==
         CREMA_OK;
}

int64_t cr_dnnl_layout_step(const cr_layout *layout) {
  cr_md_view view;
  if (layout == NULL || !layout->gaps) return 0;
  if (cr_dnnl_layout_order(layout->packed).kind != CR_DNNL_LAST) return 0;
  cr_md_look(node_of(layout)->md, &view);
  return view.strides[view.ndims - 1];
}

void cr_dnnl_layout_text(const cr_layout *layout, char *text, size_t size) {
  cr_md_view view;
  bool done[DNNL_MAX_NDIMS] = {false}, blocks[DNNL_MAX_NDIMS] = {false};
  cr_md_look(node_of(layout)->md, &view);
  snprintf(text, size, "opaque");
  if (!view.blocked || cr_dnnl_layout_is_opaque(layout)) return;
  for (int i = 0; i < view.inner_blocks; ++i) blocks[view.block_axis[i]] = true;
  size_t used = 0;
  for (int n = 0; n < view.ndims && used + 1 < size; ++n) {
    int next = -1; /* the axis with the largest stride of those that are left */
    for (int i = 0; i < view.ndims; ++i) {
      if (!done[i] && (next < 0 || view.strides[i] > view.strides[next])) next = i;
    }
    done[next] = true;
    text[used++] = (char)((blocks[next] ? 'A' : 'a') + next);
    text[used] = '\0';
  }
  for (int i = 0; i < view.inner_blocks && used < size; ++i) {
    used += (size_t)snprintf(text + used, size - used, "%d%c", (int)view.block[i],
                             'a' + (int)view.block_axis[i]);
  }
}
