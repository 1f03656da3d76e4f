/* The convolutions of cuDNN on the host, for testing how the plug-in describes and calls them. */
#include <cudnn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/kernels/values.h"
#include "fake_driver.h"

enum { AXES = 5, SPATIAL = 3, WORKSPACE = 1000, ALGORITHM = 1 };

/* For tests. An algorithm that is faster than the one that is always there and works with so many
 * bytes; 0: there is none. And the algorithm that ran last, with
 * what handle, on what stream. */
void fake_offer_faster(size_t bytes);
int fake_last_algorithm(void);
/* From now on: what cudnnCreate returns, and what the question for algorithms of a forward pass
 * does. No algorithm has run then. */
void fake_refuse(int create, int list);

void *fake_last_handle(void);
void *fake_last_stream(void);

struct cudnnContext {
  cudaStream_t stream;
};

static struct {
  size_t faster_bytes;
  int last;
  cudnnHandle_t handle;
  cudnnStatus_t create, list;
} asked;

void fake_refuse(int create, int list) {
  asked.last = 0;
  asked.create = (cudnnStatus_t)create;
  asked.list = (cudnnStatus_t)list;
}
void fake_offer_faster(size_t bytes) {
  asked.faster_bytes = bytes;
}
int fake_last_algorithm(void) {
  return asked.last;
}
void *fake_last_handle(void) {
  return asked.handle;
}
void *fake_last_stream(void) {
  return asked.handle->stream;
}

typedef struct fake_tensor {
  int axes, dim[AXES];
  crema_dtype type;
} fake_tensor;

typedef struct fake_conv {
  int axes, pad[SPATIAL], stride[SPATIAL], dilation[SPATIAL], group;
  cudnnMathType_t arithmetic;
} fake_conv;

size_t cudnnGetVersion(void) {
  const char *given = getenv("FAKE_CUDNN_VERSION");
  return given != NULL ? (size_t)atoi(given) : CUDNN_VERSION;
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "fake cuDNN refuses";
}
/* FAKE_CUDNN_STATUS is for a library whose parts are not all there. */
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  const char *given = getenv("FAKE_CUDNN_STATUS");
  if (given != NULL && given[0] != '\0') return (cudnnStatus_t)atoi(given);
  if (asked.create != CUDNN_STATUS_SUCCESS) return asked.create;
  if (fake_works_on() || fake_bound() < 0) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = calloc(1, sizeof **handle);
  fake_keep(*handle);
  return *handle != NULL ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (fake_unloaded()) abort();
  free(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == NULL || stream == NULL) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

/* ---- descriptors ---- */

static bool take_type(fake_tensor *t, cudnnDataType_t type) {
  if (type == CUDNN_DATA_HALF) t->type = CREMA_F16;
  else t->type = type == CUDNN_DATA_BFLOAT16 ? CREMA_BF16 : CREMA_F32;
  return type == CUDNN_DATA_FLOAT || t->type != CREMA_F32;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *out) {
  *out = calloc(1, sizeof(fake_tensor));
  return *out != NULL ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t desc) {
  free(desc);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t desc, cudnnDataType_t type,
                                         int axes, const int dim[], const int stride[]) {
  fake_tensor *t = (fake_tensor *)desc;
  if (!take_type(t, type) || axes < 4 || axes > AXES) return CUDNN_STATUS_BAD_PARAM;
  int step = 1;
  for (int a = axes - 1; a >= 0; --a) {
    if (stride[a] != step || dim[a] < 1) return CUDNN_STATUS_BAD_PARAM;
    step *= dim[a];
    t->dim[a] = dim[a];
  }
  t->axes = axes;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *out) {
  *out = calloc(1, sizeof(fake_tensor));
  return *out != NULL ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t desc) {
  free(desc);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t desc, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int axes, const int dim[]) {
  fake_tensor *t = (fake_tensor *)desc;
  if (!take_type(t, type) || format != CUDNN_TENSOR_NCHW || axes < 4 || axes > AXES) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  t->axes = axes;
  memcpy(t->dim, dim, (size_t)axes * sizeof *dim);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *out) {
  *out = calloc(1, sizeof(fake_conv));
  return *out != NULL ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t desc) {
  free(desc);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t desc, int axes,
                                              const int pad[], const int stride[],
                                              const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type) {
  fake_conv *c = (fake_conv *)desc;
  if (mode != CUDNN_CROSS_CORRELATION || type != CUDNN_DATA_FLOAT || axes < 2 || axes > SPATIAL) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  c->axes = axes;
  c->group = 1;
  memcpy(c->pad, pad, (size_t)axes * sizeof *pad);
  memcpy(c->stride, stride, (size_t)axes * sizeof *stride);
  memcpy(c->dilation, dilation, (size_t)axes * sizeof *dilation);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t desc, int group) {
  ((fake_conv *)desc)->group = group;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t desc, cudnnMathType_t type) {
  ((fake_conv *)desc)->arithmetic = type;
  return CUDNN_STATUS_SUCCESS;
}

