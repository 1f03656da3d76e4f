/* Programs: one for each device function, built when it is first needed and kept on disk. */
#define _GNU_SOURCE /* secure_getenv */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/system.h"
#include "device/opencl/opencl_private.h"
#include "device/opencl/opencl_product.h"

enum { OPTIONS = 512, PATH = 4096, LOG = 600 };

/* Element types and limits as the device functions name them, from crema/types.h. */
static const char numbers[] =
#define CREMA_NUMBER(name, value, bytes, text) "#define CREMA_" #name " " #value "\n"
    CREMA_DTYPE_MAP(CREMA_NUMBER)
#undef CREMA_NUMBER
        "#define CREMA_MAX_AXES 32\n";
_Static_assert(CREMA_MAX_AXES == 32, "the number above");

/* prelude.cl and the device functions, a line each, without their includes. */
static const char *const source[] = {
#include "opencl_source.inc"
};
enum { SOURCE_LINES = sizeof source / sizeof source[0] };

/* product.cl. */
static const char *const product_source[] = {
#include "opencl_product.inc"
};
enum { PRODUCT_LINES = sizeof product_source / sizeof product_source[0] };

/* ---- the cache ---- */

/* In front of a program's binary in its file. */
typedef struct cache_head {
  char magic[8];
  uint64_t bytes, digest; /* of the binary */
} cache_head;
static const char cache_magic[8] = "cremacl1";

/* FNV-1a. */
static uint64_t digest_of(uint64_t digest, const void *data, size_t bytes) {
  const unsigned char *at = data;
  for (size_t i = 0; i < bytes; ++i) digest = (digest ^ at[i]) * 1099511628211u;
  return digest;
}

static uint64_t digest_text(uint64_t digest, const char *text) {
  return digest_of(digest, text, strlen(text) + 1);
}

static bool make_folder(char *path) {
  for (char *at = path + 1; *at != '\0'; ++at) {
    if (*at != '/') continue;
    *at = '\0';
    const bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
    *at = '/';
    if (!made) return false;
  }
  return true;
}

/* The file of a program; false: there is no cache. CREMA_OPENCL_CACHE: the folder; empty: none. */
static bool cache_path(const cr_opencl_device *own, const char *const *lines, cl_uint count,
                       const char *options, char path[PATH]) {
  const char *folder = secure_getenv("CREMA_OPENCL_CACHE");
  const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
  uint64_t key[2] = {14695981039346656037u, 1099511628211u};
  for (int k = 0; k < 2; ++k) {
    key[k] = digest_text(key[k], own->name);
    key[k] = digest_text(key[k], own->version);
    key[k] = digest_text(key[k], own->driver);
    key[k] = digest_text(key[k], options);
    for (cl_uint i = 0; i < count; ++i) key[k] = digest_text(key[k], lines[i]);
  }
  int length = -1;
  const unsigned long long first = key[0], second = key[1];
  if (folder != NULL) {
    if (folder[0] == '\0') return false;
    length = snprintf(path, PATH, "%s/%016llx%016llx.bin", folder, first, second);
  } else if (base != NULL && base[0] == '/') {
    length = snprintf(path, PATH, "%s/crema/opencl/%016llx%016llx.bin", base, first, second);
  } else if (home != NULL && home[0] == '/') {
    length = snprintf(path, PATH, "%s/.cache/crema/opencl/%016llx%016llx.bin", home, first, second);
  }
  return length > 0 && length < PATH;
}

/* The binary in the file; NULL: none that is complete. The caller frees it. */
static unsigned char *read_binary(const char *path, size_t *bytes) {
  cache_head head;
  unsigned char *binary = NULL;
  FILE *file = fopen(path, "rbe");
  if (file == NULL) return NULL;
  if (fread(&head, sizeof head, 1, file) == 1 &&
      memcmp(head.magic, cache_magic, sizeof cache_magic) == 0 && head.bytes < SIZE_MAX / 2) {
    binary = malloc((size_t)head.bytes + 1);
    if (binary != NULL &&
        (fread(binary, 1, (size_t)head.bytes, file) != head.bytes ||
         digest_of(14695981039346656037u, binary, (size_t)head.bytes) != head.digest)) {
      free(binary);
      binary = NULL;
    }
    *bytes = (size_t)head.bytes;
  }
  (void)fclose(file);
  return binary;
}

