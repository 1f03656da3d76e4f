/* Conversion between plain and private formats by cached oneDNN reorders. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/backend.h"
#include "device/backend/convert.h"
#include "device/cpu/onednn/layout.h"
#include "device/cpu/onednn/ready.h"
#include "device/cpu/onednn/reorder.h"
#include "device/memory/host_memory.h"

enum { BUCKETS = 256 };

/* A prepared reorder; one thread uses it at a time. */
typedef struct reorder {
  cr_format dst, src;
  dnnl_primitive_t primitive; /* NULL: move_values is faster */
  dnnl_stream_t stream;
  dnnl_memory_t dst_memory, src_memory;
  struct reorder *next;
} reorder;

/* Idle reorders by their formats. */
typedef struct idle_reorders {
  pthread_mutex_t lock;
  reorder *bucket[BUCKETS];
} idle_reorders;

static idle_reorders dnnl_reorders = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t bucket_of(cr_format dst, cr_format src) {
  uintptr_t mix = (uintptr_t)dst.layout / 64 * 31 + (uintptr_t)src.layout / 64;
  mix = mix * 31 + (uintptr_t)dst.type * 16 + (uintptr_t)src.type;
  return (size_t)(mix ^ (mix >> 8)) % BUCKETS;
}

static reorder *take_idle(cr_format dst, cr_format src) {
  pthread_mutex_lock(&dnnl_reorders.lock);
  reorder **link = &dnnl_reorders.bucket[bucket_of(dst, src)];
  while (*link != NULL &&
         !(cr_format_equal((*link)->dst, dst) && cr_format_equal((*link)->src, src))) {
    link = &(*link)->next;
  }
  reorder *found = *link;
  if (found != NULL) *link = found->next;
  pthread_mutex_unlock(&dnnl_reorders.lock);
  return found;
}

static void put_idle(reorder *r) {
  pthread_mutex_lock(&dnnl_reorders.lock);
  reorder **head = &dnnl_reorders.bucket[bucket_of(r->dst, r->src)];
  r->next = *head;
  *head = r;
  pthread_mutex_unlock(&dnnl_reorders.lock);
}

static void reorder_destroy(reorder *r) {
  if (r == NULL) return;
  if (r->src_memory != NULL) dnnl_memory_destroy(r->src_memory);
  if (r->dst_memory != NULL) dnnl_memory_destroy(r->dst_memory);
  if (r->stream != NULL) dnnl_stream_destroy(r->stream);
  if (r->primitive != NULL) dnnl_primitive_destroy(r->primitive);
  free(r);
}

/* The descriptor of one side; the plain side has the shape of the private one. The caller destroys
 * *owned. */
static crema_status side_md(cr_format format, const cr_layout *shape_from, cr_md *owned,
                            cr_const_md *out) {
  *owned = NULL;
  if (format.layout != NULL) {
    *out = cr_dnnl_layout_md(format.layout);
    return CREMA_OK;
  }
  CR_TRY(cr_dnnl_md_ordered(&shape_from->shape, format.type, (cr_dnnl_order){CR_DNNL_PLAIN, 1},
                            owned));
  *out = *owned;
  return CREMA_OK;
}

/* True if `pd` is the library's generic code for 16 bits, which is slower than move_values. */
static bool is_slow(const reorder *r, const_dnnl_primitive_desc_t pd) {
  const cr_layout *const sides[] = {r->dst.layout, r->src.layout};
  const char *name = NULL;
  if (r->dst.type != r->src.type || crema_dtype_size(r->dst.type) != sizeof(uint16_t)) return false;
  for (int i = 0; i < 2; ++i) {
    if (sides[i] != NULL && cr_dnnl_layout_order(sides[i]).kind == CR_DNNL_OTHER) return false;
  }
  return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) ==
             dnnl_success &&
         strncmp(name, "jit", 3) != 0;
}

