#include "chain/opencl_peak.h"

#include <stddef.h>

#if defined(BENCH_OPENCL)
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain/measure.h"

enum { CHAINS = 12, GROUP = 64, GROUPS_PER_UNIT = 32, MOST = 16, RUNS = 7 };

/* Each work-item has chains of its own vectors. The result depends on every value. */
static const char source[] =
    "__kernel void peak(__global float *out, int rounds, float factor, float addend) {\n"
    "  VECTOR sum[CHAINS];\n"
    "  for (int k = 0; k < CHAINS; ++k) sum[k] = (VECTOR)((float)(get_global_id(0) + k));\n"
    "  for (int i = 0; i < rounds; ++i) {\n"
    "    __attribute__((opencl_unroll_hint))\n"
    "    for (int k = 0; k < CHAINS; ++k) sum[k] = sum[k] * factor + addend;\n"
    "  }\n"
    "  for (int k = 1; k < CHAINS; ++k) sum[0] += sum[k];\n"
    "  out[get_global_id(0)] = LAST(sum[0]);\n"
    "}\n";

#define FUNCTIONS(X)           \
  X(clGetPlatformIDs)          \
  X(clGetDeviceIDs)            \
  X(clGetDeviceInfo)           \
  X(clCreateContext)           \
  X(clReleaseContext)          \
  X(clCreateCommandQueue)      \
  X(clReleaseCommandQueue)     \
  X(clCreateBuffer)            \
  X(clReleaseMemObject)        \
  X(clCreateProgramWithSource) \
  X(clBuildProgram)            \
  X(clReleaseProgram)          \
  X(clCreateKernel)            \
  X(clReleaseKernel)           \
  X(clSetKernelArg)            \
  X(clEnqueueNDRangeKernel)    \
  X(clFinish)

struct opencl_peak {
#define DECLARE(name) __typeof__(&name) name;
  FUNCTIONS(DECLARE)
#undef DECLARE
  void *library;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_mem out;
  cl_program program;
  cl_kernel kernel;
  size_t items;
  int rounds, width;
};

static bool load(opencl_peak *p) {
  p->library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (p->library == NULL) return false;
  bool all = true;
#define FIND(name)                            \
  {                                           \
    void *symbol = dlsym(p->library, #name);  \
    all = all && symbol != NULL;              \
    memcpy(&p->name, &symbol, sizeof symbol); \
  }
  FUNCTIONS(FIND)
#undef FIND
  return all;
}

static bool find_device(opencl_peak *p, const char *wanted) {
  cl_platform_id platform[MOST];
  cl_uint platforms = 0, devices = 0;
  if (p->clGetPlatformIDs(MOST, platform, &platforms) != CL_SUCCESS) return false;
  for (cl_uint i = 0; i < platforms && i < MOST; ++i) {
    cl_device_id device[MOST];
    if (p->clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_ALL, MOST, device, &devices) != CL_SUCCESS) {
      continue;
    }
    for (cl_uint k = 0; k < devices && k < MOST; ++k) {
      char name[256] = "";
      (void)p->clGetDeviceInfo(device[k], CL_DEVICE_NAME, sizeof name, name, NULL);
      p->device = device[k];
      if (strcmp(name, wanted) == 0) return true;
    }
  }
  return false;
}

