/* The engines of the fake cuDNN, which tests make faster or refuse. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cudnn.h"
#include "fake_driver.h"

/* For tests. An engine that is faster than the one that is always there and works with so many
 * bytes; 0: there is none. And the engine that ran last, with what handle, on what stream. */
void fake_offer_faster(size_t bytes);
int fake_last_algorithm(void);
/* From now on: what cudnnCreate returns, and what the heuristics say of a forward pass. No engine
 * has run then. */
void fake_refuse(int create, int list);
/* From now on: what comes of making a plan. */
void fake_refuse_plans(int status);
/* From now on: the engines whose bits are set do not work. */
void fake_refuse_engines(uint64_t engines);

void *fake_last_handle(void);
void *fake_last_stream(void);

static struct {
  size_t faster_bytes;
  atomic_int last;               /* of whatever thread */
  _Atomic(cudnnHandle_t) handle; /* likewise */
  cudnnStatus_t create, list, plan;
  uint64_t refused;
} asked;

void fake_refuse(int create, int list) {
  asked.last = 0;
  asked.create = (cudnnStatus_t)create;
  asked.list = (cudnnStatus_t)list;
}
void fake_refuse_plans(int status) {
  asked.last = 0;
  asked.plan = (cudnnStatus_t)status;
}
void fake_refuse_engines(uint64_t engines) {
  asked.refused = engines;
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

void fake_note_run(int64_t engine, cudnnHandle_t handle) {
  asked.last = (int)engine;
  asked.handle = handle;
}

cudnnStatus_t fake_create_status(void) {
  return asked.create;
}
cudnnStatus_t fake_list_status(const fake_conv *c) {
  return c->pass == FAKE_FORWARD ? asked.list : CUDNN_STATUS_SUCCESS;
}

/* ---- the engines ---- */

/* For floats only two of them may be taken, and only one where addresses are not aligned; the
 * faster one is there when a test offers it. The other one comes behind all, in the fallback list.
 * Halves may be multiplied by the one on tensor cores, too, which comes before these. */
enum {
  SMALL = 1,
  CHANGING = 2, /* adds in any order */
  LARGE = 20,
  CUT = 21, /* floats to TF32, and sums of halves to halves */
  FASTER = 22,
  FFT = 23,
  TILES_6x6,
  TILES_13x13,
  TILES_OF_SOME_SIZE,
  COMPILED,
  UNSUPPORTED,
  REFUSED,
  BROKEN,
  ON_TENSOR_CORES = 31
};

enum { WORKSPACE = 1000 };

int fake_list(cudnnBackendHeurMode_t mode, int64_t *engine, int most) {
  static const int first[] = {
      CHANGING, LARGE,       CUT,     FFT,    TILES_6x6,       TILES_13x13, TILES_OF_SOME_SIZE,
      COMPILED, UNSUPPORTED, REFUSED, BROKEN, ON_TENSOR_CORES, FASTER};
  static const int behind[] = {FFT, CHANGING, SMALL};
  const bool fallback = mode == CUDNN_HEUR_MODE_FALLBACK;
  const int *list = fallback ? behind : first;
  int count = (int)(fallback ? sizeof behind / sizeof *behind : sizeof first / sizeof *first);
  for (int i = 0; i < count && i < most; ++i) engine[i] = list[i];
  return count;
}

int fake_numerical_notes(int64_t engine, crema_dtype type, cudnnBackendNumericalNote_t *notes) {
  const bool halves = type != CREMA_F32;
  int count = 0;
  if (halves || engine == ON_TENSOR_CORES) notes[count++] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  switch (engine) {
    case CHANGING: notes[count++] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC; break;
    case FFT: notes[count++] = CUDNN_NUMERICAL_NOTE_FFT; break;
    case TILES_6x6: notes[count++] = CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6; break;
    case TILES_13x13: notes[count++] = CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13; break;
    case TILES_OF_SOME_SIZE: notes[count++] = CUDNN_NUMERICAL_NOTE_WINOGRAD; break;
    case FASTER:
      notes[count++] = CUDNN_NUMERICAL_NOTE_WINOGRAD;
      notes[count++] = CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4;
      break;
    case CUT:
      notes[count++] = halves ? CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION
                              : CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
      break;
    default: break;
  }
  return count;
}

int fake_behavior_notes(int64_t engine, cudnnBackendBehaviorNote_t *notes) {
  int count = 0;
  if (engine == COMPILED) notes[count++] = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  if (engine == SMALL) notes[count++] = CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER;
  return count;
}

cudnnStatus_t fake_plan_status(int64_t engine, const fake_conv *c) {
  if (asked.plan != CUDNN_STATUS_SUCCESS) return asked.plan;
  if ((asked.refused >> engine & 1) != 0) return CUDNN_STATUS_NOT_SUPPORTED;
  switch (engine) {
    case UNSUPPORTED: return CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH;
    case REFUSED: return CUDNN_STATUS_BAD_PARAM;
    case BROKEN: return CUDNN_STATUS_INTERNAL_ERROR;
    case FASTER:
      if (asked.faster_bytes == 0) return CUDNN_STATUS_NOT_SUPPORTED;
      return c->x.alignment < 16 ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    default: return CUDNN_STATUS_SUCCESS;
  }
}

int64_t fake_plan_bytes(int64_t engine) {
  if (engine == LARGE) return (int64_t)1 << 40;
  return engine == FASTER ? (int64_t)asked.faster_bytes : WORKSPACE;
}