/* A file appears complete or not at all. A failure costs the time of the next build only. */
static void write_binary(const char *path, const unsigned char *binary, size_t bytes) {
  char draft[PATH + 16];
  cache_head head = {.bytes = bytes, .digest = digest_of(14695981039346656037u, binary, bytes)};
  memcpy(head.magic, cache_magic, sizeof cache_magic);
  snprintf(draft, sizeof draft, "%s.XXXXXX", path);
  if (!make_folder(draft)) return;
  const int descriptor = mkstemp(draft);
  FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
  if (file == NULL) {
    if (descriptor >= 0) (void)close(descriptor);
    return;
  }
  const bool written =
      fwrite(&head, sizeof head, 1, file) == 1 && fwrite(binary, 1, bytes, file) == bytes;
  if (fclose(file) != 0 || !written || rename(draft, path) != 0) (void)unlink(draft);
}

static void keep_binary(const char *path, cl_program program) {
  size_t bytes = 0;
  unsigned char *binary = NULL;
  if (cr_cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) !=
          CL_SUCCESS ||
      bytes == 0) {
    return;
  }
  binary = malloc(bytes);
  if (binary != NULL && cr_cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary,
                                               NULL) == CL_SUCCESS) {
    write_binary(path, binary, bytes);
  }
  free(binary);
}

/* ---- building ---- */

/* The program in the cache; NULL: none, or the driver rejects it. */
static cl_program from_cache(const cr_opencl_device *own, const char *path, const char *options) {
  size_t bytes = 0;
  cl_int error = CL_SUCCESS, accepted = CL_SUCCESS;
  unsigned char *binary = read_binary(path, &bytes);
  if (binary == NULL) return NULL;
  cl_program program = cr_cl.clCreateProgramWithBinary(
      own->context, 1, &own->id, &bytes, (const unsigned char **)&binary, &accepted, &error);
  free(binary);
  if (error != CL_SUCCESS) return NULL;
  if (accepted == CL_SUCCESS &&
      cr_cl.clBuildProgram(program, 1, &own->id, options, NULL, NULL) == CL_SUCCESS) {
    return program;
  }
  (void)cr_cl.clReleaseProgram(program);
  return NULL;
}