static crema_status fill_reorder(reorder *r, cr_const_md dst, cr_const_md src) {
  dnnl_engine_t engine = NULL;
  CR_TRY(cr_dnnl_engine(&engine));
  dnnl_primitive_desc_t pd = NULL;
  CR_TRY(cr_dnnl_check(dnnl_reorder_primitive_desc_create(&pd, src, engine, dst, engine, NULL),
                       "reorder"));
  if (is_slow(r, pd)) {
    dnnl_primitive_desc_destroy(pd);
    return CREMA_OK;
  }
  dnnl_status_t status = dnnl_primitive_create(&r->primitive, pd);
  dnnl_primitive_desc_destroy(pd);
  CR_TRY(cr_dnnl_check(status, "reorder"));
  CR_TRY(
      cr_dnnl_check(dnnl_stream_create(&r->stream, engine, dnnl_stream_default_flags), "stream"));
  CR_TRY(
      cr_dnnl_check(dnnl_memory_create(&r->dst_memory, dst, engine, DNNL_MEMORY_NONE), "memory"));
  return cr_dnnl_check(dnnl_memory_create(&r->src_memory, src, engine, DNNL_MEMORY_NONE), "memory");
}

static crema_status reorder_create(cr_format dst, cr_format src, reorder **out) {
  crema_status status = CREMA_OK;
  cr_md dst_owned = NULL, src_owned = NULL;
  cr_const_md dst_md = NULL, src_md = NULL;
  reorder *r = calloc(1, sizeof *r);
  if (r == NULL) return cr_fail_memory(sizeof *r, "a reorder");
  r->dst = dst;
  r->src = src;
  CR_TRY_GOTO(side_md(dst, src.layout, &dst_owned, &dst_md), done);
  CR_TRY_GOTO(side_md(src, dst.layout, &src_owned, &src_md), done);
  CR_TRY_GOTO(fill_reorder(r, dst_md, src_md), done);
  *out = r;
  r = NULL;
done:
  cr_md_destroy(src_owned);
  cr_md_destroy(dst_owned);
  reorder_destroy(r);
  return status;
}

/* Without the library. */
static crema_status move_values(cr_format dst_format, crema_devptr dst, cr_format src_format,
                                crema_devptr src) {
  const cr_layout *some = dst_format.layout != NULL ? dst_format.layout : src_format.layout;
  const cr_dnnl_side to = {dst_format.layout, (char *)dst.address};
  const cr_dnnl_side from = {src_format.layout, (char *)src.address};
  return cr_dnnl_move(&some->shape, crema_dtype_size(dst_format.type), to, from);
}

static crema_status run_reorder(cr_format dst_format, crema_devptr dst, cr_format src_format,
                                crema_devptr src) {
  const cr_layout *some = dst_format.layout != NULL ? dst_format.layout : src_format.layout;
  const cr_dnnl_side to = {dst_format.layout, (char *)dst.address};
  const cr_dnnl_side from = {src_format.layout, (char *)src.address};
  const size_t size = crema_dtype_size(dst_format.type);
  if (dst_format.type == src_format.type && (cr_dnnl_move_view(&some->shape, size, to, from) ||
                                             cr_dnnl_move_pictures(&some->shape, size, to, from))) {
    return CREMA_OK;
  }
  if (!cr_dnnl_is_ready()) return move_values(dst_format, dst, src_format, src);
  reorder *r = take_idle(dst_format, src_format);
  if (r == NULL) {
    crema_status made = reorder_create(dst_format, src_format, &r);
    if (made != CREMA_OK && dst_format.type != src_format.type) return made;
    if (made != CREMA_OK) return move_values(dst_format, dst, src_format, src);
  }
  if (r->primitive == NULL) {
    put_idle(r);
    return move_values(dst_format, dst, src_format, src);
  }
  dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, r->src_memory}, {DNNL_ARG_TO, r->dst_memory}};
  dnnl_status_t status = dnnl_memory_set_data_handle(r->src_memory, (void *)src.address);
  if (status == dnnl_success) {
    status = dnnl_memory_set_data_handle(r->dst_memory, (void *)dst.address);
  }
  if (status == dnnl_success) status = dnnl_primitive_execute(r->primitive, r->stream, 2, args);
  if (status == dnnl_success) status = dnnl_stream_wait(r->stream);
  put_idle(r);
  return cr_dnnl_check(status, "reorder");
}