/* ---- choosing ---- */

static bool fits(const fake_tensor *x, const fake_tensor *w, const fake_conv *c,
                 const fake_tensor *y) {
  /* Tensor cores multiply halves exactly, floats not. */
  const bool exact = c->arithmetic == CUDNN_FMA_MATH ||
                     (c->arithmetic == CUDNN_TENSOR_OP_MATH && x->type != CREMA_F32);
  if (!exact || x->type != w->type || x->type != y->type) return false;
  if (x->axes != c->axes + 2 || w->axes != x->axes || y->axes != x->axes) return false;
  if (x->dim[0] != y->dim[0] || w->dim[0] != y->dim[1] || w->dim[1] * c->group != x->dim[1] ||
      w->dim[0] % c->group != 0) {
    return false;
  }
  for (int a = 0; a < c->axes; ++a) {
    const int reach = c->dilation[a] * (w->dim[a + 2] - 1) + 1;
    const int room = x->dim[a + 2] + 2 * c->pad[a] - reach;
    if (room < 0 || room / c->stride[a] + 1 != y->dim[a + 2]) return false;
  }
  return true;
}

/* Candidates of which only the last two may be taken: they are deterministic, small, run with the
 * arithmetic of the descriptor and keep their digits; the first of them is there when a test offers
 * it. What they say of their memory is not to be relied on. */
enum { CANDIDATES = 8 };
#define FILL(perf, count, fft, tiled, winograd)                                     \
  memset(perf, 0, CANDIDATES * sizeof *(perf));                                     \
  (perf)[0].algo = 0;                                                               \
  (perf)[1].algo = large;                                                           \
  (perf)[2].algo = other_arithmetic;                                                \
  (perf)[3].algo = fft;                                                             \
  (perf)[4].algo = tiled;                                                           \
  (perf)[5].algo = winograd;                                                        \
  (perf)[6].algo = faster;                                                          \
  (perf)[7].algo = (int)ALGORITHM;                                                  \
  for (int i = 0; i < CANDIDATES; ++i) {                                            \
    (perf)[i].status = CUDNN_STATUS_SUCCESS;                                        \
    (perf)[i].time = -1;                                                            \
    (perf)[i].determinism = i == 0 ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC; \
  }                                                                                 \
  *(count) = CANDIDATES

/* Numbers that no algorithm has. */
static const int large = 20, other_arithmetic = 21, faster = 22;

static size_t bytes_of(int algorithm) {
  if (algorithm == large) return (size_t)1 << 40;
  return algorithm == faster ? asked.faster_bytes : WORKSPACE;
}

