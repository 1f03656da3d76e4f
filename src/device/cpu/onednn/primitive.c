#include "device/cpu/onednn/primitive.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

enum { MAX_SLOTS = 10 };

typedef struct prim {
  dnnl_primitive_t primitive;
  int slots;
  int arg[MAX_SLOTS]; /* the op's argument; -1: the workspace; CR_DNNL_NUMBERS */
  int id[MAX_SLOTS];  /* the primitive's */
} prim;

typedef struct execution {
  dnnl_stream_t stream;
  uintptr_t address[MAX_SLOTS]; /* the current address of the memory object */
  dnnl_exec_arg_t exec[MAX_SLOTS];
} execution;

static void add_slot(prim *p, int arg, int id) {
  p->arg[p->slots] = arg;
  p->id[p->slots] = id;
  ++p->slots;
}

/* The format of argument `arg` for the primitive's descriptor `md`. */
static crema_status choose_format(cr_plan *plan, cr_const_md md, const cr_dnnl_bind *bind) {
  cr_format *format = &plan->format[bind->arg];
  const cr_op_arg *arg = &plan->desc->arg[bind->arg];
  *format = (cr_format){arg->type, NULL};
  if (bind->how == CR_DNNL_NOTES) {
    return cr_dnnl_layout_opaque(plan->context->device, md, &arg->shape, arg->type,
                                 &format->layout);
  }
  CR_TRY(cr_dnnl_md_type(md, &format->type));
  if (bind->how == CR_DNNL_AS_IS) return CREMA_OK;
  return cr_dnnl_layout(plan->context->device, md, &format->layout);
}

static crema_status bind_argument(cr_plan *plan, prim *p, const_dnnl_primitive_desc_t pd,
                                  const cr_dnnl_bind *bind) {
  if (bind->arg >= 0 && cr_dnnl_absent(plan, bind->arg)) return CREMA_OK;
  cr_const_md md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, bind->id);
  if (md == NULL || dnnl_memory_desc_get_size(md) == 0) {
    if (bind->how == CR_DNNL_NOTES) return CREMA_OK;
    return cr_fail(CREMA_E_UNSUPPORTED, "oneDNN's implementation has no argument %d", bind->id);
  }
  if (bind->arg >= 0) CR_TRY(choose_format(plan, md, bind));
  add_slot(p, bind->arg, bind->id);
  return CREMA_OK;
}

bool cr_dnnl_pd_named(const_dnnl_primitive_desc_t pd, const char *part) {
  const char *name = "";
  if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success) {
    return false;
  }
  return strstr(name, part) != NULL;
}

crema_status cr_dnnl_pd_check_product(dnnl_primitive_desc_t pd) {
  if (!cr_dnnl_pd_named(pd, "gemm:ref")) return CREMA_OK;
  dnnl_primitive_desc_destroy(pd);
  return cr_fail(CREMA_E_UNSUPPORTED, "oneDNN implements it with portable code");
}

static crema_status fill_prim(cr_plan *plan, prim *p, dnnl_primitive_desc_t pd,
                              const cr_dnnl_bind *bind, int binds) {
  if (cr_dnnl_pd_named(pd, "ref:")) {
    return cr_fail(CREMA_E_UNSUPPORTED, "oneDNN has only its reference implementation");
  }
  for (int i = 0; i < plan->desc->args; ++i) plan->format[i] = plan->hint[i];
  for (int i = 0; i < binds; ++i) CR_TRY(bind_argument(plan, p, pd, &bind[i]));
  cr_const_md scratchpad =
      dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, DNNL_ARG_SCRATCHPAD);
  size_t bytes = scratchpad == NULL ? 0 : dnnl_memory_desc_get_size(scratchpad);
  if (bytes > 0) {
    add_slot(p, -1, DNNL_ARG_SCRATCHPAD);
    plan->workspace_bytes = bytes;
  }
  return cr_dnnl_check(dnnl_primitive_create(&p->primitive, pd), "primitive");
}

crema_status cr_dnnl_prim_create(cr_plan *plan, dnnl_primitive_desc_t pd, const cr_dnnl_bind *bind,
                                 int binds) {
  prim *p = calloc(1, sizeof *p);
  crema_status status;
  if (p == NULL) {
    status = cr_fail_memory(sizeof *p, "a primitive");
  } else if (binds >= MAX_SLOTS) {
    free(p);
    status = cr_fail(CREMA_E_INTERNAL, "a primitive of %d arguments", binds);
  } else {
    plan->state = p;
    status = fill_prim(plan, p, pd, bind, binds);
    if (status != CREMA_OK) cr_dnnl_prim_destroy(plan);
  }
  dnnl_primitive_desc_destroy(pd);
  return status;
}