static bool is_computable(cr_format format) {
  return format.layout != NULL || format.type == CREMA_F32 || format.type == CREMA_I32 ||
         format.type == CREMA_I8 || format.type == CREMA_U8 || format.type == CREMA_BF16 ||
         format.type == CREMA_F16;
}

/* Converts via plain memory of the private side's element type: for element types that oneDNN
 * lacks, between private layouts of different shapes, and if oneDNN cannot be called. */
static crema_status convert_via_plain(int64_t count, cr_format dst_format, crema_devptr dst,
                                      cr_format src_format, crema_devptr src) {
  cr_format middle = {src_format.layout != NULL ? src_format.type : dst_format.type, NULL};
  size_t bytes = (size_t)count * crema_dtype_size(middle.type);
  void *memory = NULL;
  CR_TRY(cr_host_alloc(bytes, &memory));
  crema_devptr between = {(uintptr_t)memory};
  crema_status status =
      src_format.layout != NULL
          ? run_reorder(middle, between, src_format, src)
          : cr_convert_plain(count, middle.type, memory, src_format.type, (void *)src.address);
  if (status == CREMA_OK) {
    status = dst_format.layout != NULL ? run_reorder(dst_format, dst, middle, between)
                                       : cr_convert_plain(count, dst_format.type,
                                                          (void *)dst.address, middle.type, memory);
  }
  cr_host_free(memory);
  return status;
}

static crema_status check_format(int64_t count, cr_format format) {
  if (format.layout == NULL) return CREMA_OK;
  int64_t values = crema_shape_count(&format.layout->shape, 0, format.layout->shape.axes);
  if (values == count) return CREMA_OK;
  return cr_fail(CREMA_E_INTERNAL, "a layout of %" PRId64 " values for %" PRId64, values, count);
}

crema_status cr_dnnl_convert(crema_context *context, int64_t count, cr_format dst_format,
                             crema_devptr dst, cr_format src_format, crema_devptr src) {
  (void)context;
  CR_TRY(check_format(count, dst_format));
  CR_TRY(check_format(count, src_format));
  if (src_format.layout != NULL && cr_dnnl_layout_is_opaque(src_format.layout)) {
    size_t bytes = dst_format.layout != NULL ? dst_format.layout->bytes
                                             : (size_t)count * crema_dtype_size(dst_format.type);
    memset((void *)dst.address, 0, bytes);
    return CREMA_OK;
  }
  if (dst_format.layout != NULL && cr_dnnl_layout_is_opaque(dst_format.layout)) {
    return cr_fail(CREMA_E_INTERNAL, "values cannot be converted to a library's private format");
  }
  if (src_format.layout != NULL && dst_format.layout != NULL &&
      dst_format.type != src_format.type &&
      cr_dnnl_layout_in(src_format.layout, dst_format.type) == dst_format.layout) {
    const size_t held = src_format.layout->bytes / crema_dtype_size(src_format.type);
    return cr_convert_plain((int64_t)held, dst_format.type, (void *)dst.address, src_format.type,
                            (const void *)src.address);
  }
  bool same_shape = dst_format.layout == NULL || src_format.layout == NULL ||
                    crema_shape_equal(&dst_format.layout->shape, &src_format.layout->shape);
  bool direct = dst_format.type == src_format.type || cr_dnnl_is_ready();
  if (!same_shape || !direct || !is_computable(dst_format) || !is_computable(src_format)) {
    return convert_via_plain(count, dst_format, dst, src_format, src);
  }
  return run_reorder(dst_format, dst, src_format, src);
}
