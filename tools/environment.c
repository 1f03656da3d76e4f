/* The environment variables that the library and the command read. */
#include <stdio.h>

#include "help.h"

typedef struct variable {
  const char *name, *help; /* no help: the name is the heading of a group */
} variable;

static const variable variables[] = {
    {"Files", NULL},
    {"CREMA_MAX_FILE=SIZE",
     "largest file that is read whole, such as 500M or 4G (default 1G;\n"
     "weights, states and means 64G; pipes and devices 64M)"},
    {"CREMA_HDF5_MODULE=FILE", "libcrema-hdf5.so, if it is not next to the command"},
    {"CREMA_HDF5_FORK=0", "read HDF5 files in crema's own process; a damaged file may crash it"},
    {"CREMA_FFMPEG=FILE", "the program that decodes VideoData (default: ffmpeg in PATH)"},
    {"CREMA_PYTHON=FILE", "the interpreter that runs layers of type Python (default: python3)"},
    {"TMPDIR=DIR", "folder for temporary links to LevelDB databases (default /tmp)"},
    {"Threads", NULL},
    {"OMP_NUM_THREADS=N",
     "threads that compute (default: all cores; several processes share them)"},
    {"OMP_STACKSIZE=SIZE", "stack of each thread that computes; also GOMP_STACKSIZE"},
    {"OMP_WAIT_POLICY=WORD",
     "how idle threads wait; if it or GOMP_SPINCOUNT is set, crema keeps it"},
    {"CREMA_NUMA=1", "place host memory on the memory node of the thread that allocates it"},
    {"Devices", NULL},
    {"CREMA_SIM=N", "start N simulated devices, which compute on the CPU; -gpu selects them"},
    {"CREMA_GPU_POOL=KIND",
     "how device memory is kept for reuse: bins (the default), cub, none or\n"
     "thc, which is safe only for programs with one stream"},
    {"DEBUG_GPU_MEM=1", "log each block that the pool takes from a device's driver or returns"},
    {"CREMA_CUDA_PLUGIN=FILE", "libcrema-cuda.so, if it is not next to the command"},
    {"CREMA_CUDA_PATH=DIR:...", "searched first for cuBLASLt, cuDNN and NCCL"},
    {"CREMA_CUDA_WAIT=sleep", "threads that wait for a CUDA device sleep (default: spin)"},
    {"CUDA_HOME=DIR:...", "searched after the loader's path, before /usr/local/cuda"},
    {"CREMA_OPENCL=TEXT",
     "-gpu 0 means the first OpenCL device whose name or platform has the\n"
     "text (1 or all: any)"},
    {"CREMA_OPENCL_PLUGIN=FILE", "libcrema-opencl.so, if it is not next to the command"},
    {"CREMA_OPENCL_PATH=DIR:...", "searched first for libOpenCL.so.1 and libclblast.so.1"},
    {"CREMA_OPENCL_BLAS=own", "matrix products by crema's own kernel, even if CLBlast is there"},
    {"CREMA_OPENCL_DOUBLE=0", "no double precision, as on devices that have none"},
    {"CREMA_OPENCL_FORMS=1", "kernels for single element types on OpenCL's CPUs, too"},
    {"CREMA_OPENCL_OPTIONS=TEXT", "more options for the compiler of OpenCL kernels"},
    {"CREMA_OPENCL_CACHE=DIR",
     "folder of compiled OpenCL kernels (empty: none; default:\n"
     "crema/opencl in XDG_CACHE_HOME, or .cache/crema/opencl in HOME)"},
    {"CREMA_MPI_PATH=DIR", "folder of libmpi.so.40 (default: the loader's path)"},
    {"Log", NULL},
    {"CREMA_VERBOSE=N",
     "1: log each kernel that runs and each conversion of values;\n"
     "2: also rejected kernels, copies and memory"},
    {"GLOG_FLAG=VALUE",
     "default of a flag of the log, such as GLOG_minloglevel=1 (crema help\n"
     "logging); a flag overrides its variable"},
    {"NO_COLOR=1", "no colours on a terminal; TERM=dumb has the same effect"},
};

static void print_variable(const variable *v) {
  printf("  %-26s ", v->name);
  for (const char *at = v->help; *at != '\0'; ++at) {
    putchar(*at);
    if (*at == '\n') printf("%29s", "");
  }
  putchar('\n');
}

void cli_print_environment(void) {
  printf("Environment variables that crema reads:\n");
  for (size_t i = 0; i < sizeof variables / sizeof *variables; ++i) {
    if (variables[i].help == NULL) printf("\n%s:\n", variables[i].name);
    else print_variable(&variables[i]);
  }
  printf(
      "\nmpirun and srun set OMPI_COMM_WORLD_SIZE, PMIX_NAMESPACE, PMIX_RANK, PMI_SIZE and\n"
      "SLURM_STEP_NUM_TASKS; crema reads from them how many processes train together.\n");
}