/* The first lines of the compiler's log. */
static crema_status build_failure(const crema_device *device, const char *name, cl_program program,
                                  cl_int error) {
  const cr_opencl_device *own = cr_opencl_of(device);
  size_t bytes = 0;
  char *log = NULL;
  if (cr_cl.clGetProgramBuildInfo(program, own->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) ==
      CL_SUCCESS) {
    log = calloc(1, bytes + 1);
  }
  if (log != NULL) {
    (void)cr_cl.clGetProgramBuildInfo(program, own->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    for (char *end = strchr(log, '\n'); end != NULL; end = strchr(end, '\n')) *end = ' ';
  }
  crema_status status =
      cr_fail(CREMA_E_DEVICE, "%s: kernel %s does not compile (OpenCL error %d): %.*s", own->name,
              name, (int)error, LOG, log != NULL ? log : "");
  free(log);
  return status;
}

static crema_status from_source(crema_device *device, const char *name, const char *const *lines,
                                cl_uint count, const char *options, cl_program *out) {
  const cr_opencl_device *own = cr_opencl_of(device);
  cl_int error = CL_SUCCESS;
  cl_program program =
      cr_cl.clCreateProgramWithSource(own->context, count, (const char **)lines, NULL, &error);
  CR_TRY(cr_opencl_check(device, error, "making a program"));
  error = cr_cl.clBuildProgram(program, 1, &own->id, options, NULL, NULL);
  if (error == CL_SUCCESS) {
    *out = program;
    return CREMA_OK;
  }
  crema_status status = build_failure(device, name, program, error);
  (void)cr_cl.clReleaseProgram(program);
  return status;
}

/* CREMA_OPENCL_OPTIONS: more options for the compiler. */
static void write_options(const cr_opencl_device *own, const char *more, char options[OPTIONS]) {
  const char *users = getenv("CREMA_OPENCL_OPTIONS");
  snprintf(options, OPTIONS, "-cl-std=CL1.2%s%s%s%s %s",
           own->correct_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
           own->has_double ? "" : " -cl-single-precision-constant -D CR_NO_DOUBLE", more,
           users != NULL ? " " : "", users != NULL ? users : "");
}

static crema_status build(crema_device *device, const char *name, const char *const *lines,
                          cl_uint count, const char *more, cl_program *out) {
  const cr_opencl_device *own = cr_opencl_of(device);
  char options[OPTIONS], path[PATH];
  write_options(own, more, options);
  const bool cached = cache_path(own, lines, count, options, path);
  *out = cached ? from_cache(own, path, options) : NULL;
  if (*out != NULL) return CREMA_OK;
  CR_TRY(from_source(device, name, lines, count, options, out));
  if (cached) keep_binary(path, *out);
  return CREMA_OK;
}

/* The sources of all programs, then their kernels'. */
typedef struct program_text {
  const char *line[1 + SOURCE_LINES + PRODUCT_LINES];
  cl_uint lines;
} program_text;

static const char *const options_of[CR_FORMS] = {[CR_FORM_F32] = " -D CR_ONE_TYPE=CREMA_F32",
                                                 [CR_FORM_F16] = " -D CR_ONE_TYPE=CREMA_F16",
                                                 [CR_FORM_BF16] = " -D CR_ONE_TYPE=CREMA_BF16"};

static crema_status build_function(crema_device *device, int function, cr_gpu_form form,
                                   cl_program *out) {
  char more[128] = "", *wrapper = NULL;
  const bool product = function >= CR_OPENCL_PRODUCT;
  program_text *text = malloc(sizeof *text);
  if (text == NULL) return cr_fail_memory(sizeof *text, "a program");
  text->line[0] = numbers;
  memcpy(text->line + 1, source, sizeof source);
  text->lines = 1 + SOURCE_LINES;
  crema_status status = CREMA_OK;
  if (product) {
    memcpy(text->line + text->lines, product_source, sizeof product_source);
    text->lines += PRODUCT_LINES;
    cr_opencl_product_options(cr_opencl_of(device), function, more, sizeof more);
  } else {
    status = cr_opencl_wrapper(cr_opencl_of(device), function, &wrapper);
    text->line[text->lines++] = wrapper;
  }
  const size_t length = strlen(more);
  if (form != CR_FORM_ANY) snprintf(more + length, sizeof more - length, "%s", options_of[form]);
  if (status == CREMA_OK) {
    status = build(device, product ? "product" : cr_gpu_function_name(function), text->line,
                   text->lines, more, out);
  }
  free(wrapper);
  free(text);
  return status;
}

/* Guards the programs of all devices. Compilers are not called from two threads at a time: not all
 * of them can be. */
static pthread_mutex_t build_lock = PTHREAD_MUTEX_INITIALIZER;

crema_status cr_opencl_program(crema_device *device, int function, cr_gpu_form form,
                               cl_program *out) {
  cr_opencl_device *own = cr_opencl_of(device);
  pthread_mutex_lock(&build_lock);
  cl_program *program = &own->program[form][function];
  crema_status status =
      *program != NULL ? CREMA_OK : build_function(device, function, form, program);
  *out = *program;
  pthread_mutex_unlock(&build_lock);
  return status;
}