void cr_dnnl_operands_close(cr_dnnl_operands *o) {
  cr_md_destroy(o->dst);
  cr_md_destroy(o->bias);
  cr_md_destroy(o->weights);
  cr_md_destroy(o->src);
  cr_dnnl_env_close(&o->env);
}

static crema_status fill_execution(const prim *p, execution *e) {
  dnnl_engine_t engine = NULL;
  const_dnnl_primitive_desc_t pd = NULL;
  CR_TRY(cr_dnnl_engine(&engine));
  CR_TRY(cr_dnnl_check(dnnl_primitive_get_primitive_desc(p->primitive, &pd), "primitive"));
  for (int i = 0; i < p->slots; ++i) {
    cr_const_md md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, p->id[i]);
    e->exec[i].arg = p->id[i];
    CR_TRY(cr_dnnl_check(dnnl_memory_create(&e->exec[i].memory, md, engine, DNNL_MEMORY_NONE),
                         "memory"));
  }
  return cr_dnnl_check(dnnl_stream_create(&e->stream, engine, dnnl_stream_default_flags), "stream");
}

crema_status cr_dnnl_prim_open(const cr_plan *plan, void **out) {
  execution *e = calloc(1, sizeof *e);
  if (e == NULL) return cr_fail_memory(sizeof *e, "an execution");
  crema_status status = fill_execution(plan->state, e);
  if (status == CREMA_OK) *out = e;
  else cr_dnnl_prim_close(plan, e);
  return status;
}

void cr_dnnl_prim_close(const cr_plan *plan, void *given) {
  const prim *p = plan->state;
  execution *e = given;
  if (e == NULL) return;
  if (e->stream != NULL) dnnl_stream_destroy(e->stream);
  for (int i = p->slots - 1; i >= 0; --i) {
    if (e->exec[i].memory != NULL) dnnl_memory_destroy(e->exec[i].memory);
  }
  free(e);
}

crema_status cr_dnnl_prim_run(const cr_call *call) {
  const prim *p = call->plan->state;
  execution *e = call->execution;
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < p->slots && status == dnnl_success; ++i) {
    const int arg = p->arg[i];
    const uintptr_t address = arg == CR_DNNL_NUMBERS ? (uintptr_t)cr_op_numbers(call->desc)
                              : arg < 0              ? call->workspace.address
                                                     : call->buffer[arg].address;
    if (address == e->address[i]) continue;
    status = dnnl_memory_set_data_handle(e->exec[i].memory, (void *)address);
    e->address[i] = address;
  }
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(p->primitive, e->stream, p->slots, e->exec);
  }
  if (status == dnnl_success) status = dnnl_stream_wait(e->stream);
  return status == dnnl_success ? CREMA_OK : cr_dnnl_check(status, "execution");
}

void cr_dnnl_prim_destroy(cr_plan *plan) {
  prim *p = plan->state;
  if (p == NULL) return;
  if (p->primitive != NULL) dnnl_primitive_destroy(p->primitive);
  free(p);
  plan->state = NULL;
}

crema_status cr_dnnl_one_type(const cr_plan *plan, crema_dtype *out) {
  const cr_op_desc *desc = plan->desc;
  bool found = false;
  for (int i = 0; i < desc->args; ++i) {
    const crema_dtype type = desc->arg[i].type;
    const bool floating = type == CREMA_F32 || type == CREMA_BF16 || type == CREMA_F16;
    if (cr_dnnl_absent(plan, i) || !(floating || type == desc->type)) continue;
    if (cr_op_kind_use(desc->kind, desc->args, i).role != CR_ROLE_VALUES) continue;
    if (found && type != *out) return cr_fail(CREMA_E_UNSUPPORTED, "values of two types");
    *out = type;
    found = true;
  }
  return found ? CREMA_OK : cr_fail(CREMA_E_UNSUPPORTED, "no values");
}

/* With AVX-512 but without its bfloat16 instructions the library converts each factor to a float.
 */
crema_status cr_dnnl_product_type(const cr_plan *plan, int a, int b, crema_dtype *out) {
  const crema_dtype first = plan->desc->arg[a].type, second = plan->desc->arg[b].type;
  const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
  const unsigned avx512 = dnnl_cpu_isa_avx512_core, bf16 = dnnl_cpu_isa_avx512_core_bf16;
  *out = first != CREMA_F32 ? first : second;
  if (plan->desc->numbers > 0) return CREMA_OK;
  if (second != *out && second != CREMA_F32) {
    return cr_fail(CREMA_E_UNSUPPORTED, "products of %s and %s", crema_dtype_name(first),
                   crema_dtype_name(second));
  }
  if (*out == CREMA_BF16 && (isa & avx512) == avx512 && (isa & bf16) != bf16) {
    return cr_fail(CREMA_E_UNSUPPORTED, "no instructions for products of bf16");
  }
  return CREMA_OK;
}