static cudnnStatus_t workspace_of(cudnnHandle_t handle, int algorithm, bool described,
                                  size_t *bytes) {
  if (handle == NULL || !described) return CUDNN_STATUS_BAD_PARAM;
  *bytes = bytes_of(algorithm);
  return algorithm == other_arithmetic || *bytes == 0 ? CUDNN_STATUS_NOT_SUPPORTED
                                                      : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algo, size_t *bytes) {
  const bool described = fits((fake_tensor *)x, (fake_tensor *)w, (fake_conv *)c, (fake_tensor *)y);
  return workspace_of(handle, (int)algo, described, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes) {
  const bool described =
      fits((fake_tensor *)dx, (fake_tensor *)w, (fake_conv *)c, (fake_tensor *)dy);
  return workspace_of(handle, (int)algo, described, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes) {
  const bool described =
      fits((fake_tensor *)x, (fake_tensor *)dw, (fake_conv *)c, (fake_tensor *)dy);
  return workspace_of(handle, (int)algo, described, bytes);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t y, const int wanted,
    int *count, cudnnConvolutionFwdAlgoPerf_t *perf) {
  if (handle == NULL || wanted < CANDIDATES ||
      !fits((fake_tensor *)x, (fake_tensor *)w, (fake_conv *)c, (fake_tensor *)y)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (asked.list != CUDNN_STATUS_SUCCESS) return asked.list;
  FILL(perf, count, CUDNN_CONVOLUTION_FWD_ALGO_FFT, CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING,
       CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t dx, const int wanted,
    int *count, cudnnConvolutionBwdDataAlgoPerf_t *perf) {
  if (handle == NULL || wanted < CANDIDATES ||
      !fits((fake_tensor *)dx, (fake_tensor *)w, (fake_conv *)c, (fake_tensor *)dy)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  FILL(perf, count, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING,
       CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t dw, const int wanted,
    int *count, cudnnConvolutionBwdFilterAlgoPerf_t *perf) {
  if (handle == NULL || wanted < CANDIDATES ||
      !fits((fake_tensor *)x, (fake_tensor *)dw, (fake_conv *)c, (fake_tensor *)dy)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  FILL(perf, count, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT,
       CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING,
       CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED);
  return CUDNN_STATUS_SUCCESS;
}

/* ---- convolving ---- */

static int size_of(const fake_tensor *t, int from) {
  int size = 1;
  for (int a = from; a < t->axes; ++a) size *= t->dim[a];
  return size;
}

static void decode(int index, int axes, const int *dim, int *at) {
  for (int a = axes - 1; a >= 0; --a) {
    at[a] = index % dim[a];
    index /= dim[a];
  }
}

/* The index of x that output `p` sees through window element `k`; -1 in the padding. */
static int seen(const fake_tensor *x, const fake_tensor *w, const fake_conv *c,
                const fake_tensor *y, int p, int k) {
  int out[SPATIAL], inside[SPATIAL], place = 0;
  decode(p, c->axes, y->dim + 2, out);
  decode(k, c->axes, w->dim + 2, inside);
  for (int a = 0; a < c->axes; ++a) {
    const int at = out[a] * c->stride[a] - c->pad[a] + inside[a] * c->dilation[a];
    if (at < 0 || at >= x->dim[a + 2]) return -1;
    place = place * x->dim[a + 2] + at;
  }
  return place;
}

typedef struct fake_run {
  const fake_tensor *x, *w, *y;
  const fake_conv *c;
  cr_values from_x, from_w, from_y; /* the one that is computed is absent */
  double *made;
} fake_run;

/* One (image, output channel, position): its products go to whatever is computed. */
static void visit(const fake_run *r, int n, int o, int p) {
  const int positions = size_of(r->y, 2), plane = size_of(r->x, 2), window = size_of(r->w, 2);
  const int inputs = r->w->dim[1], outputs = r->y->dim[1] / r->c->group;
  const int y_at = (n * r->y->dim[1] + o) * positions + p;
  for (int i = 0; i < inputs; ++i) {
    const int channel = o / outputs * inputs + i;
    for (int k = 0; k < window; ++k) {
      const int place = seen(r->x, r->w, r->c, r->y, p, k);
      if (place < 0) continue;
      const int x_at = (n * r->x->dim[1] + channel) * plane + place;
      const int w_at = (o * inputs + i) * window + k;
      const double x = r->from_x.at == NULL ? 0 : (double)cr_get(r->from_x, x_at);
      const double w = r->from_w.at == NULL ? 0 : (double)cr_get(r->from_w, w_at);
      const double y = r->from_y.at == NULL ? 0 : (double)cr_get(r->from_y, y_at);
      if (r->from_y.at == NULL) r->made[y_at] += x * w;
      else if (r->from_x.at == NULL) r->made[x_at] += y * w;
      else r->made[w_at] += x * y;
    }
  }
}

static cudnnStatus_t convolve(fake_run *r, int algorithm, void *workspace, size_t bytes,
                              const void *alpha, const void *beta, const fake_tensor *made,
                              void *memory) {
  const cr_values out = {memory, (int32_t)made->type};
  const float scale = *(const float *)alpha, old = *(const float *)beta;
  const int count = size_of(made, 0);
  if (fake_works_on()) return CUDNN_STATUS_EXECUTION_FAILED;
  if ((algorithm != ALGORITHM && algorithm != faster) || workspace == NULL ||
      bytes < bytes_of(algorithm) || !fits(r->x, r->w, r->c, r->y)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  asked.last = algorithm;
  r->made = calloc((size_t)count, sizeof *r->made);
  if (r->made == NULL) return CUDNN_STATUS_INTERNAL_ERROR;
  for (int n = 0; n < r->y->dim[0]; ++n) {
    for (int o = 0; o < r->y->dim[1]; ++o) {
      for (int p = 0; p < size_of(r->y, 2); ++p) visit(r, n, o, p);
    }
  }
  for (int i = 0; i < count; ++i) {
    const double sum = (double)scale * r->made[i];
    cr_put(out, i, (float)(old != 0 ? sum + (double)old * (double)cr_get(out, i) : sum));
  }
  free(r->made);
  memset(workspace, 0xff, bytes);
  return CUDNN_STATUS_SUCCESS;
}

static cr_values values_of(const fake_tensor *t, const void *data) {
  return (cr_values){(void *)(uintptr_t)data, (int32_t)t->type}; /* NOLINT */
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      const cudnnTensorDescriptor_t x, const void *x_data,
                                      const cudnnFilterDescriptor_t w, const void *w_data,
                                      const cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t bytes,
                                      const void *beta, const cudnnTensorDescriptor_t y,
                                      void *y_data) {
  fake_run run = {(fake_tensor *)x,
                  (fake_tensor *)w,
                  (fake_tensor *)y,
                  (fake_conv *)c,
                  values_of((fake_tensor *)x, x_data),
                  values_of((fake_tensor *)w, w_data),
                  values_of((fake_tensor *)y, NULL),
                  NULL};
  if (handle == NULL || handle->stream == NULL) return CUDNN_STATUS_BAD_PARAM;
  asked.handle = handle;
  return convolve(&run, (int)algo, workspace, bytes, alpha, beta, run.y, y_data);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           const cudnnFilterDescriptor_t w, const void *w_data,
                                           const cudnnTensorDescriptor_t dy, const void *dy_data,
                                           const cudnnConvolutionDescriptor_t c,
                                           cudnnConvolutionBwdDataAlgo_t algo, void *workspace,
                                           size_t bytes, const void *beta,
                                           const cudnnTensorDescriptor_t dx, void *dx_data) {
  fake_run run = {(fake_tensor *)dx,
                  (fake_tensor *)w,
                  (fake_tensor *)dy,
                  (fake_conv *)c,
                  values_of((fake_tensor *)dx, NULL),
                  values_of((fake_tensor *)w, w_data),
                  values_of((fake_tensor *)dy, dy_data),
                  NULL};
  if (handle == NULL || handle->stream == NULL) return CUDNN_STATUS_BAD_PARAM;
  asked.handle = handle;
  return convolve(&run, (int)algo, workspace, bytes, alpha, beta, run.x, dx_data);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             const cudnnTensorDescriptor_t x, const void *x_data,
                                             const cudnnTensorDescriptor_t dy, const void *dy_data,
                                             const cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void *workspace,
                                             size_t bytes, const void *beta,
                                             const cudnnFilterDescriptor_t dw, void *dw_data) {
  fake_run run = {(fake_tensor *)x,
                  (fake_tensor *)dw,
                  (fake_tensor *)dy,
                  (fake_conv *)c,
                  values_of((fake_tensor *)x, x_data),
                  values_of((fake_tensor *)dw, NULL),
                  values_of((fake_tensor *)dy, dy_data),
                  NULL};
  if (handle == NULL || handle->stream == NULL) return CUDNN_STATUS_BAD_PARAM;
  asked.handle = handle;
  return convolve(&run, (int)algo, workspace, bytes, alpha, beta, run.w, dw_data);
}
