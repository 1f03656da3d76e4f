/* Teams: the threads of one block that work on one segment together.
 *
 * A body with a team goes through its segment in steps of team.lanes, beginning at team.lane, and
 * joins the lanes' results with the calls below, which every lane must reach. A team of one lane is
 * a thread by itself, on the device as on the host. Sums are made in a fixed order, so that equal
 * inputs give equal bits. */
#ifndef CR_CUDA_KERNELS_TEAM_H
#define CR_CUDA_KERNELS_TEAM_H

#include "device/cuda/kernels/hd.h"

typedef struct cr_team {
  int lane, lanes; /* on the device: 1, or a multiple of 32 up to 1024 */
  void *host;      /* how the lanes of a team on the host meet; NULL on the device */
} cr_team;

#ifdef __CUDACC__

/* On the device; nvcc's host pass needs a definition too, which nothing calls. */
CR_HD double cr_team_sum(cr_team team, double value) {
#ifdef __CUDA_ARCH__
  __shared__ double part[32];
  if (team.lanes == 1) return value;
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (team.lanes == 32) return value;
  __syncthreads(); /* everybody has read the parts of the sum before */
  if (team.lane % 32 == 0) part[team.lane / 32] = value;
  __syncthreads();
  value = part[0];
  for (int warp = 1; warp < team.lanes / 32; ++warp) value += part[warp];
#endif
  (void)team;
  return value;
}

CR_HD float cr_team_max(cr_team team, float value) {
#ifdef __CUDA_ARCH__
  __shared__ float part[32];
  if (team.lanes == 1) return value;
  for (int step = 16; step > 0; step >>= 1) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = other > value ? other : value;
  }
  if (team.lanes == 32) return value;
  __syncthreads();
  if (team.lane % 32 == 0) part[team.lane / 32] = value;
  __syncthreads();
  value = part[0];
  for (int warp = 1; warp < team.lanes / 32; ++warp) {
    value = part[warp] > value ? part[warp] : value;
  }
#endif
  (void)team;
  return value;
}

/* All lanes have come here before one goes on; what they wrote is seen by all. */
CR_HD void cr_team_meet(cr_team team) {
#ifdef __CUDA_ARCH__
  if (team.lanes > 1) __syncthreads();
#endif
  (void)team;
}

#else

/* For the tests; the sum over the lanes, the largest value, and a barrier. */
double cr_team_sum(cr_team team, double value);
float cr_team_max(cr_team team, float value);
void cr_team_meet(cr_team team);

#endif

#endif