crema_dtype cr_dnnl_sum_type(const cr_plan *plan, int arg, crema_dtype product) {
  return product == CREMA_F32 ? CREMA_F32 : plan->desc->arg[arg].type;
}

crema_dtype cr_dnnl_operand_type(const cr_plan *plan, int arg, crema_dtype product) {
  const bool factor = cr_op_kind_use(plan->desc->kind, plan->desc->args, arg).access == 'R';
  if (plan->desc->numbers > 0) return plan->desc->arg[arg].type;
  return factor ? product : cr_dnnl_sum_type(plan, arg, product);
}

crema_status cr_dnnl_check_sample(const cr_plan *plan, int arg) {
  const crema_shape *shape = &plan->desc->arg[arg].shape;
  if (shape->axes > 1 && crema_shape_count(shape, 1, shape->axes) > INT32_MAX) {
    return cr_fail(CREMA_E_UNSUPPORTED, "samples of more than %d values", INT32_MAX);
  }
  return CREMA_OK;
}

crema_status cr_dnnl_md_any(const cr_plan *plan, int arg, crema_dtype type, cr_md *out) {
  const crema_shape *shape = &plan->desc->arg[arg].shape;
  dnnl_data_type_t element = dnnl_f32;
  CR_TRY(cr_dnnl_type(type, &element));
  if (shape->axes < 1 || shape->axes > DNNL_MAX_NDIMS) {
    return cr_fail(CREMA_E_UNSUPPORTED, "%d axes", shape->axes);
  }
  CR_TRY(cr_dnnl_check_sample(plan, arg));
  dnnl_dims_t dims;
  for (int i = 0; i < shape->axes; ++i) {
    dims[i] = shape->dim[i];
    if (dims[i] < 1) return cr_fail(CREMA_E_UNSUPPORTED, "an empty shape");
  }
  return cr_dnnl_check(cr_md_create_tag(out, shape->axes, dims, element, dnnl_format_tag_any),
                       "memory");
}

crema_status cr_dnnl_md_plain(const cr_plan *plan, int arg, crema_dtype type, cr_md *out) {
  return cr_dnnl_md_ordered(&plan->desc->arg[arg].shape, type, (cr_dnnl_order){CR_DNNL_PLAIN, 1},
                            out);
}

const cr_layout *cr_dnnl_held(const cr_plan *plan, int arg) {
  const cr_layout *layout = plan->hint[arg].layout;
  const bool own = layout != NULL && crema_shape_equal(&layout->shape, &plan->desc->arg[arg].shape);
  return own ? layout : NULL;
}

crema_status cr_dnnl_md_follow(const cr_plan *plan, int arg, int hinted, cr_md *out) {
  const cr_layout *layout = plan->hint[hinted].layout;
  const crema_shape *shape = &plan->desc->arg[arg].shape;
  cr_dnnl_order order = {CR_DNNL_PLAIN, 1};
  if (layout != NULL && layout->shape.axes == shape->axes && shape->axes >= 3 &&
      layout->shape.dim[0] == shape->dim[0] && layout->shape.dim[1] == shape->dim[1] &&
      cr_dnnl_layout_order(layout).kind != CR_DNNL_OTHER) {
    order = cr_dnnl_layout_order(layout);
  }
  return cr_dnnl_md_ordered(shape, plan->desc->arg[arg].type, order, out);
}

/* The largest kernel, stride, pad or dilation that is handed to the library, which multiplies them
 * with extents and with each other in 32 bits. */
enum { WINDOW_MAX = 16384 };

crema_status cr_dnnl_window(const cr_plan *plan, const cr_window *window, int src, int dst,
                            cr_pd_window *out) {
  const crema_shape *in = &plan->desc->arg[src].shape, *to = &plan->desc->arg[dst].shape;
  const cr_window *w = window;
  if (w->axes < 1 || w->axes > 3 || in->axes != w->axes + 2 || to->axes != w->axes + 2) {
    return cr_fail(CREMA_E_UNSUPPORTED, "a window over %d axes", w->axes);
  }
  for (int i = 0; i < w->axes; ++i) {
    if (w->kernel[i] > WINDOW_MAX || w->stride[i] > WINDOW_MAX || w->pad[i] > WINDOW_MAX ||
        w->dilation[i] > WINDOW_MAX) {
      return cr_fail(CREMA_E_UNSUPPORTED, "a window of very large extents");
    }
    int64_t reach = (to->dim[i + 2] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
    out->kernel[i] = w->kernel[i];
    out->stride[i] = w->stride[i];
    out->dilate[i] = w->kernel[i] == 1 ? 0 : w->dilation[i] - 1;
    out->pad_begin[i] = w->pad[i];
    out->pad_end[i] = reach - in->dim[i + 2] - w->pad[i];
  }
  return CREMA_OK;
}