static bool prepare(opencl_peak *p) {
  cl_uint units = 1;
  cl_int error = CL_SUCCESS;
  (void)p->clGetDeviceInfo(p->device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
  p->items = (size_t)units * GROUPS_PER_UNIT * GROUP;
  p->context = p->clCreateContext(NULL, 1, &p->device, NULL, NULL, &error);
  if (error == CL_SUCCESS) p->queue = p->clCreateCommandQueue(p->context, p->device, 0, &error);
  if (error == CL_SUCCESS) {
    p->out =
        p->clCreateBuffer(p->context, CL_MEM_WRITE_ONLY, p->items * sizeof(float), NULL, &error);
  }
  return error == CL_SUCCESS;
}

static void drop_kernel(opencl_peak *p) {
  if (p->kernel != NULL) p->clReleaseKernel(p->kernel);
  if (p->program != NULL) p->clReleaseProgram(p->program);
  p->kernel = NULL;
  p->program = NULL;
}

static bool compile(opencl_peak *p, int width) {
  const char *text = source;
  char options[200], vector[16] = "float", last[16] = "";
  cl_int error = CL_SUCCESS;
  drop_kernel(p);
  if (width > 1) {
    snprintf(vector, sizeof vector, "float%d", width);
    snprintf(last, sizeof last, ".s%x", (unsigned)width - 1);
  }
  snprintf(options, sizeof options, "-cl-mad-enable -D VECTOR=%s -D LAST(v)=v%s -D CHAINS=%d",
           vector, last, (int)CHAINS);
  p->width = width;
  p->program = p->clCreateProgramWithSource(p->context, 1, &text, NULL, &error);
  if (error == CL_SUCCESS) {
    error = p->clBuildProgram(p->program, 1, &p->device, options, NULL, NULL);
  }
  if (error == CL_SUCCESS) p->kernel = p->clCreateKernel(p->program, "peak", &error);
  return error == CL_SUCCESS;
}

void opencl_peak_run(void *peak) {
  opencl_peak *p = peak;
  const cl_int rounds = p->rounds;
  const float factor = 0.5f, addend = 1;
  const size_t group = GROUP;
  (void)p->clSetKernelArg(p->kernel, 0, sizeof(cl_mem), &p->out);
  (void)p->clSetKernelArg(p->kernel, 1, sizeof rounds, &rounds);
  (void)p->clSetKernelArg(p->kernel, 2, sizeof factor, &factor);
  (void)p->clSetKernelArg(p->kernel, 3, sizeof addend, &addend);
  if (p->clEnqueueNDRangeKernel(p->queue, p->kernel, 1, NULL, &p->items, &group, 0, NULL, NULL) !=
          CL_SUCCESS ||
      p->clFinish(p->queue) != CL_SUCCESS) {
    fprintf(stderr, "the kernel of multiply-adds fails\n");
    exit(1);
  }
}

/* Doubles the rounds until a run takes half the time at least; returns operations a second. */
static double calibrate(opencl_peak *p, double seconds) {
  contestant one = {"", opencl_peak_run, p, 0.0};
  p->rounds = 64;
  measure(&one, 1, 1, 1, 1, 0, NULL);
  while (one.seconds < seconds / 2 && p->rounds < 1 << 28) {
    p->rounds *= 2;
    measure(&one, 1, 0, 1, 1, 0, NULL);
  }
  measure(&one, 1, 1, RUNS, RUNS, 0, NULL);
  return opencl_peak_operations(p) / one.seconds;
}

opencl_peak *opencl_peak_open(const char *device_name, double seconds) {
  static const int width[] = {1, 4, 8, 16};
  int best_width = 0, best_rounds = 0;
  double best = 0;
  opencl_peak *p = calloc(1, sizeof *p);
  if (p == NULL) return NULL;
  if (!load(p) || !find_device(p, device_name) || !prepare(p)) goto fail;
  for (size_t i = 0; i < sizeof width / sizeof width[0]; ++i) {
    if (!compile(p, width[i])) continue;
    const double rate = calibrate(p, seconds);
    if (rate > best) best = rate, best_width = p->width, best_rounds = p->rounds;
  }
  if (best_width == 0 || !compile(p, best_width)) goto fail;
  p->rounds = best_rounds;
  return p;
fail:
  opencl_peak_close(p);
  return NULL;
}

void opencl_peak_close(opencl_peak *p) {
  if (p == NULL) return;
  if (p->library != NULL) {
    drop_kernel(p);
    if (p->out != NULL) p->clReleaseMemObject(p->out);
    if (p->queue != NULL) p->clReleaseCommandQueue(p->queue);
    if (p->context != NULL) p->clReleaseContext(p->context);
  }
  free(p); /* the library stays: drivers do not survive its end */
}

double opencl_peak_operations(const opencl_peak *p) {
  return 2.0 * (double)p->items * CHAINS * p->width * p->rounds;
}

int opencl_peak_width(const opencl_peak *p) {
  return p->width;
}
#else
opencl_peak *opencl_peak_open(const char *device_name, double seconds) {
  (void)device_name;
  (void)seconds;
  return NULL;
}
void opencl_peak_close(opencl_peak *peak) {
  (void)peak;
}
void opencl_peak_run(void *peak) {
  (void)peak;
}
double opencl_peak_operations(const opencl_peak *peak) {
  (void)peak;
  return 0;
}
int opencl_peak_width(const opencl_peak *peak) {
  (void)peak;
  return 0;
}
#endif
