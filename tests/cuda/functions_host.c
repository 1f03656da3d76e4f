#include "functions_host.h"

#include "stored.h"

/* functions_host_f32.c and its like define the form. */
#ifndef CR_FORM_NAME
#define CR_FORM_NAME any
#endif
#define CR_JOIN(a, b) a##b
#define CR_TABLE(form) CR_JOIN(host_functions_, form)

const host_body CR_TABLE(CR_FORM_NAME)[] = {
#define CR_EACH(name, args) {.text = #name, .bytes = sizeof(args), .each = cr_##name##_device},
#define CR_VALUE(name, args) {.text = #name, .bytes = sizeof(args), .each = cr_##name##_stored},
#define CR_THREAD_BLOCK(name, args) {.text = #name, .bytes = sizeof(args), .thread_block = cr_##name##_device},
#define CR_EACH_HALVES(name, args) CR_EACH(name, args)
#define CR_THREAD_BLOCK_HALVES(name, args) CR_THREAD_BLOCK(name, args)
#define CR_EACH_PACKS(name, args) \
  {.text = #name, .bytes = sizeof(args), .each = cr_##name##_device, .pack = cr_##name##_pack, \
   .length = CR_PACK},
#define CR_VALUE_PACKS(name, args) \
  {.text = #name, .bytes = sizeof(args), .each = cr_##name##_stored, .pack = cr_##name##_pack, \
   .length = CR_PACK},
#include "device/gpu/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_VALUE
#undef CR_THREAD_BLOCK
#undef CR_EACH_HALVES
#undef CR_THREAD_BLOCK_HALVES
#undef CR_EACH_PACKS
#undef CR_VALUE_PACKS
};
