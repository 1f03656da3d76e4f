/* What C's headers give to the device functions (device/gpu/kernels), for OpenCL C 1.2. The compiler reads this file
 * first. */
#define CR_OPENCL
#ifndef CR_NO_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
/* The host's results: no product is fused with a sum unless the code asks for it. */
#pragma OPENCL FP_CONTRACT OFF

typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
#define INT32_MAX INT_MAX

/* Names of fields and parameters that are words of OpenCL C. */
#define kernel cr_kernel
#define global cr_global
#define half cr_half

#define erfcf erfc
#define expf exp
#define expm1f expm1
#define logf log
#define log1pf log1p
#define sqrtf sqrt
#define powf pow
#define tanhf tanh
#define fabsf fabs
#define fmaxf fmax
#define fminf fmin
#define floorf floor
#define ceilf ceil
#define nearbyint rint
